package session

import (
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/master/plan"
)

// In order DETERMINISTIC an epoch's rows lie in lanes (plan.Lanes), and ranks take equally many rows of each lane in
// each step: what a rank hands over follows from the number of its steps, and so does what it holds. All of a planned
// block is granted to the ranks of its lanes, and stays theirs: nothing is given back, and the rows of a rank that died
// wait for it. So there are no sets here: base, consumed, held and returned stay empty, and the frontier is the next
// block to plan. Of an epoch that is not closed, a rank has consumed the rows of its lanes before its step, and holds
// those after it.
//
// Blocks are planned in order, and remembered until all ranks are past them. Enough of them are planned that the
// slowest rank need not wait; ranks that are faster wait for it, as they would in step. An epoch is closed once all its
// ranks have handed over its steps, which are known when its last block is planned.

// stepsAhead is how many steps are planned, at least, beyond those that the slowest rank reported: what ranks report is
// some batches old.
const stepsAhead = 16

// maxStarts bounds the starts that a rank is told, in rows of lanes: each has all lanes'. Further ones follow as the
// rank goes on.
const maxStarts = 1 << 14

// deterministic is the order whose rows lie in lanes.
type deterministic struct{ *State }

// laneEnding is what becomes of the last rows of an epoch, once all of it lies in lanes.
type laneEnding interface {
	// steps is how many steps lanes of so many rows make, at a rank's share of each.
	steps(rows []uint64, share uint64) uint64
	// dropped is how many of these rows are in none of so many steps.
	dropped(rows []uint64, share, steps uint64) uint64
}

// ending has the last rows of an epoch make a step, unless they are dropped.
func (s deterministic) ending() laneEnding {
	if s.id.LastBatch == pb.LastBatch_DROP {
		return wholeSteps{}
	}
	return allRows{}
}

// allRows has a last step of the rows that are left.
type allRows struct{}

func (allRows) steps(rows []uint64, share uint64) uint64 {
	return (slices.Max(rows) + share - 1) / share
}

func (allRows) dropped([]uint64, uint64, uint64) uint64 { return 0 }

// wholeSteps has steps of equally many rows alone.
type wholeSteps struct{}

func (wholeSteps) steps(rows []uint64, share uint64) uint64 { return slices.Min(rows) / share }

func (wholeSteps) dropped(rows []uint64, share, steps uint64) uint64 {
	n := uint64(0)
	for _, r := range rows {
		n += r - steps*share
	}
	return n
}

func (s deterministic) counts() bool          { return true }
func (s deterministic) countsOutputs() bool   { return true }
func (s deterministic) consumed(position.Set) {}
func (s deterministic) skips() bool           { return false } // rows were counted: none can be left out
// a rank may have ended the epoch after the open one, too
func (s deterministic) ahead() uint32      { return 2 }
func (s deterministic) keep() uint32       { return s.closed }
func (s deterministic) leaving(*Changes)   {}
func (s deterministic) between() bool      { return false } // Remains does not say where the lanes are
func (s deterministic) granted(*rank) bool { return true }  // all that is planned is

// forget passes over what nobody gets of epochs that are closed.
func (s deterministic) forget(start position.Position) {
	if s.frontier.Less(start) {
		s.frontier = start
	}
}

// changes counts blocks: each that is planned is granted at once.
func (s deterministic) changes() uint64 { return uint64(s.blocks.seen.blocks) }

// grant has nothing to do.
func (s deterministic) grant(Sync, *rank, *Changes) (drained bool) { return s.drained() }

// drained reports whether all of the open epoch is planned.
func (s deterministic) drained() bool {
	_, final := s.laneSteps(s.closed)
	return final || s.Finished()
}

// advance takes over what a rank reports.
func (s deterministic) advance(r uint32, k *rank, at *Steps, _ bool, ch *Changes) {
	k.advance(r, at, ch)
}

// begin has ranks that start together go on in step.
func (s deterministic) begin(k *rank, _ *Changes) Steps {
	begun, with := s.at(k), s.startedWith(k, s.waits)
	if with != nil {
		begun = with.begun
	}
	begun = s.beginLanes(begun, with != nil)
	k.mayRepeat += s.again(k, begun)
	return begun
}

func (s deterministic) over(epoch uint32) bool {
	return s.allJoined() && (s.lanesOver(epoch) || s.leftByAll(epoch, true))
}

func (s deterministic) stepsOf(epoch uint32) (n uint64, known bool) { return s.laneSteps(epoch) }

func (s deterministic) passed(_ *rank, epoch uint32) (n uint64, known bool) { return s.stepsIn(epoch) }

func (s deterministic) ended(uint64) (EpochSteps, bool) { return s.laneEpoch(s.closed), true }

// rest is about how many shards have rows after a step of the job, or are not planned.
func (s deterministic) rest(epoch uint32, step uint64) int64 {
	rest := s.free(nil, epoch)
	made := int64(step) - int64(s.from.Step) - s.stepsClosed
	for _, b := range s.blocks.list {
		if b.epoch == epoch && s.reaches(b, Steps{Epoch: epoch, Handed: uint64(max(0, made))}) {
			rest += int64(b.shards)
		}
	}
	return rest
}

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

// plan takes in the next block; others were planned before, or are no longer needed.
func (s deterministic) plan(b block, rows int64, ch *Changes) {
	if b.start() != s.frontier {
		return
	}
	ch.Head = true
	s.dropPassed()
	b.lanes = b.lay(s.laneRows(b.epoch))
	s.blocks.list = append(s.blocks.list, b)
	s.blocks.count(b, rows)
	s.blocks.epoch(b.epoch).lanes = b.lanes.after
	s.frontier = b.end()
}

func (n Steps) less(m Steps) bool {
	return n.Epoch < m.Epoch || n.Epoch == m.Epoch && n.Handed < m.Handed
}

// open is where a training loop goes on that has handed over so much: after what is closed, and all that is known to
// be over. It is still to be told of the end of an epoch without steps.
func (s deterministic) open(n Steps) Steps {
	if n.Epoch < s.closed {
		n = Steps{Epoch: s.closed}
	}
	for steps, final := s.laneSteps(n.Epoch); final && n.Handed >= max(steps, 1); steps, final = s.laneSteps(n.Epoch) {
		n = Steps{Epoch: n.Epoch + 1}
	}
	return n
}

// beginLanes is where a rank begins that comes back. The first of those that start again together goes back to where
// the slowest rank is: one whose last report is older would not hand over the rows between else, since the others take
// it along. So would one that left, and comes back with them; one that was too far behind to have been in step is not
// waited for. together says that begun is where others began.
func (s deterministic) beginLanes(begun Steps, together bool) Steps {
	if together {
		return s.open(begun)
	}
	first := begun
	if n := s.slowest(); n.less(first) {
		first = n
	}
	for _, k := range s.ranks {
		if k == nil || !k.departed {
			continue
		}
		if n := s.leftAt(k); n.less(first) && n.Epoch == begun.Epoch && begun.Handed <= n.Handed+stepsAhead {
			first = n
		}
	}
	return s.open(first)
}

// leftAt is where the training loop of a rank was that departed. At the end of the last closed epoch it was at the next
// one's begin.
func (s deterministic) leftAt(k *rank) Steps {
	if slices.ContainsFunc(s.steps, func(e EpochSteps) bool {
		return e.Epoch+1 == s.closed && e.Epoch == k.steps.Epoch && k.over(e.Epoch, e.Steps)
	}) {
		return Steps{Epoch: s.closed}
	}
	return k.steps
}

// again is how many rows a rank hands over again that goes back to some steps.
func (s deterministic) again(k *rank, begun Steps) int64 {
	at := s.at(k)
	if !begun.less(at) {
		return 0
	}
	n := at.Handed - begun.Handed
	for epoch := begun.Epoch; epoch < at.Epoch; epoch++ {
		steps, _ := s.laneSteps(epoch)
		n += steps
	}
	return int64(n * s.id.GlobalBatch / uint64(s.world))
}

// slowest is where the last of the ranks is that have not departed.
func (s deterministic) slowest() Steps {
	var out Steps
	found := false
	for _, k := range s.ranks {
		if n := s.at(k); (k == nil || !k.departed) && (!found || n.less(out)) {
			out, found = n, true
		}
	}
	if !found {
		return Steps{Epoch: s.closed}
	}
	return out
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

// needsPlan is NeedsPlan.
func (s deterministic) needsPlan() (epoch, index uint32, ok bool) {
	f := s.frontier
	if f.Epoch >= s.id.Epochs || f.Epoch > s.reach() {
		return 0, 0, false
	}
	at := s.slowest()
	blocks, shards := 0, int64(0)
	for _, b := range s.blocks.list {
		if s.reaches(b, at) {
			blocks++
			shards += int64(b.shards)
		}
	}
	steps := uint64(0)
	for _, e := range s.laneStepsFrom(at.Epoch) {
		steps += e.Steps
	}
	return f.Epoch, f.Block, steps < at.Handed+stepsAhead || blocks < 2 || shards < 2*int64(s.world)
}

// laneSteps is how many steps an epoch has by what is planned of it, and whether that is final.
func (s deterministic) laneSteps(epoch uint32) (steps uint64, final bool) {
	e := s.blocks.epoch(epoch)
	if e == nil {
		return 0, false
	}
	if e.blocks > 0 && e.planned == e.blocks {
		return s.ending().steps(e.lanes, s.id.share()), true
	}
	return wholeSteps{}.steps(e.lanes, s.id.share()), false
}

// laneEpoch is what a rank is told of an epoch.
func (s deterministic) laneEpoch(epoch uint32) EpochSteps {
	e := EpochSteps{Epoch: epoch}
	e.Steps, e.Final = s.laneSteps(epoch)
	if e.Final {
		e.Dropped = s.ending().dropped(s.laneRows(epoch), s.id.share(), e.Steps)
	}
	return e
}

// laneStepsFrom is what a rank in an epoch is told. It may not have heard yet that its epoch is closed.
func (s deterministic) laneStepsFrom(epoch uint32) []EpochSteps {
	out := slices.DeleteFunc(slices.Clone(s.steps), func(e EpochSteps) bool { return e.Epoch < epoch })
	for _, e := range s.blocks.epochs {
		if e.epoch >= epoch {
			out = append(out, s.laneEpoch(e.epoch))
		}
	}
	return out
}

// admit checks what a rank reports: it cannot have handed over what it was not told of.
func (s deterministic) admit(r uint32, at *Steps, left uint32) error {
	if at == nil {
		return nil
	}
	k, n := s.rank(r), *at
	// a rank may be through with the next epoch, too, before the others have reported that they ended this one
	newest := s.closed
	for _, final := s.laneSteps(newest); final; _, final = s.laneSteps(newest) {
		newest++
	}
	newest = max(newest, min(left, s.closed+2, s.id.Epochs))
	known, _ := s.laneSteps(n.Epoch)
	if n.Epoch == k.begun.Epoch {
		known = max(known, k.begun.Handed)
	}
	if n.Epoch > newest || n.Epoch >= s.closed && n.Handed > known {
		return invalid(
			"rank %d reports %d batches of epoch %d, which has %d so far, with %d epochs closed: the trainer or its "+
				"client is broken",
			r, n.Handed, n.Epoch, known, s.closed)
	}
	return nil
}

// over reports whether a rank has handed over all of an epoch, whose number of steps is final.
func (k *rank) over(epoch uint32, steps uint64) bool {
	return k.steps.Epoch > epoch || k.steps.Epoch == epoch && k.steps.Handed >= steps
}

// lanesOver reports whether an epoch can be closed: all ranks have handed over all of it, or departed. While some of
// them are present one of these has to have moved on: those that left may come back to join the others in its last
// steps, and in step are waited for. An epoch without steps is over at once.
func (s deterministic) lanesOver(epoch uint32) bool {
	steps, final := s.laneSteps(epoch)
	if !final || steps == 0 {
		return final
	}
	present, over, moved := 0, 0, false
	for _, k := range s.ranks {
		switch {
		case !k.departed && !k.over(epoch, steps):
			return false
		case k.over(epoch, steps):
			over++
			moved = moved || k.steps.Epoch > epoch
		}
		if !k.departed {
			present++
		}
	}
	return moved || over == len(s.ranks) && (present == 0 || present == len(s.ranks))
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
