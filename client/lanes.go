package client

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// lanes is how a rank takes rows in order deterministic: step g is rows g*rows to (g+1)*rows of each of its lanes, one
// lane after the other, at whatever time and from whatever worker they came. Near the end of an epoch a lane may have
// fewer.
type lanes struct {
	count    uint32 // of all ranks
	from, to uint32 // this rank's
	rows     uint64 // of a lane in a step
	lane     uint32 // from which the step in the making takes; to when it has all
	taken    uint64 // of its rows there

	pieces [][]*piece        // by lane of this rank's: ledger.pieces
	ends   map[laneOf]uint64 // of grants: rows that a lane has at least
	starts []*pb.LaneStart   // ascending
}

// inLanes is the order in which rows are taken from lanes in turn.
type inLanes struct{ ledger *ledger }

// received notes that rows of a piece are received, up to a position: others know how many there are.
func (o inLanes) received(p *piece, rows int, after position.Position) error {
	return p.count(rows, after)
}

func (o inLanes) lanes() *lanes                { return o.ledger.lanes }
func (o inLanes) filled(int) bool              { return o.lanes().lane == o.lanes().to }
func (o inLanes) pass(position.Interval)       {} // steps say what was consumed
func (o inLanes) begin()                       { o.lanes().begin() }
func (o inLanes) learn(starts []*pb.LaneStart) { o.lanes().learn(starts) }
func (o inLanes) turns() bool                  { return true }

// waitsForLent is false: lanes wait for each other, and may be more than a worker has places for.
func (o inLanes) waitsForLent(*piece) bool { return false }

func (o inLanes) forget(p *piece) {
	of := o.lanes().of(p.lane)
	*of = slices.DeleteFunc(*of, func(q *piece) bool { return q == p })
}

// snapshot has the step say it all.
func (o inLanes) snapshot(at *snapshot) {
	lanes := o.lanes()
	at.consumed, at.base.consumed, at.remembers = nil, nil, false
	at.start, at.globalBatch = lanes.start(at.ended, at.handed), lanes.rows*uint64(lanes.count)
}

type laneOf struct {
	epoch, lane uint32
}

// lanesOf are those that a rank has in a session, nil if its order has none.
func lanesOf(s *pb.Session, rank, world uint32) (*lanes, error) {
	if s.GetSpec().GetOrder() != pb.Order_DETERMINISTIC {
		return nil, nil
	}
	n, batch := s.GetLanes(), s.GetBatchSize()
	if n == 0 || n%world != 0 || batch%int64(n/world) != 0 {
		return nil, fmt.Errorf("the master's session has %d lanes; %d ranks with batches of %d rows cannot share them",
			n, world, batch)
	}
	return newLanes(n, rank, world, int(batch)), nil
}

// newLanes are those of a rank, of count lanes in all, where each rank's batch has so many rows.
func newLanes(count, rank, world uint32, batch int) *lanes {
	n := count / world
	o := &lanes{
		count: count, from: rank * n, to: (rank + 1) * n, rows: uint64(batch) / uint64(n), pieces: make([][]*piece, n),
	}
	o.begin()
	return o
}

// of is what the ledger has of a lane, in the order of its rows.
func (o *lanes) of(lane uint32) *[]*piece { return &o.pieces[lane-o.from] }

// begin makes the next step.
func (o *lanes) begin() { o.lane, o.taken = o.from, 0 }

// learn takes over where blocks start. What lies before the newest reply's is kept: no start may be there after the
// last step of an epoch.
func (o *lanes) learn(starts []*pb.LaneStart) {
	for _, s := range starts {
		at := slices.IndexFunc(o.starts, func(k *pb.LaneStart) bool { return !before(k, s) })
		if at < 0 {
			o.starts = append(o.starts, s)
		} else if before(s, o.starts[at]) {
			o.starts = slices.Insert(o.starts, at, s)
		}
	}
}

func before(a, b *pb.LaneStart) bool {
	return cmp.Or(cmp.Compare(a.GetEpoch(), b.GetEpoch()), cmp.Compare(a.GetBlock(), b.GetBlock())) < 0
}

// start is the newest block at whose start no lane is beyond a step, and forgets those before it. Steps only go up.
func (o *lanes) start(epoch uint32, step uint64) *pb.LaneStart {
	newest := -1
	for i, s := range o.starts {
		beyond := slices.ContainsFunc(s.GetRows(), func(n uint64) bool { return n > step*o.rows })
		if s.GetEpoch() < epoch || s.GetEpoch() == epoch && !beyond {
			newest = i
		}
	}
	if newest < 0 {
		return nil
	}
	o.starts = slices.Delete(o.starts, 0, newest)
	if o.starts[0].GetEpoch() < epoch {
		return nil
	}
	return o.starts[0]
}

// next is the row of a lane that the step in the making takes next.
func (o inLanes) next(lane uint32) uint64 {
	lanes := o.lanes()
	row := o.ledger.handed * lanes.rows
	switch {
	case lane < lanes.lane:
		row += lanes.rows
	case lane == lanes.lane:
		row += lanes.taken
	}
	return row
}

// take moves up to n rows into the batch in the making, in the order of the step.
func (o inLanes) take(n int) (chunk, *piece) {
	lanes := o.lanes()
	for ; lanes.lane < lanes.to; lanes.lane, lanes.taken = lanes.lane+1, 0 {
		for lanes.taken < lanes.rows {
			next := o.next(lanes.lane)
			p := o.head(lanes.lane)
			switch {
			case p == nil && o.laneEnds(lanes.lane, next):
				lanes.taken = lanes.rows
				continue
			case p == nil || len(p.queue) == 0 || p.row > next:
				return chunk{}, nil
			case p.row < next: // it was in an earlier step, before this process
				c := o.ledger.takeFrom(p, int(next-p.row))
				c.rec.release()
				continue
			}
			c := o.ledger.takeFrom(p, int(min(uint64(n), lanes.rows-lanes.taken)))
			if lanes.taken += uint64(c.hi - c.lo); lanes.taken == lanes.rows {
				lanes.lane, lanes.taken = lanes.lane+1, 0
			}
			return c, p
		}
	}
	return chunk{}, nil
}

// head is the piece with a lane's next row, or nil.
func (o inLanes) head(lane uint32) *piece {
	if of := *o.lanes().of(lane); len(of) > 0 && of[0].taken.Epoch <= o.ledger.ended {
		return of[0]
	}
	return nil
}

// laneEnds reports whether a lane has nothing from a row on. All that an epoch has was granted when its steps are
// final.
func (o inLanes) laneEnds(lane uint32, row uint64) bool {
	epoch := o.ledger.ended
	return o.ledger.planned[epoch].final && o.lanes().ends[laneOf{epoch, lane}] <= row
}

// reconcile makes pieces of all that is granted and was not taken.
func (o inLanes) reconcile() {
	l, lanes := o.ledger, o.lanes()
	lanes.ends = make(map[laneOf]uint64)
	there := make(map[position.Position]*piece, len(l.pieces))
	for _, p := range l.pieces {
		there[p.to] = p
	}
	pieces := make([]*piece, 0, len(l.grants))
	begin := make(map[position.Position]*piece) // where new ones do
	for _, g := range l.grants {
		epoch, end := g.From.Epoch, g.first+g.rows
		in := laneOf{epoch, g.lane}
		lanes.ends[in] = max(lanes.ends[in], end)
		if epoch < l.ended || epoch == l.ended && end <= o.next(g.lane) || g.lane < lanes.from || g.lane >= lanes.to {
			continue
		}
		p := there[g.To]
		if p == nil {
			p = newPiece(g.Interval, g)
			begin[g.From] = p
		} else {
			p.renew(g)
			delete(there, g.To)
		}
		pieces = append(pieces, p)
	}
	for _, p := range begin {
		if p.to.ShardStart() == p.shard && p.to.Window == p.taken.Window {
			p.next = begin[p.to]
		}
	}
	for _, p := range there {
		l.drop(p)
	}
	slices.SortFunc(pieces, func(a, b *piece) int {
		return cmp.Or(cmp.Compare(a.taken.Epoch, b.taken.Epoch), cmp.Compare(a.row, b.row), cmp.Compare(a.lane, b.lane))
	})
	l.pieces = pieces
	for lane := range lanes.pieces {
		lanes.pieces[lane] = lanes.pieces[lane][:0]
	}
	for _, p := range pieces {
		of := lanes.of(p.lane)
		*of = append(*of, p)
	}
}

// lead has the stream of a piece read on into those of its window after it that have none: many lanes have a part of a
// window each, which a worker reads as a whole.
func (p *piece) lead() {
	for q := p.next; q != nil && !q.open; q = q.next {
		q.open, q.follows, q.cancel, q.fresh = true, true, p.cancel, p.fresh
	}
}

// leads reports whether the piece's stream reads on after it.
func (p *piece) leads() bool { return p.next != nil && p.next.follows }

// startable returns the next piece to open, or nil. The piece with a lane's next row never waits for a slot: all lanes
// are needed in each step.
func (o inLanes) startable() *piece {
	for lane := o.lanes().from; lane < o.lanes().to; lane++ {
		if p := o.head(lane); p != nil && !p.open {
			return p
		}
	}
	var first *piece
	open := 0
	for _, p := range o.ledger.pieces {
		if p.open {
			open++
		} else if first == nil {
			first = p
		}
	}
	if open < o.places() {
		return first
	}
	return nil
}

// places is how many pieces may be open, but for the first ones of lanes.
func (o inLanes) places() int {
	return max(o.ledger.streams, int(o.lanes().to-o.lanes().from))
}

// shares is among how many pieces the budget is divided.
func (o inLanes) shares() int {
	return o.places() + int(o.lanes().to-o.lanes().from)
}
