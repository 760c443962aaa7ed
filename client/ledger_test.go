package client

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/internal/wire"
)

func grantOf(t interface{ Fatal(...any) }, iv position.Interval, workers ...string) *pb.Grant {
	var candidates []*pb.Worker
	for _, w := range workers {
		candidates = append(candidates, &pb.Worker{Name: w, Address: w})
	}
	ticket, err := proto.Marshal(&pb.Ticket{Workers: candidates})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := proto.Marshal(&pb.SignedTicket{Ticket: ticket})
	if err != nil {
		t.Fatal(err)
	}
	return &pb.Grant{Interval: iv.Proto(), Ticket: signed}
}

// newLedger is one of a rank that reads on until an epoch has no more rows.
func newLedger(h holdings) *ledger {
	l := &ledger{holdings: h}
	l.pacing = free{l}
	return l
}

// TestLedgerKeepsThePartition grants, receives, takes, hands over and takes back at random, and checks after each
// step that what is held is exactly what is pending and what the pieces have, without overlap.
func TestLedgerKeepsThePartition(t *testing.T) {
	const shards, windows, rows = 4, 3, 6
	rapid.Check(t, func(t *rapid.T) {
		shard := func(i int) position.Position { return position.Position{Block: uint32(i)} }
		l := newLedger(holdings{streams: 2})
		held := position.Set{}
		sync := func() {
			held = held.Subtract(l.consumed)
			reply := &pb.SyncReply{Streams: 2}
			for i := range shards {
				for _, iv := range held.Intersect(position.Set{{From: shard(i), To: shard(i + 1)}}) {
					reply.Grants = append(reply.Grants, grantOf(t, iv, "w1"))
				}
			}
			if err := l.apply(reply, 0); err != nil {
				t.Fatal(err)
			}
		}
		somewhere := rapid.Custom(func(t *rapid.T) position.Position {
			p := shard(rapid.IntRange(0, shards-1).Draw(t, "shard"))
			p.Window, p.K = rapid.Uint32Range(0, windows-1).Draw(t, "window"), rapid.Uint64Range(0, rows).Draw(t, "k")
			return p
		})
		t.Repeat(map[string]func(*rapid.T){
			"grant": func(t *rapid.T) {
				i := rapid.IntRange(0, shards-1).Draw(t, "shard")
				held = held.Union(position.Set{{From: shard(i), To: shard(i + 1)}}.Subtract(l.consumed))
				sync()
			},
			"revoke": func(t *rapid.T) {
				held = held.Subtract(position.NewSet(position.Interval{
					From: somewhere.Draw(t, "from"), To: somewhere.Draw(t, "to"),
				}))
				if !held.Covers(position.NewSet(l.pending...)) {
					sync()
					if !l.discard || len(l.pending) > 0 {
						t.Fatalf("rows of %v are not ours, and stay in the batch", l.pending)
					}
					l.discard = false
				}
				sync()
			},
			"receive": func(t *rapid.T) { receiveSome(t, l, windows, rows) },
			"take": func(t *rapid.T) {
				n := rapid.IntRange(1, 5).Draw(t, "n")
				if c, p := l.order().take(n); p != nil && (c.hi-c.lo > n || c.hi == c.lo) {
					t.Fatalf("took %d rows of at most %d", c.hi-c.lo, n)
				}
			},
			"handOver": func(*rapid.T) { l.handOver() },
			"release": func(t *rapid.T) {
				read := slices.Clone(l.pieces)
				l.release(position.NewSet(position.Interval{
					From: somewhere.Draw(t, "from"), To: somewhere.Draw(t, "to"),
				}), 0)
				l.order().reconcile()
				if held = held.Subtract(l.released); len(read) > 0 && (len(l.pieces) == 0 || l.pieces[0] != read[0]) {
					t.Fatalf("gave %v back, with what it reads first", l.released)
				}
			},
			"": func(t *rapid.T) { checkLedger(t, l, held) },
		})
	})
}

// receiveSome plays a worker that sends one batch, or its end, to one of the pieces.
func receiveSome(t *rapid.T, l *ledger, windows uint32, rows uint64) {
	if len(l.pieces) == 0 {
		return
	}
	p := l.pieces[rapid.IntRange(0, len(l.pieces)-1).Draw(t, "piece")]
	p.open = true
	at := p.received
	if at.Window >= windows {
		if err := l.end(p); err != nil {
			t.Fatal(err)
		}
		return
	}
	n := min(rapid.Uint64Range(0, rows).Draw(t, "rows"), rows-at.K)
	m := &pb.BatchMeta{Window: at.Window, K: at.K, Rows: uint32(n), Last: at.K+n == rows}
	if _, err := l.push(p, &wireRecord{batch: new(wire.Batch), bytes: 100, rows: int(n)}, m); err != nil {
		t.Fatal(err)
	}
}

func checkLedger(t *rapid.T, l *ledger, held position.Set) {
	have := position.NewSet(l.pending...)
	queued := int64(0)
	for i, p := range l.pieces {
		iv := position.Interval{From: p.taken, To: p.to}
		if iv.Empty() || len(have.Intersect(position.Set{iv})) > 0 || p.shard != p.taken.ShardStart() {
			t.Fatalf("piece %v of shard %v is empty, or overlaps %v", iv, p.shard, have)
		}
		if i > 0 && !l.pieces[i-1].taken.Less(p.taken) {
			t.Fatalf("piece %v stands out of order", iv)
		}
		have = have.Union(position.Set{iv})
		queued += p.bytes
		cur, bytes := p.taken, int64(0)
		for _, c := range p.queue {
			bytes += c.bytes
			if c.at.Less(cur) || !c.at.Less(c.to) || c.hi <= c.lo {
				t.Fatalf("chunk %v to %v, rows %d to %d, follows %v", c.at, c.to, c.lo, c.hi, cur)
			}
			cur = c.to
		}
		if cur != p.received || p.to.Less(cur) || p.bytes != bytes {
			t.Fatalf("the queue ends at %v; received is %v, to %v, %d bytes", cur, p.received, p.to, p.bytes)
		}
	}
	if want := held.Subtract(l.consumed); !have.Equal(want) {
		t.Fatalf("pending and pieces are %v; held is %v", have, want)
	}
	if queued != l.queued {
		t.Fatalf("%d bytes are queued; the ledger says %d", queued, l.queued)
	}
}

// TestLatePieceGoesFirst: rows of the open epoch that come back late are not kept waiting by those of the next.
func TestLatePieceGoesFirst(t *testing.T) {
	at := func(epoch, shard uint32) position.Position { return position.Position{Epoch: epoch, Shard: shard} }
	next := position.Interval{From: at(1, 0), To: at(1, 1)}
	l := newLedger(holdings{})
	apply := func(ivs ...position.Interval) {
		reply := &pb.SyncReply{Streams: 1}
		for _, iv := range ivs {
			reply.Grants = append(reply.Grants, grantOf(t, iv))
		}
		if err := l.apply(reply, 0); err != nil {
			t.Fatal(err)
		}
	}
	apply(next)
	p := l.order().startable()
	p.open = true
	rec := &wireRecord{batch: new(wire.Batch), rows: 5, bytes: 100}
	if _, err := l.push(p, rec, &pb.BatchMeta{Rows: 5}); err != nil {
		t.Fatal(err)
	}
	if l.order().startable() != nil || l.queued != 100 {
		t.Fatal("more streams than one, or nothing received")
	}
	apply(position.Interval{From: at(0, 3), To: at(0, 4)}, next)
	late := l.order().startable()
	if late == nil || late.taken != at(0, 3) || !p.gone || l.queued != 0 || len(l.pieces) != 2 ||
		l.pieces[1].received != next.From {
		t.Fatalf("opened %+v; expected the late piece, and the other to begin anew", late)
	}
}

// TestRefusedPieceIsReported until the master decides. It stays as it is meanwhile: were it read again, rows could be
// handed over that a report under way takes from this rank.
func TestRefusedPieceIsReported(t *testing.T) {
	at := func(epoch, shard, window uint32) position.Position {
		return position.Position{Epoch: epoch, Shard: shard, Window: window}
	}
	next := position.Interval{From: at(1, 0, 0), To: at(1, 1, 0)}
	l := newLedger(holdings{})
	apply := func(ivs ...position.Interval) {
		reply := &pb.SyncReply{Streams: 1}
		for _, iv := range ivs {
			reply.Grants = append(reply.Grants, grantOf(t, iv))
		}
		if err := l.apply(reply, 0); err != nil {
			t.Fatal(err)
		}
	}
	apply(next)
	p := l.order().startable()
	p.open = true
	rec := &wireRecord{batch: new(wire.Batch), rows: 5, bytes: 100}
	if _, err := l.push(p, rec, &pb.BatchMeta{Rows: 5, Last: true}); err != nil {
		t.Fatal(err)
	}
	p.refused = &pb.RefusedStream{At: p.received.Proto()}
	apply(position.Interval{From: at(0, 3, 0), To: at(0, 4, 0)}, next)
	if late := l.order().startable(); late != nil || p.gone {
		t.Fatalf("%+v takes the place of the refused piece", late)
	}
	var req pb.SyncRequest
	if l.request(&req); len(req.GetRefused()) != 1 || position.FromProto(req.GetRefused()[0].GetAt()) != at(1, 0, 1) {
		t.Fatalf("reports %v", req.GetRefused())
	}
	apply(position.Interval{From: at(1, 0, 0), To: at(1, 0, 1)}, position.Interval{From: at(1, 0, 2), To: at(1, 1, 0)})
	req.Reset()
	if l.request(&req); len(req.GetRefused()) > 0 {
		t.Errorf("reports %v, though it was left out", req.GetRefused())
	}
	if len(l.pieces) != 2 || l.pieces[0] != p || len(p.queue) != 1 || l.pieces[1].received != at(1, 0, 2) {
		t.Errorf("pieces %+v; want the rows before, and a piece after", l.pieces)
	}
}

func TestUnchangedReplyKeepsPieces(t *testing.T) {
	iv := position.Interval{To: position.Position{Shard: 1}}
	l := newLedger(holdings{})
	if err := l.apply(&pb.SyncReply{Grants: []*pb.Grant{grantOf(t, iv, "w1")}}, 0); err != nil {
		t.Fatal(err)
	}
	p := l.pieces[0]
	if err := l.apply(&pb.SyncReply{Unchanged: true, Streams: 5}, 0); err != nil || len(l.pieces) != 1 ||
		l.pieces[0] != p {
		t.Fatalf("pieces %v, error %v", l.pieces, err)
	}
	if err := l.apply(&pb.SyncReply{Grants: []*pb.Grant{grantOf(t, iv, "w1", "w2")}}, 0); err != nil ||
		l.pieces[0] != p || len(p.workers) != 2 {
		t.Fatalf("the piece has %d candidates, error %v", len(p.workers), err)
	}
	if len(p.fresh) != 1 {
		t.Error("the stream is not told of new candidates")
	}
	// Closed epochs never come back, whatever grants are still known.
	if err := l.apply(&pb.SyncReply{Unchanged: true, ClosedEpochs: 1}, 0); err != nil || len(l.pieces) != 0 {
		t.Errorf("pieces of a closed epoch: %v, error %v", l.pieces, err)
	}
	if err := l.apply(&pb.SyncReply{Grants: []*pb.Grant{{Interval: iv.Proto(), Ticket: []byte{1}}}}, 0); err == nil {
		t.Error("a broken ticket is accepted")
	}
}

// A stream goes on while lent memory waits, of which more is copied, as long as the rows that wait make less than two
// batches.
func TestStreamsReadAheadOfLentMemory(t *testing.T) {
	for _, c := range []struct {
		lent bool
		rows int // of each of two records
		want bool
	}{{true, 100, false}, {true, 99, true}, {false, 100, true}} {
		p := &piece{}
		for range wire.Kept {
			p.queue = append(p.queue, chunk{rec: &wireRecord{batch: &wire.Batch{Lent: c.lent}}, hi: c.rows})
		}
		l := newLedger(holdings{streams: 1, pieces: []*piece{p}})
		l.batch = 100
		if got := l.mayReceive(p, 1, 1<<20); got != c.want {
			t.Errorf("lent %v, %d rows: a stream may receive: %v", c.lent, c.rows, got)
		}
	}
}

// Rows of the batch in the making that others have got meanwhile make no step: all ranks would have to make it.
func TestRowsThatAreDiscardedAreNotReady(t *testing.T) {
	s := &shared{building: map[string]int64{"w1": 15, "w2": 10}}
	s.ledger.batch, s.ledger.handed = 10, 4
	if n := (padded{free: free{&s.ledger}}).ready(s.making()); n != 7 {
		t.Errorf("with 25 rows in the making %d batches are ready, want 7", n)
	}
	s.ledger.discard = true
	if n := (padded{free: free{&s.ledger}}).ready(s.making()); n != 4 {
		t.Errorf("once they are discarded %d batches are ready, want 4", n)
	}
}

// TestAnnouncedStepsKeepTheirRows: what a rank is asked to give back it keeps as far as it takes for a row in each step
// that it has said it makes and the master counts, for all ranks make those.
func TestAnnouncedStepsKeepTheirRows(t *testing.T) {
	at := func(shard uint32, k uint64) position.Position { return position.Position{Shard: shard, K: k} }
	holding := func(shard uint32, chunks ...uint64) *piece {
		p := &piece{taken: at(shard, 0), shard: at(shard, 0), to: at(shard+1, 0)}
		from := uint64(0)
		for _, n := range chunks {
			p.queue = append(p.queue, chunk{hi: int(n), at: at(shard, from), to: at(shard, from+n)})
			from += n
		}
		return p
	}
	for _, c := range []struct {
		reported, counted uint64
		making            int
		want              position.Set
	}{
		{2, 9, 0, nil}, // the two that were handed over
		{3, 9, 0, position.Set{{From: at(0, 0), To: at(0, 8)}}},
		{3, 9, 1, nil},
		{9, 3, 0, position.Set{{From: at(0, 0), To: at(0, 8)}}},
		{9, 0, 0, nil},
		{5, 9, 0, position.Set{{From: at(0, 0), To: at(0, 16)}, {From: at(1, 0), To: at(1, 9)}}},
		{5, 9, 10, position.Set{{From: at(0, 0), To: at(0, 16)}}},
		{9, 9, 0, position.Set{{From: at(0, 0), To: at(0, 16)}, {From: at(1, 0), To: at(1, 9)}}}, // all that it has
	} {
		l := newLedger(holdings{pieces: []*piece{holding(0, 8, 8), holding(1, 9), holding(2)}})
		l.pacing, l.steps = padded{free: free{l}}, steps{
			batch: 10, handed: 2, reported: c.reported, planned: map[uint32]epochSteps{0: {steps: c.counted}},
		}
		all := position.Set{{From: at(0, 0), To: at(3, 0)}}
		if l.release(all, c.making); !l.released.Equal(all.Subtract(c.want)) {
			t.Errorf("%d steps announced, %d counted, %d rows in the making: gives back %v, want all but %v",
				c.reported, c.counted, c.making, l.released, c.want)
		}
	}
}

// TestThroughOnlyWhenAsked: a rank hands over its short last batch once the master has answered that nothing more comes
// to it, who holds nothing; an answer from before that may be followed by what another rank gives back.
func TestThroughOnlyWhenAsked(t *testing.T) {
	iv := position.Interval{To: position.Position{Shard: 1}}
	l := newLedger(holdings{})
	exchange := func(reply *pb.SyncReply) (idle bool) {
		var req pb.SyncRequest
		l.request(&req)
		if err := l.apply(reply, 0); err != nil {
			t.Fatal(err)
		}
		return req.GetIdle()
	}
	grants := []*pb.Grant{grantOf(t, iv, "w1")}
	if !exchange(&pb.SyncReply{Grants: grants, Drained: true}) || l.through {
		t.Error("it held nothing, and was granted some")
	}
	if exchange(&pb.SyncReply{Unchanged: true, Drained: true}) || l.through {
		t.Error("it holds some")
	}
	l.order().pass(l.pieces[0].skip(iv.To))
	l.retire(l.pieces[0])
	if !l.epochIdle() || l.through {
		t.Error("it holds nothing, and has not asked since")
	}
	if !exchange(&pb.SyncReply{Unchanged: true}) || l.through {
		t.Error("another rank is asked for some")
	}
	if !exchange(&pb.SyncReply{Unchanged: true, Drained: true}) || !l.through {
		t.Error("nothing more comes")
	}
	l.alone = true
	if exchange(&pb.SyncReply{Grants: grants, Drained: true}); !l.through {
		t.Error("nobody else holds any")
	}
}
