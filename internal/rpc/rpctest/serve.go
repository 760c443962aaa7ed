package rpctest

import (
	"net"
	"testing"

	"google.golang.org/grpc"
)

// Serve runs a server on a port of this machine until the test ends, and returns its address.
func Serve(t testing.TB, s *grpc.Server) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}
