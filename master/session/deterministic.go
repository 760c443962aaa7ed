package session

import (
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
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
