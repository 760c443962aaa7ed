//go:build !linux

package wire

import "net"

// socket is what other systems do not have.
type socket struct{}

func socketOf(net.Conn) *socket { return nil }

// silent cannot be known here.
func silent(net.Conn) bool { return true }

func (*socket) read(_, _ []byte) (int, error) { return 0, net.ErrClosed }
func (*socket) await(int)                     {}
func (*socket) prompt(bool)                   {}
