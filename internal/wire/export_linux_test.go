package wire

import (
	"context"
	"net"
	"os"
)

// OfUser fails unless the process at the other end is a user's.
func OfUser(conn net.Conn, user int) error { return ofUser(conn, user) }

// LendOn returns a sender whose stream has a near link on conn.
func LendOn(ctx context.Context, conn net.Conn) *Sender {
	s := SendOn(ctx, conn)
	s.lender = newLender(conn)
	s.link.lender.Store(s.lender)
	go func() { s.lender.gone(s.link.hear()) }()
	return s
}

// Ends says that nothing more is lent.
func (s *Sender) Ends() { s.lender.end() }

// Given waits until all has been given back.
func (s *Sender) Given() error { return s.lender.wait() }

// Leave closes the lender's end of its link.
func (s *Sender) Leave() { _ = s.lender.close() }

// Inherit has the client's socket as a process would that it forked.
func (s *Stream) Inherit() (*os.File, error) { return s.link.loans.conn.File() }

// Close closes a link.
func (l *Link) Close() { _ = l.link.Close() }
