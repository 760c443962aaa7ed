package feed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
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
		Masters: []string{fl.net.Address("m")}, Dial: fl.net.Dial, Session: "run-1/train", Spec: fl.master.Spec, Restore: restore,
		SyncEvery: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
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
	hello := &pb.FeedHello{}
	if err := proto.Unmarshal(data, hello); err != nil || hello.GetRelease() != "1.2" || hello.GetLanguage() != uint32(pb.FeedHello_CURRENT) {
		t.Errorf("%v, %v", hello, err)
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
			if reply := p.open(fl.join(t, 0, 1)); !reply.GetDone() || reply.GetFigures().GetEpoch() != 0 {
				t.Fatalf("open: %v", reply)
			}
			compare(t, p, want)
			if !slices.Equal(p.told, []uint32{1}) {
				t.Errorf("the program was told of the segments %d", p.told)
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
		if !reply.GetNext() {
			t.Error("a reply to FeedNext does not say that it is one")
		}
		if released = nil; err == nil || errors.Is(err, client.ErrEpochEnd) {
			number++
		}
		switch {
		case errors.Is(err, io.EOF):
			if !reply.GetFinished() {
				t.Fatalf("at the end came %v", reply)
			}
			return
		case errors.Is(err, client.ErrEpochEnd):
			if end := reply.GetEpochEnd(); end.GetNumber() != number || reply.GetFigures().GetEpoch() != want.Epoch() {
				t.Fatalf("at an epoch's end, %d, came %v", number, reply)
			}
		case err != nil:
			t.Fatal(err)
		default:
			got := reply.GetBatch()
			if got.GetNumber() != number || got.GetRows() != int64(b.Rows) || got.GetValid() != int64(b.Valid) || got.GetEpoch() != b.Epoch {
				t.Fatalf("batch %d: %v; expected %d rows, %d valid, of epoch %d", number, reply, b.Rows, b.Valid, b.Epoch)
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

// TestBatchesStayUntilTheyAreReleased, and their memory is used again then: with six of them in the program's hands, a seventh is made.
func TestBatchesStayUntilTheyAreReleased(t *testing.T) {
	d := fake.NewDataset(3, 1, 40)
	fl := newFleet(t, &fake.Master{Data: d, Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	var ids []int64
	var released []uint64
	places := make(map[int64]bool)
	for finished := false; !finished; {
		var held []*pb.FeedBatch
		var values [][]int64
		for len(held) < 6 && !finished {
			reply := p.next(append(released, 0, 1<<40)...) // which are no batches
			finished, released = reply.GetFinished(), nil
			if b := reply.GetBatch(); b != nil {
				held, values = append(held, b), append(values, slices.Clone(p.ids(b)))
			}
		}
		for i, b := range held {
			if !slices.Equal(p.ids(b), values[i]) {
				t.Errorf("batch %d was changed", b.GetNumber())
			}
			ids = append(ids, values[i]...)
			places[b.GetArrayBegins()[labels]] = true
			released = append(released, b.GetNumber(), b.GetNumber()) // once is enough
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
		if reply.GetFinished() {
			break
		}
		again := nextOf(longest)
		if b := reply.GetBatch(); b != nil {
			ids = append(ids, p.ids(b)...)
			places[b.GetArrayBegins()[labels]] = true
			again = nextOf(longest, b.GetNumber())
		}
		again.Id = reply.GetId()
		if got := p.ask(again); !got.GetDone() || !got.GetNext() || got.GetId() != reply.GetId() {
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
	if got, want := slices.Sorted(slices.Values(ids)), slices.Sorted(slices.Values(d.IDs(d.All()))); !slices.Equal(got, want) {
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
				finished = reply.GetFinished()
			}
			if len(numbers) != 1+2*4+2 { // the beginning, 4 batches of each epoch and its end
				t.Fatalf("%d numbers", len(numbers))
			}
			states := p.ask(stateOf(numbers...)).GetStates().GetStates()
			for i, st := range states {
				again := newFleet(t, &fake.Master{Data: d, Spec: spec}, &fake.Worker{})
				rest := before[i]
				for b, err := range plain(t, again, st).Batches(t.Context()) {
					if err != nil {
						t.Fatalf("behind %d: %v", i, err)
					}
					rest = append(rest, b.Labels[0].I64[:b.Valid]...)
					b.Release()
				}
				exactlyOnce(t, d, rest)
			}
			for number, ended := range map[int]uint32{0: 0, 4: 0, 5: 1, 9: 1, 10: 2} {
				if got := states[number].GetClosedEpochs(); got != ended {
					t.Errorf("behind %d the state says that %d epochs have ended; expected %d", number, got, ended)
				}
			}
		})
	}
}

// idsOf are those of a reply's batch, if it has one.
func idsOf(p *program, reply *pb.FeedReply) []int64 {
	if reply.GetBatch() == nil {
		return nil
	}
	return p.ids(reply.GetBatch())
}

func TestStatesThatAreNotKept(t *testing.T) {
	const rows = statesKept + 10
	fl := newFleet(t, &fake.Master{Data: &fake.Dataset{Epochs: 1, BlockShards: 1, Shards: [][]int{{rows}}}, Spec: &pb.Spec{BatchSize: 1}}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	for n := range uint64(rows) {
		p.next(n)
	}
	for _, number := range []uint64{rows, rows - statesKept + 1} {
		if reply := p.ask(stateOf(number)); reply.GetStates().GetStates()[0].GetRows() != int64(number) {
			t.Errorf("behind %d: %v", number, reply)
		}
	}
	for _, number := range []uint64{0, rows - statesKept, rows + 1, 1<<64 - 1} {
		if reply := p.ask(stateOf(number)); reply.GetError() == nil {
			t.Errorf("behind %d, of %d: %v", number, rows, reply)
		}
	}
	if reply := p.ask(stateOf(make([]uint64, statesKept+1)...)); reply.GetError() == nil {
		t.Errorf("%d states at once", len(reply.GetStates().GetStates()))
	}
}

func TestClose(t *testing.T) {
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	b := p.next().GetBatch()
	ids := slices.Clone(p.ids(b))
	for range 2 {
		if reply := p.ask(closing()); !reply.GetDone() {
			t.Errorf("close: %v", reply)
		}
	}
	fl.left(t, 0)
	if reply := p.next(); reply.GetError() == nil {
		t.Errorf("next of a closed session: %v", reply)
	}
	if reply := p.ask(stateOf(1)); reply.GetStates().GetStates()[0].GetRows() != 32 {
		t.Errorf("state of a closed session: %v", reply)
	}
	if !slices.Equal(p.ids(b), ids) {
		t.Error("a batch of a closed session was changed")
	}
}

// TestConnectionIsClosed while the program waits for a batch: the session's memory comes back, and no master hears of it.
func TestConnectionIsClosed(t *testing.T) {
	d := fake.NewDataset(3, 1, 12)
	fl := newFleet(t, &fake.Master{Data: d, Spec: &pb.Spec{BatchSize: 32, Epochs: 3}}, &fake.Worker{})
	pool := memory()
	s := start(t, pool)
	for _, requests := range [][]*pb.FeedRequest{
		{nextOf(longest)}, // Serve waits to read another one
		{nextOf(int64(100 * time.Millisecond)), stateOf(0)}, // Serve has read both, and finds it closed when it answers
	} {
		p := s.connect(t)
		p.open(fl.join(t, 0, 1))
		p.next()
		fl.master.Change(func() { fl.master.Frozen = true })
		for p.ask(nextOf(int64(time.Millisecond))).GetWaiting() == nil {
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
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 2, 40), Spec: &pb.Spec{BatchSize: 8, Epochs: 2}}, &fake.Worker{})
	s := start(t, memory())
	var reading, readers sync.WaitGroup
	var told [ranks][]uint32
	for rank := range uint32(ranks) {
		p := s.connect(t)
		p.open(fl.join(t, rank, ranks))
		reading.Add(1)
		readers.Go(func() {
			read := sync.OnceFunc(reading.Done)
			defer read()
			for n := uint64(0); ; n++ {
				r := nextOf(longest, n)
				r.Id = n + 1
				_, _ = p.conn.Write(frame(t, r)) // what fails there fails here, too:
				reply, err := p.reply()
				if err != nil {
					break
				}
				if reply.GetBatch() != nil {
					read()
				}
			}
			told[rank] = p.told
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
	for rank, ids := range told {
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
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 32}, Frozen: true}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	o := fl.join(t, 0, 1)
	o.LeaseNs = -1
	p.open(o)
	for _, wait := range []int64{0, -1, -1 << 63, 1} {
		if reply := p.ask(nextOf(wait)); reply.GetWaiting() == nil || !reply.GetNext() {
			t.Errorf("next in %d ns: %v", wait, reply)
		}
	}
	fl.master.Change(func() { fl.master.Frozen = false })
	if reply := p.ask(nextOf(1<<63 - 1)); reply.GetBatch() == nil {
		t.Errorf("next in 292 years: %v", reply)
	}
	if w := p.ask(nextOf(0)).GetWaiting(); w == nil || w.GetLapsed() || w.GetMaster() != "" {
		t.Errorf("while all is well, and nothing is asked for: %v", w)
	}
}

func TestRequestsOutOfPlace(t *testing.T) {
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	refused := func(r *pb.FeedRequest) {
		t.Helper()
		if reply := p.ask(r); reply.GetError() == nil || reply.GetNext() != (r.GetNext() != nil) {
			t.Errorf("%v: %v", r, reply)
		}
	}
	for _, r := range []*pb.FeedRequest{nextOf(longest), stateOf(0), closing(), {}, {What: &pb.FeedRequest_Open{}}} {
		refused(r)
	}
	p.open(fl.join(t, 0, 1))
	for _, r := range []*pb.FeedRequest{{}, {What: &pb.FeedRequest_Open{Open: fl.join(t, 1, 2)}}} {
		refused(r)
	}
	if reply := p.next(); reply.GetBatch() == nil {
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
		b := p.next().GetBatch()
		if c := b.GetCheckpoint(); n == 1 && (c != "best" || b.GetCheckpointStep() != 2) || n != 1 && c != "" {
			t.Errorf("batch %d is followed by the checkpoint %q", n, c)
		}
	}
	want := map[string]*pb.FeedValue{"name": {Is: &pb.FeedValue_Text{Text: "best"}}, "step": {Is: &pb.FeedValue_Integer{Integer: 2}}}
	at := slices.IndexFunc(p.events, func(e *pb.FeedEvent) bool { return e.GetName() == "checkpoint" })
	if at < 0 || p.events[at].GetLevel() != 0 || !proto.Equal(&pb.FeedEvent{About: p.events[at].GetAbout()}, &pb.FeedEvent{About: want}) {
		t.Errorf("the events %v", p.events)
	}
}

func TestFigures(t *testing.T) {
	d := fake.NewDataset(3, 1, 12)
	fl := newFleet(t, &fake.Master{Data: d, Spec: &pb.Spec{BatchSize: 32, LastBatch: pb.LastBatch_DROP}}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	var last, at *pb.FeedReply
	for at = p.next(); at.GetBatch() != nil; at = p.next() {
		last = at
	}
	if n := last.GetFigures().GetEpochBatches(); n != uint64(d.Rows()/32) {
		t.Errorf("with the last batch, the epoch has %d batches", n)
	}
	f, rows := at.GetFigures(), int64(d.Rows()/32*32)
	if f.GetEpoch() != 1 || f.GetRows() != rows || f.GetBatches() != rows/32 || f.GetDropped() != int64(d.Rows())-rows ||
		f.GetRowsByWorker()["w1"] != rows || f.GetBytes() == 0 || f.GetStreams() != 1 {
		t.Errorf("at the end of %d rows: %v", rows, f)
	}
}
