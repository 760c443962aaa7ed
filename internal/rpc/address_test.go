package rpc_test

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/penstock-ml/penstock/internal/rpc"
)

// TestAddresses: what listens somewhere says where, and is found there.
func TestAddresses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "port.sock")
	for _, listen := range []string{"127.0.0.1:0", "unix:" + file, "unix://" + file} {
		network, to := rpc.Network(listen)
		l, err := net.Listen(network, to)
		if err != nil {
			t.Fatal(err)
		}
		network, to = rpc.Network(rpc.AddressOf(l.Addr()))
		conn, err := net.Dial(network, to)
		if err != nil {
			t.Errorf("%s says that it is at %s: %v", listen, rpc.AddressOf(l.Addr()), err)
		} else {
			_ = conn.Close()
		}
		_ = l.Close()
	}
}
