package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/internal/shared"
)

// maxMapped bounds what a client maps of a stream's: many times what a stream's server has.
const maxMapped = 64

// nearName is the name of the Unix socket of a server that is reached at an address. It exists within a network
// namespace, without a file.
func nearName(address string) string { return "@penstock-link " + address }

// ListenNear listens for near links to the server that clients know by an address.
func ListenNear(ctx context.Context, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", nearName(address))
	if err != nil {
		return nil, fmt.Errorf("wire: listen for near links: %w", err)
	}
	return listener, nil
}

// ServeNear lets clients of the same user on this machine open near links until ctx ends, and closes their listener.
func (l *LinkServer) ServeNear(ctx context.Context, listener net.Listener) {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // what it waits for fails then
	defer stop()
	var entering sync.WaitGroup
	defer entering.Wait()
	for {
		conn, err := listener.Accept()
		if err != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(nearTimeout): // no file was free, or the like
				continue
			}
		}
		entering.Go(func() { _ = l.enterNear(conn) }) // its client goes another way
	}
}

// enterNear lets a near link in, if the process at its other end is of the same user.
func (l *LinkServer) enterNear(conn net.Conn) error {
	var first [len(Preface)]byte
	err := errors.Join(ofUser(conn, os.Geteuid()), conn.SetDeadline(time.Now().Add(nearTimeout)))
	if err == nil {
		_, err = io.ReadFull(conn, first[:])
	}
	if err == nil && first != Preface {
		err = errMessage
	}
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	return errors.Join(l.Enter(conn), conn.SetDeadline(time.Time{}))
}

// dialNear connects to a server of this user on this machine.
func dialNear(ctx context.Context, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", nearName(address))
	if err != nil {
		return nil, err
	}
	if err := ofUser(conn, os.Geteuid()); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// ofUser fails unless the process at the other end of a Unix socket is of a user. This one's may read its memory
// anyway.
func ofUser(conn net.Conn, user int) error {
	raw, err := conn.(syscall.Conn).SyscallConn() //nolint:forcetypeassert // a Unix socket's
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET,
			unix.SO_PEERCRED)
	})
	if err := errors.Join(failed, err); err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if int(peer.Uid) != user {
		return fmt.Errorf("wire: a near link's other end is user %d", peer.Uid)
	}
	return nil
}

// lender lends the memory of a stream's batches to the client of a near link.
type lender struct {
	conn *net.UnixConn
	over chan struct{} // closed when nothing more comes back to be used again

	mu    sync.Mutex
	sent  map[uint32]*shared.Memory // that the client may have mapped
	out   map[uint32]*parcel        // what it has a batch in
	ended bool                      // nothing more is lent
	left  bool                      // over is closed
	err   error                     // why nothing more comes back; nil: because all has
}

// newLender lends over a connection; nil if that is no near link's.
func newLender(conn net.Conn) *lender {
	near, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	return &lender{
		conn: near, over: make(chan struct{}), sent: make(map[uint32]*shared.Memory),
		out: make(map[uint32]*parcel),
	}
}

// gone says that the client has left. If it had not given back all, what it has is lost, and is its until it closes the
// connection.
func (l *lender) gone(err error) {
	l.leave(err)
	if l.wait() == nil {
		return
	}
	_, _ = io.Copy(io.Discard, l.conn)
	_ = l.conn.Close() // nobody uses it
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget()
}

// forget says that the client has nothing mapped. l.mu must be held.
func (l *lender) forget() {
	for _, m := range l.sent {
		m.Returned()
	}
	clear(l.sent)
}

// lend sends a batch's message, and lends its memory. The parcel is freed when that comes back, or never will.
func (l *lender) lend(p *parcel) error {
	l.mu.Lock() // nobody closes the memory's file meanwhile
	defer l.mu.Unlock()
	if l.err != nil {
		defer p.free()
		return l.err
	}
	m, message := p.memory, p.pieces[0]
	l.out[m.Number] = p
	var n int
	var err error
	if l.sent[m.Number] == nil {
		m.Lend()
		l.sent[m.Number] = m
		n, _, err = l.conn.WriteMsgUnix(message, unix.UnixRights(m.File()), nil)
	}
	if err == nil && n < len(message) {
		_, err = l.conn.Write(message[n:])
	}
	return err
}

// end says that nothing more is lent.
func (l *lender) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// back takes back what the client gives back. It fails if that is not the client's.
func (l *lender) back(number uint32) error {
	l.mu.Lock()
	p, all := l.out[number], l.ended && !l.left && len(l.out) == 0
	if p != nil {
		delete(l.out, number)
		p.free() // before whoever ends the stream goes on
	}
	l.mu.Unlock()
	switch {
	case p != nil:
		return nil
	case number == 0 && all:
		l.leave(nil)
		return nil
	}
	return errLeaves
}

// leave says that nothing more comes back, because of an error, or, if it is nil, because all has. What the client has
// is given up then: it may be reading it for as long as it likes.
func (l *lender) leave(err error) {
	if err != nil {
		_ = l.conn.SetWriteDeadline(time.Unix(1, 0)) // what is being written fails, and lets go of l.mu
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left {
		return
	}
	l.left, l.err = true, err
	for _, p := range l.out {
		p.memory.Free()
		p.free()
	}
	clear(l.out)
	if err == nil {
		l.forget()
	}
	close(l.over)
}

// close closes the connection, or only its end of it while the client has memory mapped.
func (l *lender) close() error {
	l.leave(net.ErrClosed)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.sent) > 0 {
		return l.conn.CloseWrite()
	}
	return l.conn.Close()
}

// wait waits until all has been given back. It fails if the connection was closed before.
func (l *lender) wait() error {
	<-l.over
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// loans is what a near link's client has of its server's memory.
type loans struct {
	conn *net.UnixConn
	oob  []byte // the reader's

	mu     sync.Mutex
	files  []int // that came, in order, and are not mapped yet
	mapped map[uint32]*Memory
	out    int           // of them: those that batches lie in
	back   chan struct{} // told when there are none of these
	closed bool
}

// loan is memory of another process.
type loan struct {
	of     *loans
	number uint32
	bytes  []byte
	out    bool // a batch lies in it
}

// newLoans are those that come over a connection; nil if that is no near link's.
func newLoans(conn net.Conn) *loans {
	near, ok := conn.(*net.UnixConn)
	if !ok {
		return nil
	}
	return &loans{
		conn: near, oob: make([]byte, unix.CmsgSpace(4*maxMapped)), mapped: make(map[uint32]*Memory),
		back: make(chan struct{}, 1),
	}
}

// read is inlet's, and takes in what files come.
func (l *loans) read(p []byte) (int, error) {
	n, more, flags, _, err := l.conn.ReadMsgUnix(p, l.oob)
	switch {
	case err != nil:
		return 0, err
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	case more == 0 && flags&unix.MSG_CTRUNC == 0:
		return n, nil
	}
	messages, bad := unix.ParseSocketControlMessage(l.oob[:more])
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range messages {
		files, failed := unix.ParseUnixRights(&messages[i])
		bad = errors.Join(bad, failed)
		l.files = append(l.files, files...)
	}
	switch {
	case l.closed:
		l.closeFiles()
		return 0, net.ErrClosed
	// the next file would be taken for one that is missing
	case bad != nil || len(l.files) > maxMapped || flags&unix.MSG_CTRUNC != 0:
		l.closeFiles()
		return 0, errors.Join(errLoan, bad)
	}
	return n, nil
}

// closeFiles closes those that have no memory. l.mu must be held.
func (l *loans) closeFiles() {
	for _, file := range l.files {
		_ = unix.Close(file) // nothing was written by it
	}
	l.files = nil
}

// take is memory of the server's with a batch in its first n bytes. The server has written that, and does not write to
// it until it is freed.
func (l *loans) take(number uint32, n int) (*Memory, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, net.ErrClosed
	}
	m := l.mapped[number]
	if m == nil {
		if len(l.files) == 0 || len(l.mapped) == maxMapped {
			return nil, errLoan
		}
		file := l.files[0]
		l.files = l.files[1:]
		bytes, err := shared.Map(file, 2*maxBody)
		_ = unix.Close(file) // nothing was written by it
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errLoan, err)
		}
		m = &Memory{loan: &loan{of: l, number: number, bytes: bytes}}
		l.mapped[number] = m
	}
	if m.loan.out || n > len(m.loan.bytes) {
		return nil, errMessage
	}
	m.Bytes, m.loan.out = m.loan.bytes[:n:n], true
	l.out++
	return m, nil
}

// free gives memory back.
func (a *loan) free() {
	l := a.of
	l.mu.Lock()
	defer l.mu.Unlock()
	a.out = false
	if l.out--; l.out == 0 {
		select {
		case l.back <- struct{}{}:
		default:
		}
	}
	if !l.closed {
		_, _ = l.conn.Write(binary.LittleEndian.AppendUint32(nil, a.number)) // where it fails, so does what is read
		return
	}
	shared.Unmap(a.bytes)
	if l.out == 0 {
		_ = l.shut() // nobody uses it
	}
}

// end tells the server that all is given back, once it is, and forgets its memory. It waits for that until the call is
// over, or ctx.
func (l *loans) end(ctx context.Context, over <-chan struct{}) error {
	for {
		l.mu.Lock()
		if l.out == 0 {
			break
		}
		l.mu.Unlock()
		select {
		case <-l.back:
		case <-over:
			return errors.New("wire: the stream ended before its batches were given back")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer l.mu.Unlock()
	l.forget()
	l.closeFiles()
	_, err := l.conn.Write(make([]byte, numberBytes))
	return err
}

// forget unmaps what no batch lies in. l.mu must be held.
func (l *loans) forget() {
	for number, m := range l.mapped {
		if !m.loan.out {
			shared.Unmap(m.loan.bytes)
		}
		delete(l.mapped, number)
	}
}

// close closes the connection, or only its end of it while batches lie in what is mapped. What is given back from then
// on is unmapped, and the connection closed after the last: the server counts until then what its client may have.
func (l *loans) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	l.forget()
	l.closeFiles()
	if l.out == 0 {
		return l.shut()
	}
	_, err := l.conn.Write(make([]byte, numberBytes)) // not all is given back: the client leaves
	return errors.Join(err, l.conn.CloseRead())
}

// shut closes the connection for its server, too: a process that was forked may have the socket still.
func (l *loans) shut() error {
	_ = l.conn.CloseWrite() // the server may have closed
	return l.conn.Close()
}
