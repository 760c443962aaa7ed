package rpc_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/penstock-ml/penstock/internal/rpc"
)

// TestSilentStrangers: who connects and says nothing is sent away, with links and without, before a server would be
// killed that waits for it in order to stop.
func TestSilentStrangers(t *testing.T) {
	for _, says := range []string{"", string(preface[:])} {
		synctest.Test(t, func(t *testing.T) {
			option, err := rpc.Links(rpc.Config{}, preface, func(c net.Conn) error {
				_, err := c.Read(make([]byte, 1))
				return errors.Join(err, c.Close())
			})
			if err != nil {
				t.Fatal(err)
			}
			s, err := rpc.NewServer(rpc.Config{}, option)
			if err != nil {
				t.Fatal(err)
			}
			l := bufconn.Listen(1 << 10)
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			conn, err := l.DialContext(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, says); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil { // of the test's own time
				t.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("after %q a silent connection ends with %v", says, err)
			}
			s.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}
