package conformance

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// trainer is a process that reads as a rank.
type trainer struct {
	w       *world
	process *process
	rank    uint32
	world   uint32
	opened  bool
	waiting bool // for the reply to a command
	first   int  // which of the rank's batches was the first of this open
	at      step // of the next batch, in order deterministic
	begun   bool // at is known
}

// batch was handed over.
type batch struct {
	epoch      uint32
	ids        []int64
	checkpoint Checkpoint // none: no name
}

// state is a checkpoint, and the rows that lie before it: of its rank, and of restores before.
type state struct {
	bytes []byte
	ids   []int64
}

// ask gives a command and waits for its reply. A reply that an earlier command left to come is taken first, as this
// one's.
func (t *trainer) ask(c Command) (Reply, error) {
	if err := t.begin(c); err != nil {
		return Reply{}, err
	}
	return t.finish(patience)
}

// begin gives a command unless a reply is still to come.
func (t *trainer) begin(c Command) error {
	if t.waiting {
		return nil
	}
	t.waiting = true
	return t.process.send(c)
}

func (t *trainer) finish(within time.Duration) (Reply, error) {
	r, err := t.process.receive(within)
	if !errors.Is(err, errTimeout) {
		t.waiting = false
	}
	return r, err
}

// expect compares a reply's error with the one that a step expects. It reports whether there was one.
func expect(r Reply, want *Failure) (failed bool, err error) {
	switch {
	case r.Error == nil && want == nil:
		return false, nil
	case r.Error == nil:
		return false, fmt.Errorf("there was no error; expected %s with %q", want.Kind, want.Words)
	case want == nil:
		return true, fmt.Errorf("%s error: %s", r.Error.Kind, r.Error.Message)
	case r.Error.Kind != want.Kind:
		return true, fmt.Errorf("%s error (%s); expected %s", r.Error.Kind, r.Error.Message, want.Kind)
	}
	for _, words := range want.Words {
		if !strings.Contains(r.Error.Message, words) {
			return true, fmt.Errorf("the %s error is %q; expected the words %q", want.Kind, r.Error.Message, words)
		}
	}
	return true, nil
}

// open opens the session.
func (t *trainer) open(step *OpenStep, restore [][]byte) error {
	w, tr := t.w, t.w.sc.Trainer
	if t.waiting {
		return t.openDone(step)
	}
	t.rank, t.world = step.Rank, step.World
	set(&t.world, tr.World)
	spec, err := protojson.Marshal(w.spec)
	if err != nil {
		return err
	}
	cfg := &Config{
		Session: "run-1/train", Spec: spec, Rank: step.Rank, World: t.world, Restore: restore, Budget: tr.Budget,
		SyncEvery: tr.SyncEvery.Seconds(), StreamTimeout: tr.StreamTimeout.Seconds(),
		HedgeAfter:     tr.HedgeAfter.Seconds(),
		ConnectTimeout: tr.ConnectTimeout.Seconds(), Timeout: tr.Timeout.Seconds(),
	}
	for _, name := range w.sc.Master.Masters {
		cfg.Masters = append(cfg.Masters, w.net.Address(name))
	}
	w.mu.Lock()
	t.first, t.begun = len(w.rank(t.rank).batches), false
	w.mu.Unlock()
	if err := t.begin(Command{Do: "open", Open: cfg}); err != nil || step.Start {
		return err
	}
	return t.openDone(step)
}

func (t *trainer) openDone(step *OpenStep) error {
	r, err := t.finish(patience)
	if err != nil {
		return err
	}
	failed, err := expect(r, step.Error)
	t.opened = !failed
	return err
}

// next waits for a batch and takes it in. It reports false at the end of all epochs or, where a step expects an error,
// at that.
func (t *trainer) next(want *Failure) (bool, error) {
	t.asking(true)
	r, err := t.ask(Command{Do: "next"})
	if err != nil {
		return false, err
	}
	defer t.asking(false)
	if r.Error != nil || r.End {
		_, err := expect(r, want)
		return false, err
	}
	return true, t.take(r)
}

// leave has the training loop leave an epoch.
func (t *trainer) leave(epoch uint32) error {
	r, err := t.ask(Command{Do: "leave", Epoch: epoch})
	if err != nil {
		return err
	}
	_, err = expect(r, nil)
	return err
}

// asking notes whether a batch is on its way.
func (t *trainer) asking(is bool) {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.w.rank(t.rank).asked = is
}

// blocks asks for a batch, and expects that none comes.
func (t *trainer) blocks(d time.Duration) error {
	t.asking(true)
	if err := t.begin(Command{Do: "next"}); err != nil {
		return err
	}
	r, err := t.finish(d)
	switch {
	case errors.Is(err, errTimeout):
		return nil
	case err != nil:
		return err
	case r.Error != nil:
		return fmt.Errorf("%s error: %s; expected to wait", r.Error.Kind, r.Error.Message)
	}
	ids, _, err := decode(r.Rows, r.Valid)
	return errors.Join(fmt.Errorf("rows %v came; expected to wait", ids), err)
}

// take checks a batch and records it.
func (t *trainer) take(r Reply) error {
	w := t.w
	ids, rows, err := decode(r.Rows, r.Valid)
	if err != nil {
		return err
	}
	b := batch{epoch: r.Epoch, ids: ids}
	if r.Checkpoint != nil {
		b.checkpoint = *r.Checkpoint
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	rank := w.rank(t.rank)
	earlier := rank.batches[t.first:]
	rank.batches = append(rank.batches, b)
	size := t.batchSize()
	switch n := len(ids); {
	case w.sc.Spec.Pad && rows != size:
		return fmt.Errorf("a batch of %d rows; batch_size is %d", rows, size)
	case w.sc.Spec.Pad:
	case n != rows:
		return fmt.Errorf("%d rows of %d are padding", rows-n, rows)
	case n == 0 || n > size:
		return fmt.Errorf("a batch of %d rows; batch_size is %d", n, size)
	case n < size && w.sc.Spec.Drop:
		return fmt.Errorf("a batch of %d rows; batch_size is %d, and shorter ones are dropped", n, size)
	}
	if w.layouts != nil {
		return t.inSequence(b)
	}
	for _, id := range ids {
		if got := fake.RowOf(id).Epoch; got != b.epoch {
			return fmt.Errorf("a row of epoch %d in a batch of epoch %d", got, b.epoch)
		}
	}
	if len(earlier) > 0 {
		last := earlier[len(earlier)-1]
		switch {
		case b.epoch < last.epoch:
			return fmt.Errorf("a batch of epoch %d after one of epoch %d", b.epoch, last.epoch)
		case b.epoch == last.epoch && len(last.ids) < size && len(ids) > 0 && !w.sc.Expect.Short:
			return fmt.Errorf("a batch of %d rows was not the last of epoch %d", len(last.ids), b.epoch)
		}
	}
	return nil
}

// newest is the batch that was handed over last.
func (t *trainer) newest() batch {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	batches := t.w.rank(t.rank).batches
	return batches[len(batches)-1]
}

// state takes a checkpoint and checks what it says was consumed.
func (t *trainer) state(asked *StateStep) (*state, error) {
	r, err := t.ask(Command{Do: "state", After: asked.After})
	if err != nil {
		return nil, err
	}
	if _, err := expect(r, nil); err != nil {
		return nil, err
	}
	var got pb.State
	if err := proto.Unmarshal(r.State, &got); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	w := t.w
	w.mu.Lock()
	batches := w.rank(t.rank).batches
	w.mu.Unlock()
	if asked.After > 0 {
		batches = batches[:t.first+asked.After]
	}
	out, err := t.checked(&got, batches, asked)
	if out != nil {
		out.bytes = r.State
	}
	return out, err
}

// checked compares a state with the batches that were handed over before it.
func (t *trainer) checked(got *pb.State, batches []batch, asked *StateStep) (*state, error) {
	w := t.w
	out := &state{ids: slices.Clone(w.restored)}
	var own []int64 // of epochs that the state still tells of
	rows := int64(0)
	for _, b := range batches {
		out.ids = append(out.ids, b.ids...)
		rows += int64(len(b.ids))
		if b.epoch >= got.GetClosedEpochs() {
			own = append(own, b.ids...)
		}
	}
	if got.GetRows() != rows {
		return nil, fmt.Errorf("state says %d rows of this rank; it was given %d", got.GetRows(), rows)
	}
	if w.layouts != nil {
		out.ids = w.before(step{got.GetClosedEpochs(), got.GetHanded()})
		return out, errors.Join(t.checkStep(got, asked), checkState(got, asked, t))
	}
	consumed := position.SetFromProto(got.GetConsumed())
	if w.sc.Spec.Pad { // closed epochs lie in the base
		base := position.SetFromProto(got.GetBase())
		own = slices.DeleteFunc(own,
			func(id int64) bool { return base.Contains(w.data.Start(fake.RowOf(id).Epoch, 0)) })
	}
	if err := t.checkConsumed(consumed, own); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return out, checkState(got, asked, t)
}

// checkConsumed compares consumed positions with the rows that were handed over.
func (t *trainer) checkConsumed(consumed position.Set, ids []int64) error {
	ids = slices.Sorted(slices.Values(ids))
	if got := t.w.data.IDs(consumed); !slices.Equal(got, ids) {
		return fmt.Errorf("%d rows were handed over, %v, but %d rows are consumed, %v", len(ids), ids, len(got), got)
	}
	return nil
}

// checkState compares what a state says literally.
func checkState(got *pb.State, step *StateStep, t *trainer) error {
	if got.GetSession() != "run-1/train" || got.GetRank() != t.rank || got.GetWorldSize() != t.world ||
		got.GetVersion() != 1 || got.GetGeneration() != 1 || string(got.GetProgramDigest()) != "digest" {
		return fmt.Errorf("state is of another session, rank or program: %v", got)
	}
	if step.Closed != nil && got.GetClosedEpochs() != *step.Closed {
		return fmt.Errorf("state has %d closed epochs; expected %d", got.GetClosedEpochs(), *step.Closed)
	}
	if want, got := t.w.data.BadIn(position.SetFromProto(got.GetConsumed())),
		position.TallyFromProto(got.GetConsumedSkips()); !got.Equal(want) {
		return fmt.Errorf("state counts %v bad rows beside what it consumed, which lacks %v", got, want)
	}
	if step.Skipped != nil && got.GetSkippedRowGroups() != *step.Skipped {
		return fmt.Errorf("state knows of %d skipped row groups; expected %d", got.GetSkippedRowGroups(), *step.Skipped)
	}
	if step.Handed != nil && got.GetHanded() != *step.Handed {
		return fmt.Errorf("state has %d batches of its epoch; expected %d", got.GetHanded(), *step.Handed)
	}
	if departed := departed(got); !maps.Equal(departed, step.Departed) {
		return fmt.Errorf("state says of those who left how many rows they were given: %v; expected %v",
			departed, step.Departed)
	}
	if step.Consumed == nil {
		return nil
	}
	want, err := parseSet(step.Consumed)
	if err != nil {
		return err
	}
	if a, b := (&pb.State{Consumed: want.Proto()}), (&pb.State{Consumed: got.GetConsumed()}); !proto.Equal(a, b) {
		return fmt.Errorf("state consumed %v; expected %v", position.SetFromProto(got.GetConsumed()), want)
	}
	return nil
}

// departed is how many rows each rank that left was given, as a state says.
func departed(st *pb.State) map[uint32]int64 {
	rows := make(map[uint32]int64)
	for i, rank := range st.GetDeparted() {
		rows[rank] = -1
		if i < len(st.GetDepartedRows()) {
			rows[rank] = st.GetDepartedRows()[i]
		}
	}
	return rows
}

// close leaves the session, and checks that the master knows of it.
func (t *trainer) close() error {
	r, err := t.ask(Command{Do: "close"})
	if err != nil {
		return err
	}
	t.opened = false
	_, err = expect(r, nil)
	return err
}
