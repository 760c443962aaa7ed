//go:build !linux

package wire

import (
	"context"
	"errors"
	"net"
)

// There are no near links here, and nothing below is called.

// ListenNear fails.
func ListenNear(context.Context, string) (net.Listener, error) { return nil, errors.ErrUnsupported }

// ServeNear has nothing to serve.
func (l *LinkServer) ServeNear(context.Context, net.Listener) {}

func dialNear(context.Context, string) (net.Conn, error) { return nil, errors.ErrUnsupported }

type lender struct{}

func newLender(net.Conn) *lender { return nil }

func (*lender) gone(error) {}

func (*lender) back(uint32) error { return errors.ErrUnsupported }

func (*lender) close() error { return errors.ErrUnsupported }

func (*lender) lend(*parcel) error { return errors.ErrUnsupported }

func (*lender) end() {}

func (*lender) wait() error { return errors.ErrUnsupported }

type loans struct{}

func newLoans(net.Conn) *loans { return nil }

func (*loans) read([]byte) (int, error) { return 0, errors.ErrUnsupported }

func (*loans) take(uint32, int) (*Memory, error) { return nil, errors.ErrUnsupported }

func (*loans) end(context.Context, <-chan struct{}) error { return errors.ErrUnsupported }

func (*loans) close() error { return errors.ErrUnsupported }

type loan struct{}

func (*loan) free() {}
