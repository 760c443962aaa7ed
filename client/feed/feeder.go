package feed

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/process"
)

// statesKept is of how many batches a rank's state can be asked for: the newest 1,024 that the program has, and one
// that may be on its way.
const statesKept = 1024 + 1

// feeder serves one session.
type feeder struct {
	conn   *net.UnixConn
	local  client.Local
	arenas arenas
	events events

	session *client.Session
	ends    context.CancelFunc           // frees what the session lived by
	asked   uint64                       // id of the newest request for one
	number  uint64                       // of the newest batch
	over    bool                         // no batch is made any more
	held    map[uint64]lent              // not released
	states  [statesKept]func() *pb.State // as of the newest
	raised  int64                        // the runtime's memory limit, in bytes
	peeks   bool                         // the session is to be deleted
	knows   map[uint32]bool              // segments, by id: what the program knows
	fresh   []*segment                   // those that the next reply brings
	schema  *arrow.Schema                // that it knows
}

func newFeeder(conn *net.UnixConn, local client.Local, pool *segments) *feeder {
	return &feeder{
		conn: conn, local: local, arenas: arenas{pool: pool}, held: make(map[uint64]lent), knows: make(map[uint32]bool),
	}
}

// lent is a batch that the program has.
type lent struct {
	*client.Batch
	arena *arena
}

// run answers requests until the program closes the connection, or ctx ends.
func (f *feeder) run(ctx context.Context) error {
	parts, either := errgroup.WithContext(ctx)
	requests, news := make(chan *request, 1), make(chan struct{}, 1)
	defer context.AfterFunc(either, func() { signal(news) })()
	parts.Go(func() error { return f.listen(either, requests, news) })
	parts.Go(func() error { return f.talk(either, requests, news) })
	parts.Go(func() error {
		<-either.Done()
		return f.conn.Close()
	})
	err := parts.Wait()
	ends := []error{io.EOF, io.ErrUnexpectedEOF, unix.ECONNRESET, unix.EPIPE}
	closed := slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) })
	if closed || ctx.Err() != nil {
		err = nil
	}
	if closed { // else the program may see them
		f.arenas.release(nil)
	}
	process.RaiseMemoryLimit(-f.raised)
	if f.session != nil {
		f.session.Abandon() // unless it was closed: a program that died did not mean to leave
		f.forget(ctx)
		f.ends()
	}
	return err
}

// listen receives requests, and signals each. It is at most two ahead of the answers.
func (f *feeder) listen(ctx context.Context, requests chan<- *request, news chan<- struct{}) error {
	from := bufio.NewReader(f.conn)
	for {
		r, err := receive(from)
		if err != nil {
			return err
		}
		select {
		case requests <- r:
			signal(news)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// signal wakes whoever waits for something, unless a signal is still to be heard.
func signal(news chan<- struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// talk answers requests.
func (f *feeder) talk(ctx context.Context, requests <-chan *request, news <-chan struct{}) error {
	for {
		r := f.await(ctx, requests, news)
		if r == nil {
			return ctx.Err()
		}
		answer := f.answer(ctx, r)
		if ctx.Err() != nil {
			return ctx.Err() // it would report that, as an error; the connection's end says more
		}
		answer.Next, answer.ID = r.Next != nil, r.ID
		if err := f.send(answer); err != nil {
			return err
		}
	}
}

// await returns the next request, or nil when ctx ends. Meanwhile the next batch is made.
func (f *feeder) await(ctx context.Context, requests <-chan *request, news <-chan struct{}) *request {
	for f.session != nil && !f.over && !f.session.Prepare(news) {
		select {
		case r := <-requests:
			return r
		case <-ctx.Done():
			return nil
		default: // the news was of one that was answered
		}
	}
	select {
	case r := <-requests:
		return r
	case <-ctx.Done():
		return nil
	}
}

// send sends a reply, with what the program does not know yet.
func (f *feeder) send(r *reply) error {
	r.Events = f.events.take()
	parts := []any{r}
	if f.session != nil {
		parts = append(parts, f.figures())
	}
	var fds []int
	for _, g := range f.fresh {
		r.Segments = append(r.Segments, shared{ID: g.id, Bytes: int64(len(g.mem))})
		fds = append(fds, int(g.file.Fd()))
	}
	f.fresh = nil
	data, err := framed(parts...)
	if err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	n, _, err := f.conn.WriteMsgUnix(data, oob, nil)
	if err == nil && n < len(data) {
		_, err = f.conn.Write(data[n:])
	}
	return err
}

func (f *feeder) answer(ctx context.Context, r *request) *reply {
	if r.Open != nil {
		return f.open(ctx, r)
	}
	if f.session == nil {
		return failed(errors.New("feed: no session was opened on this connection"))
	}
	switch {
	case r.Next != nil:
		return f.next(ctx, r.ID, r.Next)
	case r.State != nil:
		return f.statesAfter(r.State)
	case r.Rows != nil:
		return f.planned(ctx, r.Rows)
	case r.Leave != nil:
		if err := f.session.LeaveEpoch(r.Leave.Epoch); err != nil {
			return failed(err)
		}
		return f.epochEnd()
	case r.Close != nil:
		err := f.session.Close()
		f.forget(ctx)
		f.end()
		if err != nil {
			return failed(err)
		}
		return done()
	}
	return failed(errors.New("feed: an unknown request"))
}

func done() *reply { return &reply{Done: true} }

// begin notes the state before the first batch, which the master may say more of until that comes.
func (f *feeder) begin() {
	if f.number == 0 {
		state := f.session.State()
		f.states[0] = func() *pb.State { return state }
	}
}

func (f *feeder) next(ctx context.Context, id uint64, r *nextRequest) *reply {
	f.begin()
	for _, number := range r.Released {
		if b, ok := f.held[number]; ok {
			b.Release()
			delete(f.held, number)
		}
	}
	if f.over && len(r.Released) > 0 {
		f.end()
	}
	if id <= f.asked {
		return done()
	}
	f.asked = id
	ctx, cancel := context.WithTimeout(ctx, seconds(r.Wait))
	defer cancel()
	b, err := f.session.NextOfEpoch(ctx)
	switch {
	case err == nil:
		return f.batch(b)
	case errors.Is(err, client.ErrEpochEnd):
		return f.epochEnd()
	case errors.Is(err, io.EOF):
		f.end()
		return &reply{Finished: true}
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil:
		return &reply{Waiting: waitingFor(f.session.Waiting())}
	}
	return failed(err)
}

// end gives back the memory of all batches but those that the program has: the session makes no more.
func (f *feeder) end() {
	f.over = true
	held := make(map[*arena]bool)
	for _, b := range f.held {
		held[b.arena] = true
	}
	f.arenas.release(held)
}

// epochEnd says that the loop is in a later epoch.
func (f *feeder) epochEnd() *reply {
	after := f.session.State()
	f.note(func() *pb.State { return after })
	return &reply{EpochEnd: &epochEnd{Number: f.number, Epoch: f.session.Epoch()}}
}

// note counts a batch, or an epoch's end.
func (f *feeder) note(state func() *pb.State) {
	f.number++
	f.states[f.number%statesKept] = state
}

func (f *feeder) batch(b *client.Batch) *reply {
	f.note(func() *pb.State { return f.session.StateAfter(b) })
	arrays := b.Arrays()
	arena := f.arenas.of(arrays)
	f.held[f.number] = lent{b, arena}
	out := &batch{
		Number: f.number, Rows: int64(b.Rows), Valid: int64(b.Valid), Epoch: b.Epoch,
		Places: make([]byte, 0, 3*8*len(arrays)),
	}
	for _, array := range arrays {
		var segment uint32
		var begin int64
		if len(array) > 0 {
			g, at, ok := arena.find(array)
			if !ok {
				return failed(errors.New("feed: a batch lies outside of the shared memory"))
			}
			if !f.knows[g.id] {
				f.knows[g.id] = true
				f.fresh = append(f.fresh, g)
			}
			segment, begin = g.id, at
		}
		for _, n := range []uint64{uint64(segment), uint64(begin), uint64(len(array))} {
			out.Places = binary.LittleEndian.AppendUint64(out.Places, n)
		}
	}
	if b.Schema() != f.schema {
		f.schema = b.Schema()
		var err error
		if out.Schema, err = serialized(f.schema); err != nil {
			return failed(err)
		}
	}
	if c := b.Checkpoint; c != nil {
		out.Checkpoint = &checkpoint{Name: c.Name, Step: c.Step}
	}
	return &reply{Batch: out}
}

// serialized is a schema as a stream of no batches.
func serialized(s *arrow.Schema) ([]byte, error) {
	var out bytes.Buffer
	if err := ipc.NewWriter(&out, ipc.WithSchema(s)).Close(); err != nil {
		return nil, fmt.Errorf("feed: schema: %w", err)
	}
	return out.Bytes(), nil
}

func (f *feeder) statesAfter(r *stateRequest) *reply {
	if n := len(r.After); n > statesKept {
		return failed(fmt.Errorf("feed: %d states at once; at most %d are told", n, statesKept))
	}
	f.begin()
	out := &reply{States: make([]state, 0, len(r.After))}
	for _, number := range r.After {
		if number > f.number || number+statesKept <= f.number {
			return failed(fmt.Errorf("feed: no state is kept of batch %d; %d were handed over", number, f.number))
		}
		s := f.states[number%statesKept]()
		data, err := proto.Marshal(s)
		if err != nil {
			return failed(fmt.Errorf("feed: state: %w", err))
		}
		out.States = append(out.States, newState(s, data))
	}
	return out
}

// planned says how many rows an epoch has.
func (f *feeder) planned(ctx context.Context, r *rowsRequest) *reply {
	ctx, cancel := context.WithTimeout(ctx, seconds(r.Wait))
	defer cancel()
	n, known, err := f.session.Planned(ctx)
	switch {
	case err != nil:
		return failed(err)
	case !known:
		return &reply{Rows: &rows{}}
	}
	return &reply{Rows: &rows{Planned: &n}}
}
