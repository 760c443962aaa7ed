package feed

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/penstock-ml/penstock/client/conformance/fake"
	"github.com/penstock-ml/penstock/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = time.Minute // that tests have with what has to come
	longest  = 3600.0      // seconds that a program waits
)

// fleet is a master and a worker.
type fleet struct {
	net    *fake.Net
	master *fake.Master
}

// newFleet starts a fleet whose streams bring their rows in one order, unless the spec says which.
func newFleet(t testing.TB, m *fake.Master, w *fake.Worker) *fleet {
	fl := &fleet{net: fake.Loopback(t), master: m}
	w.Data, w.Cut, w.Links = m.Data, 7, true
	fl.net.Worker("w1", w)
	m.Workers, m.Streams, m.Run = fl.net.Workers("w1"), 1, 8
	fl.net.Master("m", m)
	t.Cleanup(func() {
		for _, problem := range m.Problems() {
			t.Error("master: ", problem)
		}
	})
	return fl
}

// join is a request to open the session and to join it as a rank.
func (fl *fleet) join(t testing.TB, rank, world uint32) *openRequest {
	t.Helper()
	spec, err := protojson.Marshal(fl.master.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return &openRequest{
		Masters: []string{fl.net.Address("m")}, Session: "run-1/train", Spec: spec, Rank: rank, WorldSize: world,
		SyncEvery: 0.02,
	}
}

// left waits until a rank has left.
func (fl *fleet) left(t testing.TB, rank uint32) {
	t.Helper()
	await(t, "a rank to leave", func() (left bool) {
		fl.master.Look(func() { left = fl.master.Ranks[rank].Left })
		return left
	})
}

// silent expects that the master has not heard that a rank left.
func (fl *fleet) silent(t testing.TB, rank uint32) {
	t.Helper()
	fl.master.Look(func() {
		if fl.master.Ranks[rank].Left {
			t.Errorf("rank %d has left, though its program did not say so", rank)
		}
	})
}

func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatalf("waited for %s in vain", what)
		}
	}
}

// server is a Serve, and the program's end of the control connection.
type server struct {
	control *net.UnixConn
	pool    *segments
	ended   chan struct{}
	err     error // why, after that
}

// start serves until the test ends, at the latest. Fleets are started before it.
func start(t testing.TB, pool *segments) *server {
	ours, theirs := pair(t)
	s := &server{control: ours, pool: pool, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		s.err = serve(t.Context(), theirs, nil, slog.New(slog.DiscardHandler), pool)
	}()
	t.Cleanup(func() { _ = s.end(t) })
	return s
}

// memory is what segments are made of where nothing goes wrong.
func memory() *segments { return newSegments(memoryFile, punch) }

// extents are the bytes that a pool has lent ever, and those that it has back.
func extents(pool *segments) (all, free int) {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	for _, g := range pool.all {
		all += g.used
	}
	for _, of := range []map[int][]extent{pool.free, pool.empty} {
		for size, extents := range of {
			free += size * len(extents)
		}
	}
	return all, free
}

// returned waits until a pool has back what it lent, and says how much that is.
func returned(t testing.TB, pool *segments) (bytes int) {
	t.Helper()
	await(t, "memory to come back", func() bool {
		all, free := extents(pool)
		bytes = all
		return all > 0 && all == free
	})
	return bytes
}

// end waits for the end of Serve.
func (s *server) end(t testing.TB) error {
	t.Helper()
	select {
	case <-s.ended:
		return s.err
	case <-time.After(patience):
		t.Fatal("Serve does not end")
	}
	return nil
}

// pair are two ends of a connection.
func pair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := make([]*net.UnixConn, 2)
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "end")
		conn, err := net.FileConn(file)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		ends[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { _ = conn.Close() })
	}
	return ends[0], ends[1]
}

// program is what is fed: its end of a session's connection.
type program struct {
	t        testing.TB
	conn     *net.UnixConn
	segments map[uint32][]byte // mapped
	seen     []uint32          // ids of segments, in order
	schema   *arrow.Schema
	events   []event
	asked    uint64 // for what comes next
}

// connect makes a connection for a session.
func (s *server) connect(t testing.TB) *program {
	t.Helper()
	ours, theirs := pair(t)
	file, err := theirs.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, _, err := s.control.WriteMsgUnix([]byte("s"), unix.UnixRights(int(file.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close() // the server has its own
	p := &program{t: t, conn: ours, segments: make(map[uint32][]byte)}
	t.Cleanup(func() {
		for _, m := range p.segments {
			_ = unix.Munmap(m)
		}
	})
	return p
}

// open opens a session.
func (p *program) open(o *openRequest) *reply {
	p.t.Helper()
	return p.ask(&request{Open: o})
}

// next asks for what comes next.
func (p *program) next(released ...uint64) *reply {
	p.t.Helper()
	return p.ask(nextOf(longest, released...))
}

func nextOf(wait float64, released ...uint64) *request {
	return &request{Next: &nextRequest{Wait: wait, Released: released}}
}

func stateOf(after ...uint64) *request {
	return &request{State: &stateRequest{After: after}}
}

func closing() *request { return &request{Close: &struct{}{}} }

func (p *program) ask(r *request) *reply {
	p.t.Helper()
	p.send(r)
	return p.receive()
}

func frame(t testing.TB, r *request) []byte {
	t.Helper()
	data, err := framed(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (p *program) send(r *request) {
	p.t.Helper()
	if r.Next != nil && r.ID == 0 {
		p.asked++
		r.ID = p.asked
	}
	if _, err := p.conn.Write(frame(p.t, r)); err != nil {
		p.t.Fatal(err)
	}
}

// receive takes a reply in, and maps the memory that comes with it.
func (p *program) receive() *reply {
	p.t.Helper()
	reply, err := p.reply()
	if err != nil {
		p.t.Fatal(err)
	}
	return reply
}

// reply is the next one that answers something.
func (p *program) reply() (*reply, error) {
	for {
		r, err := p.one()
		if err != nil || !r.Opening {
			return r, err
		}
	}
}

func (p *program) one() (*reply, error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	size, oob := make([]byte, 4), make([]byte, unix.CmsgSpace(4*16))
	n, oobn, _, _, err := p.conn.ReadMsgUnix(size, oob)
	if err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(p.conn, size[n:]); err != nil {
		return nil, err
	}
	data := make([]byte, binary.LittleEndian.Uint32(size))
	if _, err := io.ReadFull(p.conn, data); err != nil {
		return nil, err
	}
	reply, from := &reply{}, json.NewDecoder(bytes.NewReader(data))
	if err := from.Decode(reply); err != nil {
		return nil, err
	}
	if from.More() {
		if err := from.Decode(&reply.Figures); err != nil {
			return nil, err
		}
	}
	files, err := received(oob[:oobn])
	if err != nil || len(files) != len(reply.Segments) {
		return nil, errors.Join(errors.New("segments are named, and other files came"), err)
	}
	for i, s := range reply.Segments {
		m, err := unix.Mmap(int(files[i].Fd()), 0, int(s.Bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		files[i].Close()
		if err != nil {
			return nil, err
		}
		p.segments[s.ID] = m
		p.seen = append(p.seen, s.ID)
	}
	p.events = append(p.events, reply.Events...)
	return reply, nil
}

// arrays are where a batch lies.
func (p *program) arrays(b *batch) (out [][]byte) {
	p.t.Helper()
	if s := b.Schema; s != nil {
		r, err := ipc.NewReader(bytes.NewReader(s))
		if err != nil {
			p.t.Fatal(err)
		}
		p.schema = r.Schema()
		r.Release()
	}
	for i := range len(b.Places) / 24 {
		place := func(k int) int64 { return int64(binary.LittleEndian.Uint64(b.Places[24*i+8*k:])) }
		segment, begin, n := uint32(place(0)), place(1), place(2)
		if begin%wire.Alignment != 0 {
			p.t.Errorf("an array begins at %d", begin)
		}
		if segment == 0 {
			if n != 0 {
				p.t.Errorf("an array of %d bytes is in no segment", n)
			}
			out = append(out, nil)
			continue
		}
		out = append(out, p.segments[segment][begin:][:n])
	}
	return out
}

// labels is the place of fake.Schema's label among the arrays, after the two of ids and sizes each, and the three of
// scored.
const labels = 1 + 2 + 2 + 3

// begin is where the label's array begins.
func (p *program) begin(b *batch) int64 {
	return int64(binary.LittleEndian.Uint64(b.Places[24*labels+8:]))
}

// ids are those of a batch's rows.
func (p *program) ids(b *batch) []int64 {
	p.t.Helper()
	return arrow.Int64Traits.CastFromBytes(p.arrays(b)[labels])[:b.Valid]
}

// released are the batches of a reply.
func released(r *reply) []uint64 {
	if r.Batch == nil {
		return nil
	}
	return []uint64{r.Batch.Number}
}

// drain reads a session to its end. It releases each batch before it asks for the next.
func (p *program) drain() (ids []int64) {
	p.t.Helper()
	var released []uint64
	for {
		switch reply := p.next(released...); {
		case reply.Batch != nil:
			ids = append(ids, p.ids(reply.Batch)...)
			released = []uint64{reply.Batch.Number}
		case reply.Finished:
			return ids
		case reply.EpochEnd == nil:
			p.t.Fatalf("in place of a batch came %v", reply)
		}
	}
}
