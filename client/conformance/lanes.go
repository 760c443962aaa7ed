package conformance

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// step is a place in the sequence of batches of order deterministic.
type step struct {
	epoch uint32
	n     uint64
}

// perLane is the rows of a lane in a step.
func (w *world) perLane() uint64 {
	return uint64(w.spec.GetGlobalBatchSize()) / uint64(w.sc.Spec.Lanes)
}

// stepsOf an epoch.
func (w *world) stepsOf(epoch uint32) uint64 {
	l := w.layouts[epoch]
	n, _ := l.Steps(len(l.Blocks), w.perLane(), w.sc.Spec.Drop)
	return n
}

// rows are those of some lanes in a step.
func (w *world) rows(s step, from, to uint32) []int64 {
	return w.layouts[s.epoch].Batch(s.n, w.perLane(), from, to)
}

// before is the rows of all steps before one.
func (w *world) before(end step) (ids []int64) {
	for s := (step{}); s.epoch < w.data.Epochs && s != end; {
		if s.n == w.stepsOf(s.epoch) {
			s = step{epoch: s.epoch + 1}
			continue
		}
		ids = append(ids, w.rows(s, 0, w.sc.Spec.Lanes)...)
		s.n++
	}
	return ids
}

// dropped is how many rows of an epoch are in no step.
func (w *world) dropped(epoch uint32) int {
	in := 0
	for s := (step{epoch: epoch}); s.n < w.stepsOf(epoch); s.n++ {
		in += len(w.rows(s, 0, w.sc.Spec.Lanes))
	}
	return w.data.Rows() - in
}

// reported is the rows that a rank of a master said to have been given.
func (p *player) reported(m *fake.Member) []int64 {
	if p.layouts == nil {
		return p.data.IDs(m.Consumed)
	}
	return p.before(step{m.Steps().GetEpoch(), m.Steps().GetHanded()})
}

// batchSize is the rows of a full batch of this trainer.
func (t *trainer) batchSize() int {
	if n := t.w.spec.GetGlobalBatchSize(); n > 0 {
		return int(n) / int(t.world)
	}
	return int(t.w.spec.GetBatchSize())
}

// lanes are the trainer's.
func (t *trainer) lanes() (from, to uint32) {
	n := t.w.sc.Spec.Lanes / t.world
	return t.rank * n, (t.rank + 1) * n
}

// settle moves a step over the ends of epochs, and over a step of which the trainer's lanes have nothing.
func (t *trainer) settle(s step) step {
	w := t.w
	from, to := t.lanes()
	for s.epoch < w.data.Epochs {
		switch {
		case s.n >= w.stepsOf(s.epoch):
			s = step{epoch: s.epoch + 1}
		case !w.sc.Spec.Pad && len(w.rows(s, from, to)) == 0:
			s.n++
		default:
			return s
		}
	}
	return s
}

// inSequence checks that a batch has exactly the rows of its step, in their order. w.mu must be held.
func (t *trainer) inSequence(b batch) error {
	w := t.w
	from, to := t.lanes()
	if !t.begun { // where a restored or another start goes on, the others' batches and the end of the scenario tell
		for t.at = (step{epoch: b.epoch}); t.at.n < w.stepsOf(b.epoch) &&
			!slices.Equal(w.rows(t.at, from, to), b.ids); {
			t.at.n++
		}
	}
	t.begun = true
	s := t.settle(t.at)
	if s.epoch >= w.data.Epochs || s.epoch != b.epoch {
		return fmt.Errorf("rows %v of epoch %d; expected step %v (%v)", b.ids, b.epoch, s, t.at)
	}
	if want := w.rows(s, from, to); !slices.Equal(want, b.ids) {
		return fmt.Errorf("step %v has rows %v; expected %v", s, b.ids, want)
	}
	t.at = step{s.epoch, s.n + 1}
	return nil
}

// checkStep checks that a state tells the trainer's step.
func (t *trainer) checkStep(got *pb.State, asked *StateStep) error {
	w := t.w
	at := step{got.GetClosedEpochs(), got.GetHanded()}
	if asked.After == 0 && t.begun && at != t.at && at != t.settle(t.at) {
		return fmt.Errorf("state is of step %v; expected %v", at, t.at)
	}
	if len(got.GetBase())+len(got.GetConsumed()) > 0 || got.GetGlobalBatch() != uint64(w.spec.GetGlobalBatchSize()) {
		return fmt.Errorf("state has global batch %d, base %v, consumed %v; expected %d and none",
			got.GetGlobalBatch(), got.GetBase(),
			got.GetConsumed(), w.spec.GetGlobalBatchSize())
	}
	start := got.GetStart()
	if asked.Start != nil && start.GetBlock() != *asked.Start {
		return fmt.Errorf("state starts at %v; expected block %d", start, *asked.Start)
	}
	if start == nil {
		return nil
	}
	if start.GetEpoch() != at.epoch || !slices.Equal(start.GetRows(), w.layouts[at.epoch].Starts[start.GetBlock()]) ||
		slices.Max(start.GetRows()) > at.n*w.perLane() {
		return fmt.Errorf("state of step %v starts at %v", at, start)
	}
	return nil
}
