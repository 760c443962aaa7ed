package feed

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// plain opens the session of a fleet without a feed.
func plain(t *testing.T, fl *fleet, restore ...*pb.State) *client.Session {
	t.Helper()
	s, err := client.Open(t.Context(), client.Config{
		Masters: []string{fl.net.Address("m")}, Dial: fl.net.Dial, Session: "run-1/train", Spec: fl.master.Spec,
		Restore: restore, SyncEvery: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func specs() map[string]*pb.Spec {
	const epochs, batch = 2, 32
	return map[string]*pb.Spec{
		"uneven": {BatchSize: batch, Epochs: epochs},
		"drop":   {BatchSize: batch, Epochs: epochs, LastBatch: pb.LastBatch_DROP},
		"pad":    {BatchSize: batch, Epochs: epochs, LastBatch: pb.LastBatch_PAD},
		"lanes":  {BatchSize: batch, Epochs: epochs, Order: pb.Order_DETERMINISTIC, Lanes: 2},
		"lanes, drop": {
			BatchSize: batch, Epochs: epochs, Order: pb.Order_DETERMINISTIC, Lanes: 2, LastBatch: pb.LastBatch_DROP,
		},
	}
}

// TestGreet: what comes is ready, and says in what it speaks.
func TestGreet(t *testing.T) {
	ours, theirs := pair(t)
	if err := Greet(theirs, "1.2"); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 4)
	if _, err := io.ReadFull(ours, data); err != nil {
		t.Fatal(err)
	}
	data = make([]byte, binary.LittleEndian.Uint32(data))
	if _, err := io.ReadFull(ours, data); err != nil {
		t.Fatal(err)
	}
	var said hello
	if err := json.Unmarshal(data, &said); err != nil || said != (hello{Language: language, Release: "1.2"}) {
		t.Errorf("%v, %v", said, err)
	}
}

// TestFeedsWhatASessionHandsOver: the same bytes in the same order, and between them the ends of epochs.
func TestFeedsWhatASessionHandsOver(t *testing.T) {
	for name, spec := range specs() {
		t.Run(name, func(t *testing.T) {
			d := fake.NewDataset(3, 2, 12)
			want := plain(t, newFleet(t, &fake.Master{Data: d, Spec: spec}, &fake.Worker{}))
			fl := newFleet(t, &fake.Master{Data: d, Spec: spec}, &fake.Worker{})
			p := start(t, memory()).connect(t)
			if reply := p.open(fl.join(t, 0, 1)); reply.Opened == nil || reply.Figures.Epoch != 0 {
				t.Fatalf("open: %v", reply)
			}
			compare(t, p, want)
			if !slices.Equal(p.seen, []uint32{1}) {
				t.Errorf("the program was told of the segments %d", p.seen)
			}
		})
	}
}

// compare reads a session to its end.
func compare(t *testing.T, p *program, want *client.Session) {
	t.Helper()
	var number uint64
	var released []uint64
	for {
		b, err := want.NextOfEpoch(t.Context())
		reply := p.next(released...)
		if !reply.Next {
			t.Error("a reply to FeedNext does not say that it is one")
		}
		if released = nil; err == nil || errors.Is(err, client.ErrEpochEnd) {
			number++
		}
		switch {
		case errors.Is(err, io.EOF):
			if !reply.Finished {
				t.Fatalf("at the end came %v", reply)
			}
			return
		case errors.Is(err, client.ErrEpochEnd):
			if end := reply.EpochEnd; end.Number != number || reply.Figures.Epoch != want.Epoch() {
				t.Fatalf("at an epoch's end, %d, came %v", number, reply)
			}
		case err != nil:
			t.Fatal(err)
		default:
			got := reply.Batch
			if got.Number != number || got.Rows != int64(b.Rows) || got.Valid != int64(b.Valid) ||
				got.Epoch != b.Epoch {
				t.Fatalf("batch %d: %v; expected %d rows, %d valid, of epoch %d",
					number, reply, b.Rows, b.Valid, b.Epoch)
			}
			if !slices.EqualFunc(p.arrays(got), b.Arrays(), bytes.Equal) {
				t.Errorf("batch %d has other values", number)
			}
			if !p.schema.Equal(b.Schema()) {
				t.Errorf("batch %d has schema %v; expected %v", number, p.schema, b.Schema())
			}
			b.Release()
			released = []uint64{number}
		}
	}
}

// TestBatchesStayUntilTheyAreReleased, and their memory is used again then: with six of them in the program's hands, a
// seventh is made.
func TestBatchesStayUntilTheyAreReleased(t *testing.T) {
	d := fake.NewDataset(3, 1, 40)
	fl := newFleet(t, &fake.Master{Data: d, Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	var ids []int64
	var released []uint64
	places := make(map[int64]bool)
	for finished := false; !finished; {
		var held []*batch
		var values [][]int64
		for len(held) < 6 && !finished {
			reply := p.next(append(released, 0, 1<<40)...) // which are no batches
			finished, released = reply.Finished, nil
			if b := reply.Batch; b != nil {
				held, values = append(held, b), append(values, slices.Clone(p.ids(b)))
			}
		}
		for i, b := range held {
			if !slices.Equal(p.ids(b), values[i]) {
				t.Errorf("batch %d was changed", b.Number)
			}
			ids = append(ids, values[i]...)
			places[p.begin(b)] = true
			released = append(released, b.Number, b.Number) // once is enough
		}
	}
	exactlyOnce(t, d, ids)
	if len(places) > 7 {
		t.Errorf("the batches had %d places", len(places))
	}
}

// TestAskedTwice: a program that does not know whether it has asked asks again by the same id. It gets one batch.
func TestAskedTwice(t *testing.T) {
	d := fake.NewDataset(3, 1, 40)
	fl := newFleet(t, &fake.Master{Data: d, Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	var ids []int64
	places := make(map[int64]bool)
	for {
		reply := p.next()
		if reply.Finished {
			break
		}
		again := nextOf(longest)
		if b := reply.Batch; b != nil {
			ids = append(ids, p.ids(b)...)
			places[p.begin(b)] = true
			again = nextOf(longest, b.Number)
		}
		again.ID = reply.ID
		if got := p.ask(again); !got.Done || !got.Next || got.ID != reply.ID {
			t.Fatalf("asked again: %v", got)
		}
	}
	exactlyOnce(t, d, ids)
	if len(places) > 2 {
		t.Errorf("batches that were released by what came twice had %d places", len(places))
	}
}

// exactlyOnce checks that ids are all rows of the dataset, once each.
func exactlyOnce(t *testing.T, d *fake.Dataset, ids []int64) {
	t.Helper()
	got, want := slices.Sorted(slices.Values(ids)), slices.Sorted(slices.Values(d.IDs(d.All())))
	if !slices.Equal(got, want) {
		t.Errorf("%d rows came, not the %d of the dataset", len(got), len(want))
	}
}

// TestStates goes on from the state of each number.
func TestStates(t *testing.T) {
	for name, spec := range specs() {
		if spec.GetLastBatch() == pb.LastBatch_DROP {
			continue // not all rows come
		}
		t.Run(name, func(t *testing.T) {
			d := &fake.Dataset{Epochs: 2, BlockShards: 2, Shards: [][]int{{40, 10}, {30}, {0, 25}}}
			fl := newFleet(t, &fake.Master{Data: d, Spec: spec}, &fake.Worker{})
			p := start(t, memory()).connect(t)
			p.open(fl.join(t, 0, 1))
			var before [][]int64 // rows before each number
			var ids []int64
			var numbers []uint64
			for finished := false; !finished; {
				before, numbers = append(before, slices.Clone(ids)), append(numbers, uint64(len(before)))
				reply := p.next()
				ids = append(ids, idsOf(p, reply)...)
				finished = reply.Finished
			}
			if len(numbers) != 1+2*4+2 { // the beginning, 4 batches of each epoch and its end
				t.Fatalf("%d numbers", len(numbers))
			}
			states := p.ask(stateOf(numbers...)).States
			for i, got := range states {
				st := &pb.State{}
				if err := proto.Unmarshal(got.State, st); err != nil {
					t.Fatal(err)
				}
				again := newFleet(t, &fake.Master{Data: d, Spec: spec}, &fake.Worker{})
				rest := before[i]
				for b, err := range plain(t, again, st).Batches(t.Context()) {
					if err != nil {
						t.Fatalf("after %d: %v", i, err)
					}
					rest = append(rest, b.Labels[0].I64[:b.Valid]...)
					b.Release()
				}
				exactlyOnce(t, d, rest)
			}
			for number, ended := range map[int]uint32{0: 0, 4: 0, 5: 1, 9: 1, 10: 2} {
				if got := states[number].Epoch; got != ended {
					t.Errorf("after %d the state says that %d epochs have ended; expected %d", number, got, ended)
				}
			}
		})
	}
}

// idsOf are those of a reply's batch, if it has one.
func idsOf(p *program, reply *reply) []int64 {
	if reply.Batch == nil {
		return nil
	}
	return p.ids(reply.Batch)
}

func TestStatesThatAreNotKept(t *testing.T) {
	const rows = statesKept + 10
	fl := newFleet(t, &fake.Master{
		Data: &fake.Dataset{Epochs: 1, BlockShards: 1, Shards: [][]int{{rows}}}, Spec: &pb.Spec{BatchSize: 1},
	}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	for n := range uint64(rows) {
		p.next(n)
	}
	for _, number := range []uint64{rows, rows - statesKept + 1} {
		if reply := p.ask(stateOf(number)); reply.States[0].Rows != int64(number) {
			t.Errorf("after %d: %v", number, reply)
		}
	}
	for _, number := range []uint64{0, rows - statesKept, rows + 1, 1<<64 - 1} {
		if reply := p.ask(stateOf(number)); reply.Error == nil {
			t.Errorf("after %d, of %d: %v", number, rows, reply)
		}
	}
	if reply := p.ask(stateOf(make([]uint64, statesKept+1)...)); reply.Error == nil {
		t.Errorf("%d states at once", len(reply.States))
	}
}

func TestClose(t *testing.T) {
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	b := p.next().Batch
	ids := slices.Clone(p.ids(b))
	for range 2 {
		if reply := p.ask(closing()); !reply.Done {
			t.Errorf("close: %v", reply)
		}
	}
	fl.left(t, 0)
	if reply := p.next(); reply.Error == nil {
		t.Errorf("next of a closed session: %v", reply)
	}
	if reply := p.ask(stateOf(1)); reply.States[0].Rows != 32 {
		t.Errorf("state of a closed session: %v", reply)
	}
	if !slices.Equal(p.ids(b), ids) {
		t.Error("a batch of a closed session was changed")
	}
}

// TestConnectionIsClosed while the program waits for a batch: the session's memory comes back, and no master hears of
// it.
func TestConnectionIsClosed(t *testing.T) {
	d := fake.NewDataset(3, 1, 12)
	fl := newFleet(t, &fake.Master{Data: d, Spec: &pb.Spec{BatchSize: 32, Epochs: 3}}, &fake.Worker{})
	pool := memory()
	s := start(t, pool)
	for _, requests := range [][]*request{
		{nextOf(longest)},         // Serve waits to read another one
		{nextOf(0.1), stateOf(0)}, // Serve has read both, and finds it closed when it answers
	} {
		p := s.connect(t)
		p.open(fl.join(t, 0, 1))
		p.next()
		fl.master.Change(func() { fl.master.Frozen = true })
		for p.ask(nextOf(0.001)).Waiting == nil {
		}
		for _, r := range requests {
			p.send(r)
		}
		_ = p.conn.Close()
		returned(t, pool)
		fl.master.Change(func() { fl.master.Frozen = false })
	}
	last := s.connect(t)
	last.open(fl.join(t, 0, 1))
	last.drain()
	_ = s.control.Close()
	if err := s.end(t); err != nil {
		t.Error(err)
	}
	fl.silent(t, 0)
}

// TestControlIsClosed while several sessions are read: Serve ends well, as a trainer that dies.
func TestControlIsClosed(t *testing.T) {
	const ranks = 4
	fl := newFleet(t, &fake.Master{
		Data: fake.NewDataset(3, 2, 40), Spec: &pb.Spec{BatchSize: 8, Epochs: 2},
	}, &fake.Worker{})
	s := start(t, memory())
	var reading, readers sync.WaitGroup
	var segments [ranks][]uint32
	for rank := range uint32(ranks) {
		p := s.connect(t)
		p.open(fl.join(t, rank, ranks))
		reading.Add(1)
		readers.Go(func() {
			read := sync.OnceFunc(reading.Done)
			defer read()
			for n := uint64(0); ; n++ {
				r := nextOf(longest, n)
				r.ID = n + 1
				_, _ = p.conn.Write(frame(t, r)) // what fails there fails here, too:
				reply, err := p.reply()
				if err != nil {
					break
				}
				if reply.Batch != nil {
					read()
				}
			}
			segments[rank] = p.seen
		})
	}
	reading.Wait()
	_ = s.control.Close()
	if err := s.end(t); err != nil {
		t.Error(err)
	}
	for rank := range uint32(ranks) {
		fl.silent(t, rank)
	}
	readers.Wait()
	for rank, ids := range segments {
		if !slices.Equal(ids, []uint32{1}) {
			t.Errorf("rank %d was told of the segments %d", rank, ids)
		}
	}
}

// TestServeEndsThoughNobodyReads what it writes.
func TestServeEndsThoughNobodyReads(t *testing.T) {
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{})
	s := start(t, memory())
	p := s.connect(t)
	p.open(fl.join(t, 0, 1))
	request := frame(t, stateOf(make([]uint64, statesKept)...))
	for err := error(nil); err == nil; { // until both directions are full
		if err = p.conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err == nil {
			_, err = p.conn.Write(request)
		}
	}
	_ = s.control.Close()
	if err := s.end(t); err != nil {
		t.Error(err)
	}
	fl.silent(t, 0)
}

// TestWaiting tells of why nothing comes, and never waits longer than it should.
func TestWaiting(t *testing.T) {
	fl := newFleet(t, &fake.Master{
		Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 32}, Frozen: true,
	}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	for _, wait := range []float64{0, -1, -1e300, 1e-9} {
		if reply := p.ask(nextOf(wait)); reply.Waiting == nil || !reply.Next {
			t.Errorf("next in %v s: %v", wait, reply)
		}
	}
	fl.master.Change(func() { fl.master.Frozen = false })
	if reply := p.ask(nextOf(math.MaxFloat64)); reply.Batch == nil {
		t.Errorf("next at the end of time: %v", reply)
	}
	if w := p.ask(nextOf(0)).Waiting; w == nil || w.Lapsed || w.Master != "" {
		t.Errorf("while all is well, and nothing is asked for: %v", w)
	}
}

func TestRequestsOutOfPlace(t *testing.T) {
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	refused := func(r *request) {
		t.Helper()
		if reply := p.ask(r); reply.Error == nil || reply.Next != (r.Next != nil) {
			t.Errorf("%v: %v", r, reply)
		}
	}
	for _, r := range []*request{nextOf(longest), stateOf(0), closing(), {}, {Open: &openRequest{}}} {
		refused(r)
	}
	p.open(fl.join(t, 0, 1))
	for _, r := range []*request{{}, {Open: fl.join(t, 1, 2)}} {
		refused(r)
	}
	if reply := p.next(); reply.Batch == nil {
		t.Errorf("next: %v", reply)
	}
}

func TestCheckpointsAndEventsAreTold(t *testing.T) {
	m := &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 32}}
	fl := newFleet(t, m, &fake.Worker{})
	m.Change(func() { m.Order("best", 2) })
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	for n := range 3 {
		b := p.next().Batch
		if c := b.Checkpoint; n == 1 && (c == nil || *c != checkpoint{Name: "best", Step: 2}) || n != 1 && c != nil {
			t.Errorf("batch %d is followed by the checkpoint %v", n, c)
		}
	}
	want := map[string]any{"name": "best", "step": 2.0}
	at := slices.IndexFunc(p.events, func(e event) bool { return e.Name == "checkpoint" })
	if at < 0 || p.events[at].Level != 0 || !maps.Equal(p.events[at].About, want) {
		t.Errorf("the events %v", p.events)
	}
}

func TestFigures(t *testing.T) {
	d := fake.NewDataset(3, 1, 12)
	fl := newFleet(t, &fake.Master{
		Data: d, Spec: &pb.Spec{BatchSize: 32, LastBatch: pb.LastBatch_DROP},
	}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	var last, at *reply
	for at = p.next(); at.Batch != nil; at = p.next() {
		last = at
	}
	if n := last.Figures.EpochBatches; n == nil || *n != uint64(d.Rows()/32) {
		t.Errorf("with the last batch, the epoch has %v batches", n)
	}
	f, rows := at.Figures, int64(d.Rows()/32*32)
	if f.Epoch != 1 || f.Rows != rows || f.Batches != rows/32 || f.Dropped != int64(d.Rows())-rows ||
		f.RowsByWorker["w1"] != rows || f.Bytes == 0 || f.Streams != 1 {
		t.Errorf("at the end of %d rows: %v", rows, f)
	}
}
