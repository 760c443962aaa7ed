package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// socket is a TCP connection as the kernel has it. One goroutine reads; any may hurry it.
type socket struct {
	raw  syscall.RawConn
	into [2][]byte // of a read
	n    int
	err  error
	try  func(fd uintptr) bool // what is there, if anything is

	mu     sync.Mutex
	mark   int  // SO_RCVLOWAT
	hurry  bool // it stays at 1
	change func(fd uintptr)
}

// socketOf is a connection's; nil if only the connection itself can be read, as with TLS.
func socketOf(conn net.Conn) *socket {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{raw: raw, mark: 1}
	s.try = func(fd uintptr) bool {
		for {
			s.n, s.err = unix.Readv(int(fd), s.into[:])
			if !errors.Is(s.err, unix.EINTR) {
				return !errors.Is(s.err, unix.EAGAIN)
			}
		}
	}
	// What cannot be set stays at 1, and reads are woken as ever.
	s.change = func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, s.mark) }
	return s
}

// silent reports whether nothing has come over a connection, not even its end.
func silent(conn net.Conn) bool {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	of, ok := conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return false
	}
	nothing := false
	err = raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		nothing = errors.Is(err, unix.EAGAIN)
		return true
	})
	return err == nil && nothing
}

// read waits for bytes, which fill p and then more.
func (s *socket) read(p, more []byte) (int, error) {
	s.into = [2][]byte{p, more}
	err := s.raw.Read(s.try)
	s.into = [2][]byte{}
	switch {
	case err != nil: // closed, or the deadline is over
		return 0, err
	case s.err != nil:
		return 0, os.NewSyscallError("readv", s.err)
	case s.n == 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// await has reads sleep until n bytes have come.
func (s *socket) await(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hurry {
		s.to(n)
	}
}

// prompt has reads be woken by every byte, also one that sleeps, as long as it is on.
func (s *socket) prompt(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurry = on
	s.to(1)
}

// to sets the mark. s.mu must be held.
func (s *socket) to(n int) {
	if s.mark != n {
		s.mark = n
		_ = s.raw.Control(s.change) // fails only if it is closed
	}
}
