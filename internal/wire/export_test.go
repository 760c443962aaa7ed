package wire

import (
	"bytes"
	"context"
	"io"
	"iter"
	"maps"
	"net"
	"slices"
	"unsafe"

	"google.golang.org/grpc"
)

// Misaligned reports whether b does not begin at a multiple of Alignment.
func Misaligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%Alignment != 0 }

// ReadLink reads the messages that came on a link, until they are refused.
func ReadLink(data []byte, pool *Pool) iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		l := &link{in: inlet{from: scattered{bytes.NewReader(data)}}}
		m := NewMessage(pool)
		for l.receive(m) == nil && yield(m) {
		}
	}
}

// scattered is a socket of bytes.
type scattered struct{ io.Reader }

func (s scattered) read(p, more []byte) (int, error) {
	n, err := s.Read(p)
	if n < len(p) {
		return n, err
	}
	m, _ := s.Read(more)
	return n + m, nil
}

func (scattered) await(int) {}

// Decompress decompresses a buffer of a batch.
func Decompress(buffer []byte, c Compression) error {
	m, err := decompress(&Batch{Buffers: [][]byte{buffer}}, c, int64(len(buffer)), new(Pool))
	if err == nil {
		m.Free()
	}
	return err
}

// LinkBytes are those of batches that are sent at once on a link.
func LinkBytes(pool *Pool, batches ...*Batch) []byte {
	var run []*parcel
	for _, b := range batches {
		p := pool.parcel()
		p.line(b, None)
		run = append(run, p)
	}
	var out recorder
	_ = (&link{Conn: &out}).send(run) // never fails
	return out.Bytes()
}

// recorder is a connection that keeps what is written.
type recorder struct {
	net.Conn
	bytes.Buffer
}

func (r *recorder) Read(p []byte) (int, error)  { return r.Buffer.Read(p) }
func (r *recorder) Write(p []byte) (int, error) { return r.Buffer.Write(p) }

// Linked is a stream whose schema came by gRPC, and whose batches come on conn.
func Linked(ctx context.Context, in grpc.ClientStream, conn net.Conn) *Stream {
	s := &Stream{ctx: ctx, in: in, next: Message{pool: new(Pool)}, links: NewLinks("", nil)}
	s.use(newLink(conn, ""))
	return s
}

// SendOn returns a sender whose stream has a link on conn.
func SendOn(ctx context.Context, conn net.Conn) *Sender {
	return &Sender{ctx: ctx, pool: new(Pool), link: &link{Conn: conn}}
}

// Link is a client's.
type Link struct {
	link *link
	pool Pool
}

// NewLink is one on conn.
func NewLink(conn net.Conn) *Link { return &Link{link: newLink(conn, "")} }

// Receive returns the body of the next message.
func (l *Link) Receive() ([]byte, error) {
	m := NewMessage(&l.pool)
	if err := l.link.receive(m); err != nil {
		return nil, err
	}
	return m.body.Bytes, nil
}

// Waits reports whether a link of a name waits for a stream.
func (l *LinkServer) Waits(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting[name] != nil
}

// Open is how many links are open.
func (l *LinkServer) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Expire closes the links that wait.
func (l *LinkServer) Expire() {
	l.mu.Lock()
	waiting := slices.Collect(maps.Values(l.waiting))
	l.mu.Unlock()
	for _, in := range waiting {
		l.drop(in)
	}
}

// Hurry has what comes do so soon.
func (l *Link) Hurry() { l.link.hurry() }

// NewWays are links that are opened in several ways, the best first.
func NewWays(dials ...func(context.Context) (net.Conn, error)) *Links {
	l := &Links{}
	for _, dial := range dials {
		l.ways = append(l.ways, &way{dial: dial, timeout: dialTimeout})
	}
	return l
}

// Take reports whether a stream gets a link, and returns what gives it back.
func (l *Links) Take(ctx context.Context) (func(), bool) {
	in := l.take(ctx)
	return func() { l.put(in) }, in != nil
}
