package cli_test

import (
	"net"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/cli"
)

// A port that another process has is said to be taken, by the name of its flag and with the way out.
func TestListenOnATakenPort(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, want := range map[string]string{
		taken.Addr().String(): "--listen: another process has " + taken.Addr().String(),
		"192.0.2.1:0":         "give HOST:PORT of this machine",
		"7070":                "give HOST:PORT of this machine",
	} {
		l, err := cli.Listen(t.Context(), "listen", address)
		if err == nil {
			l.Close()
			t.Errorf("%s: no error", address)
		} else if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "port 0") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
