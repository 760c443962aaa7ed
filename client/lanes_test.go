package client

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/internal/wire"
)

// shardRows are the rows of one shard, in windows, cut to lanes as the last block of an epoch is.
type shardRows struct {
	windows []uint64 // rows of each
	starts  []uint64 // of each
	lanes   [][2]uint64
	total   uint64
}

func drawShard(t *rapid.T) *shardRows {
	s := &shardRows{windows: rapid.SliceOfN(rapid.Uint64Range(1, 40), 1, 4).Draw(t, "windows")}
	for _, n := range s.windows {
		s.starts = append(s.starts, s.total)
		s.total += n
	}
	lanes := uint64(rapid.IntRange(1, 30).Draw(t, "lanes"))
	from := uint64(0)
	for i := range lanes {
		n := s.total / lanes
		if i < s.total%lanes {
			n++
		}
		s.lanes = append(s.lanes, [2]uint64{from, from + n})
		from += n
	}
	return s
}

// at is where a row is; after the last is the next shard.
func (s *shardRows) at(row uint64) position.Position {
	if row >= s.total {
		return position.Position{Shard: 1}
	}
	w := 0
	for row >= s.starts[w]+s.windows[w] {
		w++
	}
	return position.Position{Window: uint32(w), K: row - s.starts[w]}
}

func (s *shardRows) row(p position.Position) uint64 { return s.starts[p.Window] + p.K }

func (s *shardRows) grants() (out []grant) {
	for lane, rows := range s.lanes {
		if rows[1] > rows[0] {
			out = append(out, grant{
				Interval: position.Interval{From: s.at(rows[0]), To: s.at(rows[1])}, lane: uint32(lane),
				rows: rows[1] - rows[0],
			})
		}
	}
	return out
}

// deliver has a stream receive its next batch, of any size.
func (s *shardRows) deliver(t *rapid.T, st *stream) {
	at := st.at.received
	if int(at.Window) == len(s.windows) {
		if err := st.end(new(attempt)); err != nil {
			t.Fatal(err)
		}
		return
	}
	left := s.windows[at.Window] - at.K
	n := rapid.Uint64Range(1, left).Draw(t, "rows")
	rec := &wireRecord{batch: new(wire.Batch), rows: int(n), bytes: 1000}
	m := &pb.BatchMeta{Window: at.Window, K: at.K, Rows: uint32(n), Last: n == left}
	if _, err := st.push(rec, m); err != nil {
		t.Fatal(err)
	}
}

// TestLanesShareStreams: lanes that have a part each of a window have one stream for it, and get their rows, whatever
// the budget is.
func TestLanesShareStreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shard := drawShard(t)
		lanes := uint32(len(shard.lanes))
		f := newFetcher(new(terms), newShared())
		l := &f.shared.ledger
		l.streams, l.grants = 1, shard.grants()
		l.pacing, l.lanes, l.batch = counted{ledger: l}, newLanes(lanes, 0, 1, int(lanes)), int(lanes)
		l.countSteps(nil, nil)
		l.planned[0] = epochSteps{steps: (shard.total + uint64(lanes) - 1) / uint64(lanes), final: true}
		l.order().reconcile()

		var streams []*stream
		budget := rapid.Int64Range(0, 3000).Draw(t, "budget")
		for step := range l.planned[0].steps {
			for l.lanes.lane < l.lanes.to {
				lane, want := l.lanes.lane, shard.lanes[l.lanes.lane][0]+step
				if c, p := l.order().take(1); p != nil {
					if got := shard.row(c.at); got != want || p.lane != lane {
						t.Fatalf("step %d has row %d of lane %d for lane %d; want row %d",
							step, got, p.lane, lane, want)
					}
					continue
				}
				if l.lanes.lane == l.lanes.to {
					break // the last lanes have no row in this step
				}
				for p, _ := f.startable(t.Context()); p != nil; p, _ = f.startable(t.Context()) {
					streams = append(streams, newStream(f, p))
				}
				moved := false
				for _, st := range streams {
					if !st.at.complete() && st.mayReceive(1000, budget) {
						shard.deliver(t, st)
						moved = true
					}
				}
				if !moved {
					t.Fatalf("step %d waits for lane %d, and no stream has room", step, lane)
				}
			}
			l.lanes.begin()
			l.handed++
		}
		for _, st := range streams {
			if !st.at.complete() {
				shard.deliver(t, st) // its end
			}
		}
		if len(l.pieces) > 0 || l.queued != 0 {
			t.Errorf("%d pieces and %d bytes are left", len(l.pieces), l.queued)
		}
		if n := 2 * len(shard.windows); len(streams) > n {
			t.Errorf("%d streams for %d lanes in %d windows; want %d at most",
				len(streams), lanes, len(shard.windows), n)
		}
	})
}
