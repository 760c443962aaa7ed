package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/penstock-ml/penstock/internal/arrowipc"
)

// A link is a connection beside gRPC's that carries the batches of one stream at a time: written with writev, and read
// straight into the memory where they stay. A message on it is a prefix, then Arrow's header, app_metadata and the
// body. The prefix has their lengths, and how many bytes were written at once after them. A prefix of zeros ends the
// stream's batches; its status comes by gRPC.
//
// On a near link, between two processes on one machine, a body may lie in memory that both have: its length has the bit
// lent then, and the memory's number stands in the prefix for what is after it. The memory's file comes with the
// message, for the first time in a stream. The client gives the memory back by writing its number, and 0 after the
// stream's end, when it has given back all.
const (
	prefixBytes = 16
	lent        = 1 << 31
	// maxHeader and maxMeta bound a message's header and app_metadata.
	maxHeader = arrowipc.MaxHeader
	maxMeta   = 64 << 10
	// idBytes identify a link. They are random, so that nobody can guess another one's.
	idBytes = 16
	// accepted is what a server answers once a stream may ask for the link.
	accepted = 'K'
	// asks and grants are gRPC metadata: a client names its link, and a server says that it uses it.
	asks, grants = "penstock-link-bin", "penstock-link"
	// numberBytes are those of the number of memory that a client gives back on a near link. None, which is 0, says
	// that it has given back all.
	numberBytes = 4
)

// Preface is how a link's connection begins. HTTP/2's begin with "PRI ".
var Preface = [4]byte([]byte("PLNK")) //nolint:gochecknoglobals // never changed

type link struct {
	net.Conn
	id     string
	in     inlet        // of a client's
	socket *socket      // of a client's, if it can be had
	loans  *loans       // of a client's near one
	way    *way         // in which a client's was opened
	pieces net.Buffers  // of a server's, that are being written
	header bytes.Buffer // of the last message, whose memory the next one's gets
	since  time.Time    // when it was used last, while it waits
	known  bool         // a stream has named it
	expiry *time.Timer  // of a server's that waits
	caller string       // of a server's: whose stream named it last; before, the host that it comes from
	gone   bool         // of a server's, under LinkServer.mu: its client is
	ending atomic.Bool  // a client's brings the rest of its batches, or nothing any more
	prefix [prefixBytes]byte

	lender atomic.Pointer[lender] // of a server's near one, of its last stream
}

// newLink is a client's link.
func newLink(conn net.Conn, id string) *link {
	l := &link{Conn: conn, id: id, since: time.Now(), socket: socketOf(conn), loans: newLoans(conn)}
	l.in.from = l
	return l
}

// read waits for the rest of a stream's batches as long as it comes, however slow the network is.
func (l *link) read(p, more []byte) (int, error) {
	if l.ending.Load() {
		if err := l.SetReadDeadline(time.Now().Add(grace)); err != nil {
			return 0, err
		}
	}
	switch {
	case l.socket != nil:
		return l.socket.read(p, more)
	case l.loans != nil:
		return l.loans.read(p)
	}
	return l.Read(p)
}

// Close closes a link. Of a near one, the client has what it has of the server's memory until that is released, and the
// link is its until then.
func (l *link) Close() error {
	switch {
	case l.loans != nil:
		return l.loans.close()
	case l.lender.Load() != nil:
		return l.lender.Load().close()
	}
	return l.Conn.Close()
}

// hear reads what a server's client says on a link until it leaves: on a near link what it gives back, else nothing.
func (l *link) hear() error {
	var number [numberBytes]byte
	for {
		if _, err := io.ReadFull(l, number[:]); err != nil {
			return err
		}
		lender := l.lender.Load()
		if lender == nil {
			return errLeaves
		}
		if err := lender.back(binary.LittleEndian.Uint32(number[:])); err != nil {
			return err
		}
	}
}

// host is where a connection comes from.
func host(conn net.Conn) string {
	address := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

func (l *link) await(n int) {
	if l.socket != nil {
		l.socket.await(n)
	}
}

// hurry has the rest of a stream's batches come within grace, or a part of it, which gives the next one as long.
func (l *link) hurry() {
	l.ending.Store(true)
	if l.socket != nil {
		l.socket.prompt(true)
	}
	_ = l.SetReadDeadline(time.Now().Add(grace)) // fails only if it is closed
}

// rest has the next stream's batches take as long as they like.
func (l *link) rest() error {
	l.ending.Store(false)
	if l.socket != nil {
		l.socket.prompt(false)
	}
	return l.SetReadDeadline(time.Time{})
}

// errLoan says that the memory of a batch on a near link cannot be had.
var errLoan = errors.New(
	"wire: a batch's memory does not come, or cannot be mapped: are too many files open (ulimit -n)? " +
		"`penstock worker --network` lends none")

var errLeaves = errors.New("wire: a client leaves, or gives back what it does not have")

var errEnd = errors.New("wire: the stream's batches have all come")

// receive reads a message, its body into memory of m's pool, or errEnd. Nothing that it reads is trusted.
func (l *link) receive(m *Message) error {
	m.header, m.meta, m.size = nil, nil, 0
	m.free()
	if _, err := io.ReadFull(&l.in, l.prefix[:]); err != nil {
		return fmt.Errorf("wire: read a batch: %w", err)
	}
	le := binary.LittleEndian
	header, meta, body, follows := le.Uint32(l.prefix[:]), le.Uint32(l.prefix[4:]), le.Uint32(l.prefix[8:]),
		le.Uint32(l.prefix[12:])
	number := uint32(0)
	if l.loans != nil && body&lent != 0 {
		body, follows, number = body&^lent, 0, follows
	}
	switch {
	case header == 0 && meta == 0 && body == 0 && follows == 0:
		return errEnd
	case header > maxHeader || meta > maxMeta || body > maxBody || follows > maxBody:
		return fmt.Errorf("%w: header, app_metadata and body of %d, %d and %d bytes, %d more after them",
			errMessage, header, meta, body, follows)
	}
	size := int(header) + int(meta)
	if number == 0 {
		size += int(body)
	}
	m.size = int64(prefixBytes + size)
	l.in.expect(size + int(follows))
	err := l.receiveHeader(int(header))
	m.header, m.meta = l.header.Bytes(), make([]byte, meta)
	if err == nil {
		_, err = io.ReadFull(&l.in, m.meta)
	}
	switch {
	case err != nil:
	case number != 0:
		m.body, err = l.loans.take(number, int(body))
	case body > 0:
		err = l.receiveBody(m, int(body))
	}
	if err != nil {
		m.free()
		return fmt.Errorf("wire: read a batch: %w", err)
	}
	return nil
}

// receiveHeader reads a header of n bytes, into memory that grows with what comes.
func (l *link) receiveHeader(n int) error {
	l.header.Reset()
	n -= l.in.pour(&l.header, n)
	if n == 0 {
		return nil
	}
	_, err := io.CopyN(&l.header, &l.in, int64(n))
	return err
}

// receiveBody reads a body of n bytes. For a large one no more memory is set aside than four times what has come: its
// length may not be true.
func (l *link) receiveBody(m *Message, n int) error {
	m.body = m.pool.Get(min(n, likelyBody))
	if err := l.in.fill(m.body.Bytes); err != nil {
		return err
	}
	for got := len(m.body.Bytes); got < n; got = len(m.body.Bytes) {
		larger := m.pool.Get(min(n, 4*got))
		copy(larger.Bytes, m.body.Bytes)
		m.free()
		m.body = larger
		if err := l.in.fill(larger.Bytes[got:]); err != nil {
			return err
		}
	}
	return nil
}

// send writes messages, whose pieces are not used any more when it returns. Each says how much of the others follows
// it.
func (l *link) send(run []*parcel) error {
	l.pieces = l.pieces[:0]
	follows := 0
	for _, p := range run {
		follows += p.length
	}
	for _, p := range run {
		follows -= p.length
		binary.LittleEndian.PutUint32(p.pieces[0][12:], uint32(follows))
		l.pieces = append(l.pieces, p.pieces...)
	}
	pieces := l.pieces
	_, err := pieces.WriteTo(l.Conn)
	clear(l.pieces)
	if err != nil {
		return fmt.Errorf("wire: write a batch: %w", err)
	}
	return nil
}

// end writes that no batch follows.
func (l *link) end() error {
	if _, err := l.Write(make([]byte, prefixBytes)); err != nil {
		return fmt.Errorf("wire: end a stream: %w", err)
	}
	return nil
}

// line fills the parcel with a batch's message for a link.
func (p *parcel) line(b *Batch, c Compression) {
	length, copied := p.place(b)
	m := p.preface(b, c, copied, length, uint32(length), 0) // what follows the message, send knows
	p.length = len(m) + int(length)
	p.cut(m, b.Buffers)
}

// name fills the parcel with the message of a batch whose memory is lent.
func (p *parcel) name(b *Batch) error {
	p.memory, p.body = b.Memory, p.body[:0]
	memory, end := uintptr(unsafe.Pointer(unsafe.SliceData(b.Memory.Bytes))), 0
	for _, buf := range b.Buffers {
		e := extent{length: int64(len(buf))}
		if len(buf) > 0 {
			e.offset = int64(uintptr(unsafe.Pointer(unsafe.SliceData(buf))) - memory)
			end = max(end, int(e.offset+e.length))
		}
		p.body = append(p.body, e)
	}
	if end > len(b.Memory.Bytes) {
		return errors.New("wire: a buffer does not lie in the batch's memory")
	}
	p.pieces = append(p.pieces[:0], p.preface(b, None, 0, int64(end), uint32(end)|lent, b.Memory.Number))
	return nil
}

// preface is what stands before a message's body: the prefix, the header and app_metadata. It has room for more after
// it.
func (p *parcel) preface(b *Batch, c Compression, more int, length int64, body, after uint32) []byte {
	header := headerSize(len(b.Nodes), len(p.body))
	m := p.room(prefixBytes + header + len(b.Meta) + more)
	for _, n := range [...]uint32{uint32(header), uint32(len(b.Meta)), body, after} {
		m = binary.LittleEndian.AppendUint32(m, n)
	}
	return append(appendHeader(m, b, p.body, length, c), b.Meta...)
}
