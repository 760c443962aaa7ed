package session

import (
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/master/plan"
)

// maxStarts bounds the starts that a rank is told, in rows of lanes: each has all lanes'. Further ones follow as the
// rank goes on.
const maxStarts = 1 << 14

// lanes is where the rows of a block lie. It never changes.
type lanes struct {
	before, after []uint64 // by lane: rows of the epoch before the block, and with it
	max           uint64   // of after
	pieces        []plan.Piece
}

// LaneStart is where a block begins in the lanes. See pb.LaneStart.
type LaneStart struct {
	Epoch, Block uint32
	Rows         []uint64
}

// Piece is a run of rows of one lane, within one shard.
type Piece struct {
	position.Interval
	Lane        uint32
	First, Rows uint64
}

// share is the rows of each lane in a step.
func (id *Identity) share() uint64 { return id.GlobalBatch / uint64(id.Lanes) }

// lay lays a block out.
func (b block) lay(before []uint64) *lanes {
	shards := make([]uint64, b.shards)
	for i := range shards {
		shards[i] = b.counts.starts[i+1] - b.counts.starts[i]
	}
	l := &lanes{before: before}
	l.pieces, l.after = plan.Lanes(shards, before, b.index+1 == b.blocks)
	l.max = slices.Max(l.after)
	return l
}

// laneRows is by lane what is planned of an epoch.
func (s deterministic) laneRows(epoch uint32) []uint64 {
	if e := s.blocks.epoch(epoch); e != nil {
		return e.lanes
	}
	return make([]uint64, s.id.Lanes)
}

// reaches reports whether a block has rows after some steps.
func (s deterministic) reaches(b block, n Steps) bool {
	if b.epoch != n.Epoch {
		return b.epoch > n.Epoch
	}
	return b.lanes.max > n.Handed*s.id.share()
}

// dropPassed forgets the blocks that all ranks are past, also those that departed, and that have just begun: these go
// on where they began if others start with them.
func (s deterministic) dropPassed() {
	s.blocks.list = slices.DeleteFunc(s.blocks.list, func(b block) bool {
		needs := func(k *rank) bool {
			n := s.at(k)
			if k != nil && k.begun.less(n) && k.begun.Epoch >= s.closed && s.waits(k) {
				n = k.begun
			}
			return s.reaches(b, n)
		}
		return !slices.ContainsFunc(s.ranks, needs)
	})
}

// answer says what to read, and how far to go.
func (s deterministic) answer(rank uint32, k *rank, at *Steps, r Reply) Reply {
	if r.Drained = s.drained(); !r.Unchanged && !k.departed {
		r.Pieces, r.Starts = s.pieces(rank, k), s.starts(k)
	}
	if at != nil {
		r.Steps = s.laneStepsFrom(at.Epoch)
	}
	return r
}

// pieces lists, in order, the planned rows of a rank's lanes after the steps that it reported.
func (s deterministic) pieces(r uint32, k *rank) []Piece {
	at, world := s.at(k), uint64(s.world)
	first := uint32(uint64(r) * uint64(s.id.Lanes) / world)
	end := uint32(uint64(r+1) * uint64(s.id.Lanes) / world)
	var out []Piece
	for _, b := range s.blocks.list {
		if !s.reaches(b, at) {
			continue
		}
		for _, p := range b.lanes.pieces {
			if p.Lane >= first && p.Lane < end && (b.epoch > at.Epoch || p.First+p.Rows > at.Handed*s.id.share()) {
				out = append(out, Piece{Interval: b.interval(p), Lane: p.Lane, First: p.First, Rows: p.Rows})
			}
		}
	}
	return out
}

// interval is where a piece lies. Windows without rows go to one of the pieces beside them.
func (b block) interval(p plan.Piece) position.Interval {
	shard := position.Position{Epoch: b.epoch, Block: b.index, Shard: p.Shard}
	start := b.counts.starts[p.Shard]
	iv := position.Interval{From: shard, To: b.advance(shard, 1)}
	if p.From > 0 {
		iv.From = b.at(start + p.From)
	}
	if to := start + p.From + p.Rows; to < b.counts.starts[p.Shard+1] {
		iv.To = b.at(to)
	}
	return iv
}

// starts lists where blocks begin that have rows after a rank's steps, and the block to plan next; the first ones of
// them, of which the very first is not beyond those steps in any lane.
func (s deterministic) starts(k *rank) []LaneStart {
	var out []LaneStart
	at := s.at(k)
	for _, b := range s.blocks.list {
		if s.reaches(b, at) {
			out = append(out, LaneStart{Epoch: b.epoch, Block: b.index, Rows: b.lanes.before})
		}
	}
	if s.frontier.Epoch < s.id.Epochs {
		out = append(out, LaneStart{
			Epoch: s.frontier.Epoch, Block: s.frontier.Block,
			Rows: s.laneRows(s.frontier.Epoch),
		})
	}
	return out[:min(len(out), max(1, maxStarts/int(s.id.Lanes)))]
}

// LaneStartsProto returns starts as they cross the wire.
func LaneStartsProto(starts []LaneStart) []*pb.LaneStart {
	var out []*pb.LaneStart
	for _, l := range starts {
		out = append(out, &pb.LaneStart{Epoch: l.Epoch, Block: l.Block, Rows: l.Rows})
	}
	return out
}
