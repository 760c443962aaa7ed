package conformance

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// Run plays all scenarios with a client.
func Run(t *testing.T, d *Driver) {
	scenarios, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.stop)
	for _, sc := range scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			play(t, d, sc)
		})
	}
}

// player plays one scenario.
type player struct {
	*world
	driver   *Driver
	trainers map[string]*trainer
	states   map[string]*state
}

func play(t *testing.T, d *Driver, sc *Scenario) {
	p := &player{
		world: newWorld(t, sc), driver: d, trainers: make(map[string]*trainer),
		states: make(map[string]*state),
	}
	err := p.run()
	p.dismiss(t, err != nil)
	if err == nil {
		err = p.outcome()
	}
	if err != nil {
		t.Errorf("%s\n%v", sc.Doc, err)
	}
}

func (p *player) run() error {
	for i, s := range p.sc.Steps {
		if name, err := p.step(s); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, name, err)
		}
	}
	return nil
}

// step makes one step and returns its name.
func (p *player) step(s Step) (string, error) {
	switch {
	case s.Open != nil:
		return "open", p.open(s.Open)
	case s.Next != nil:
		return "next", p.next(s.Next)
	case s.Read != nil:
		return "read", p.read(s.Read)
	case s.Leave != nil:
		return "leave", p.trainer(s.Leave.Trainer).leave(s.Leave.Epoch)
	case s.State != nil:
		return "state", p.state(s.State)
	case s.Stats != nil:
		return "stats", p.stats(s.Stats)
	case s.Close != nil:
		return "close", p.close(p.trainer(s.Close.Trainer))
	case s.Kill != nil:
		p.kill(s.Kill.Trainer)
		return "kill", nil
	case s.Master != nil:
		return "master", p.changeMaster(s.Master)
	case s.Worker != nil:
		return "worker", p.changeWorker(s.Worker)
	case s.Wait != nil:
		return "wait", p.wait(s.Wait)
	case s.Renew != nil:
		p.restart(s.Renew)
		return "renew", nil
	}
	return "", errors.New("the step is empty")
}

// trainer returns a trainer that has been opened.
func (p *player) trainer(name string) *trainer {
	set(&name, "a")
	t := p.trainers[name]
	if t == nil {
		panic(fmt.Sprintf("scenario %s: trainer %s was not opened", p.sc.Name, name))
	}
	return t
}

func (p *player) open(s *OpenStep) error {
	name := s.Trainer
	set(&name, "a")
	t := p.trainers[name]
	if t == nil {
		process, err := p.driver.take()
		if err != nil {
			return err
		}
		t = &trainer{w: p.world, process: process}
		p.trainers[name] = t
	}
	var restore [][]byte
	if s.Restoring {
		restore = [][]byte{}
	}
	for _, state := range s.Restore {
		restore = append(restore, p.states[state].bytes)
	}
	return t.open(s, restore)
}

func (p *player) next(s *NextStep) error {
	t := p.trainer(s.Trainer)
	time.Sleep(s.Pause)
	if s.Blocks > 0 {
		return t.blocks(s.Blocks)
	}
	n := max(1, s.Count)
	for i := range n {
		more, err := t.next(s.Error)
		if err != nil {
			return err
		}
		switch {
		case more && s.Error != nil:
			return fmt.Errorf("a batch came; expected an error, %s", s.Error.Kind)
		case !more && s.Error == nil:
			return errors.New("all epochs are over")
		}
		var want Checkpoint
		if s.Checkpoint != nil && i == n-1 {
			want = *s.Checkpoint
		}
		if more && t.newest().checkpoint != want {
			return fmt.Errorf("the batch says of the checkpoint %+v; expected %+v", t.newest().checkpoint, want)
		}
	}
	return nil
}

// read reads trainers side by side, until all epochs are over or the expected error comes.
func (p *player) read(s *ReadStep) error {
	names := s.Trainers
	if names == nil {
		names = []string{"a"}
	}
	if s.InStep {
		return p.readInStep(names, s.Count)
	}
	errs := make([]error, len(names))
	var readers sync.WaitGroup
	for i, name := range names {
		t := p.trainer(name)
		readers.Go(func() {
			for more := true; more && errs[i] == nil; {
				more, errs[i] = t.next(s.Error)
			}
		})
	}
	readers.Wait()
	return errors.Join(errs...)
}

// readInStep reads trainers that wait for each other after each batch.
func (p *player) readInStep(names []string, count int) error {
	for step := 1; count == 0 || step <= count; step++ {
		more, errs := make([]bool, len(names)), make([]error, len(names))
		epochs := make([]uint32, len(names))
		var readers sync.WaitGroup
		for i, name := range names {
			t := p.trainer(name)
			readers.Go(func() {
				if more[i], errs[i] = t.next(nil); more[i] && errs[i] == nil {
					epochs[i] = t.newest().epoch
				}
			})
		}
		readers.Wait()
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("step %d of trainers %v: %w", step, names, err)
		}
		if len(slices.Compact(slices.Clone(more))) > 1 || len(slices.Compact(epochs)) > 1 {
			return fmt.Errorf("step %d: trainers %v are not in step: more is %v, of epochs %v",
				step, names, more, epochs)
		}
		if !more[0] {
			return nil
		}
	}
	return nil
}

func (p *player) state(s *StateStep) error {
	st, err := p.trainer(s.Trainer).state(s)
	if s.As != "" {
		p.states[s.As] = st
	}
	return err
}

func (p *player) stats(s *StatsStep) error {
	r, err := p.trainer(s.Trainer).ask(Command{Do: "stats"})
	if err != nil {
		return err
	}
	if _, err := expect(r, nil); err != nil {
		return err
	}
	if r.Stats == nil {
		return errors.New("the reply has no stats")
	}
	st := *r.Stats
	if err := p.checkStall(p.trainer(s.Trainer).rank, st, s.Stalled); err != nil {
		return err
	}
	if err := p.checkPace(p.trainer(s.Trainer).rank, s.Pace); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	budget := p.sc.Trainer.Budget
	switch {
	case s.Failovers != nil && st.Failovers != *s.Failovers, st.Failovers < s.MinFailovers,
		s.Hedges != nil && st.Hedges != *s.Hedges, st.Hedges < s.MinHedges,
		s.Dropped != nil && st.Dropped != *s.Dropped, s.Skipped != nil && st.Skipped != *s.Skipped,
		s.Budget && st.PeakBuffered > budget+p.largest, s.Full && st.Buffered < budget/2:
		return fmt.Errorf("%+v; expected %+v, a budget of %d bytes, and records of at most %d",
			st, s, budget, p.largest)
	}
	return nil
}

// checkPace compares what the master was told of a trainer's pace. At least half of the steps take the median or
// longer.
func (p *player) checkPace(rank uint32, want *Pace) error {
	if want == nil {
		return nil
	}
	var got *pb.Pace
	var told *pb.Counters
	p.master.Look(func() { got, told = p.master.Ranks[rank].Pace, p.master.Ranks[rank].Counters })
	measured := want.Steps > 0
	if got.GetSteps() != want.Steps || got.GetRows() != want.Rows || measured != (got.GetStepNs() > 0) || measured &&
		got.GetStepNs() >= int64(want.Below) ||
		got.GetStepNs()*int64(want.Steps/2) > told.GetComputeNs() || got.GetClientNs() <= 0 || got.GetBuffered() < 0 {
		return fmt.Errorf("the master was told the pace %v, and %v; expected %+v", got, told, *want)
	}
	return nil
}

// checkStall compares how long next waited with what the client and the master know of it.
func (p *player) checkStall(rank uint32, st Stats, minStall time.Duration) error {
	var told *pb.Counters
	p.master.Look(func() { told = p.master.Ranks[rank].Counters })
	if st.Stall < minStall.Seconds() || minStall > 0 &&
		(st.Compute > minStall.Seconds()/2 || time.Duration(told.GetStallNs()) < minStall) {
		return fmt.Errorf("stall %g s, compute %g s; the master was told %v; expected a stall of %v",
			st.Stall, st.Compute, told, minStall)
	}
	return nil
}

// close closes a trainer, and expects the master to know that the rank left, and how many rows it was given.
func (p *player) close(t *trainer) error {
	if err := t.close(); err != nil {
		return err
	}
	p.mu.Lock()
	rows := int64(0)
	for _, b := range p.rank(t.rank).batches[t.first:] {
		rows += int64(len(b.ids))
	}
	p.mu.Unlock()
	var err error
	p.master.Look(func() {
		if r := p.master.Ranks[t.rank]; r == nil || !r.Left || r.Counters.GetRows() != rows {
			err = fmt.Errorf("the master knows of the rank: %+v; expected that it left, and was given %d rows", r, rows)
		}
	})
	return err
}

// kill ends a trainer's process. What it was given and had not reported is lost with it, and so is a report that is
// still under way.
func (p *player) kill(name string) {
	set(&name, "a")
	t := p.trainer(name)
	t.process.kill()
	delete(p.trainers, name)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.rank(t.rank)
	r.asked = false
	known := make(map[int64]bool)
	p.master.Look(func() {
		if m := p.master.Ranks[t.rank]; m != nil {
			for _, id := range p.reported(m) {
				known[id] = true
			}
			p.killed[m.Fence()] = true
		}
	})
	for i := range r.batches {
		b := &r.batches[i]
		b.ids = slices.DeleteFunc(slices.Clone(b.ids), func(id int64) bool { return !known[id] })
	}
}

// restart renews the fleet. What was handed over after the states will come again.
func (p *player) restart(s *RenewStep) {
	p.renew()
	ids := make(map[int64]bool)
	for _, name := range s.States {
		for _, id := range p.states[name].ids {
			ids[id] = true
		}
	}
	p.restored = nil
	for id := range ids {
		p.restored = append(p.restored, id)
	}
}

// dismiss ends the trainers.
func (p *player) dismiss(t *testing.T, failed bool) {
	for name, tr := range p.trainers {
		if !failed && !tr.waiting {
			_, err := tr.ask(Command{Do: "close"})
			if err == nil {
				p.driver.give(tr.process)
				continue
			}
			t.Errorf("trainer %s: close: %v", name, err)
		}
		tr.process.kill()
		if t.Failed() || failed {
			t.Logf("trainer %s wrote:\n%s", name, tr.process.stderr.drain())
		}
	}
}

// outcome checks what holds in the end: all rows came once, and the master saw nothing that cannot be.
func (p *player) outcome() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, problem := range slices.Concat(p.problems, p.master.Problems()) {
		errs = append(errs, errors.New(problem))
	}
	p.noteSkipped()
	count := make(map[int64]int)
	for _, id := range p.restored {
		count[id]++
	}
	for _, r := range p.ranks {
		for _, b := range r.batches {
			for _, id := range b.ids {
				count[id]++
			}
		}
	}
	for id, n := range count {
		if n > 0 && p.skipped[id] {
			errs = append(errs, fmt.Errorf("row %+v came, and was skipped", fake.RowOf(id)))
		}
		if n > 1 {
			errs = append(errs, fmt.Errorf("row %+v came %d times", fake.RowOf(id), n))
		}
	}
	if p.sc.Expect.Rows == "all" {
		errs = append(errs, p.missing(count))
	}
	return errors.Join(errs...)
}

// missing checks that all rows came, but for those that the spec drops.
func (p *player) missing(count map[int64]int) error {
	for epoch := range p.data.Epochs {
		var rows []fake.Row
		for _, id := range p.data.IDs(position.Set{{From: p.data.Start(epoch, 0), To: p.data.Start(epoch+1, 0)}}) {
			if count[id] == 0 {
				rows = append(rows, fake.RowOf(id))
			}
		}
		dropped := 0
		if p.sc.Spec.Drop {
			dropped = p.data.Rows() % (int(p.sc.Spec.BatchSize) * int(p.sc.Trainer.World))
		}
		if p.layouts != nil {
			dropped = p.dropped(epoch)
		}
		rows = slices.DeleteFunc(rows, func(r fake.Row) bool { return p.skipped[r.ID()] })
		if len(rows) != dropped {
			return fmt.Errorf("%d rows of epoch %d did not come; expected %d: %+v", len(rows), epoch, dropped, rows)
		}
	}
	return nil
}
