package fake

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
)

// TestAddressesAreKept takes a name's port away between its uses, as a connection that goes out might, or another
// program that listens: it is kept.
func TestAddressesAreKept(t *testing.T) {
	n := Loopback(t)
	address := n.Address("w1")
	for listener := range 2 {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, listener); err != nil {
			t.Fatal(err)
		}
		at := netip.MustParseAddrPort(address)
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("bind %s: %v; want %v", address, err, syscall.EADDRINUSE)
		}
		if err := syscall.Close(fd); err != nil {
			t.Error(err)
		}
		l := n.Listen("w1")
		if got := l.Addr().String(); got != address {
			t.Errorf("listens at %s; its address is %s", got, address)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
