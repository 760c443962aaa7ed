package conformance

import (
	"cmp"
	"fmt"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// changeMaster makes a step of the master.
func (p *player) changeMaster(s *MasterStep) error {
	revoke, err := parseSet(s.Revoke)
	if err != nil {
		return err
	}
	p.mu.Lock()
	if s.Answers != nil || s.Heals {
		p.rules = s.Answers
	}
	p.mu.Unlock()
	if s.Stop {
		p.stop["m"]()
	}
	if s.Start {
		p.stop["m"] = p.net.Master("m", p.master)
	}
	m := p.master
	m.Change(func() {
		if s.Freeze != nil {
			m.Frozen = *s.Freeze
		}
		m.Planned += s.Plan
		if s.Checkpoint != nil {
			m.Order(s.Checkpoint.Name, s.Checkpoint.Step)
		}
		if s.Fail != "" {
			m.Failure = s.Fail
		}
		if s.Candidates != nil {
			m.Workers = p.net.Workers(s.Candidates...)
		}
		for rank, r := range m.Ranks {
			if s.Expire != nil && *s.Expire == rank {
				m.Returned, r.Held = m.Returned.Union(r.Held), nil
			}
			if s.Release {
				m.Release = m.Release.Union(r.Held)
			}
			took := r.Held.Intersect(revoke)
			r.Held, m.Returned = r.Held.Subtract(took), m.Returned.Union(took)
		}
	})
	return nil
}

// changeWorker makes a step of a worker.
func (p *player) changeWorker(s *WorkerStep) error {
	worker := p.workers[s.Name]
	if worker == nil {
		return fmt.Errorf("there is no worker %q", s.Name)
	}
	if s.Heals {
		p.mu.Lock()
		p.faults[s.Name] = nil
		p.mu.Unlock()
	}
	if s.Stop {
		p.stop[s.Name]()
	}
	if s.Start {
		worker.Without = s.Without
		p.stop[s.Name] = p.net.Worker(s.Name, worker)
	}
	return nil
}

// wait waits for all conditions of a step.
func (p *player) wait(s *WaitStep) error {
	if s.Ordered > 0 {
		if err := p.await("the order", func() bool { return p.ordered() == s.Ordered }); err != nil {
			return err
		}
	}
	if s.Synced {
		if err := p.synced(p.trainer(s.Trainer)); err != nil {
			return err
		}
	}
	if s.Lapsed {
		t := p.trainer(s.Trainer)
		if err := p.await("the lease to end", func() bool {
			return time.Since(p.rank(t.rank).heard) > p.sc.Master.Lease
		}); err != nil {
			return err
		}
	}
	if s.Sent > 0 {
		if err := p.await(fmt.Sprintf("workers to send %d rows", s.Sent),
			func() bool { return p.sent >= s.Sent }); err != nil {
			return err
		}
	}
	if s.Still > 0 {
		if err := p.await("workers to stop sending",
			func() bool { return p.sent > 0 && time.Since(p.lastSent) > s.Still }); err != nil {
			return err
		}
	}
	returned, err := parseSet(s.Returned)
	if err != nil {
		return err
	}
	if err := p.await("the master", func() bool { return p.masterIs(s, returned) }); err != nil || s.Taken == 0 {
		return err
	}
	t := p.trainer(s.Trainer)
	after := cmp.Or(s.Batches, int(s.Taken))
	p.mu.Lock()
	batches := p.rank(t.rank).batches[:t.first+after]
	p.mu.Unlock()
	_, err = t.checked(p.part(t.rank), batches, &StateStep{After: after})
	return err
}

// ordered is the step of the checkpoint that the master asks for.
func (p *player) ordered() (step uint64) {
	p.master.Look(func() { step = p.master.Ordered() })
	return step
}

// part is what a rank brought for it.
func (p *player) part(rank uint32) (st *pb.State) {
	p.master.Look(func() { st = p.master.Part(rank) })
	return st
}

func (p *player) masterIs(s *WaitStep, returned position.Set) bool {
	ok := true
	m := p.master
	m.Look(func() {
		ok = m.Closed >= s.Closed && (s.Returned == nil || m.Returned.Equal(returned))
		if s.Taken > 0 {
			ok = ok && m.Ordered() == s.Taken && m.Part(p.trainer(s.Trainer).rank) != nil
		}
		if s.Left {
			r := m.Ranks[p.trainer(s.Trainer).rank]
			ok = ok && r != nil && r.Left
		}
	})
	return ok
}

// synced waits until a trainer has told all that it was given, and took in an answer of the master after that. It
// checks what it told.
func (p *player) synced(t *trainer) error {
	p.mu.Lock()
	r := p.rank(t.rank)
	// The first may be on its way; the second says what holds now, and the third begins after its answer.
	begun := r.begun + 3
	p.mu.Unlock()
	if err := p.await("the trainer's Syncs", func() bool { return r.begun >= begun }); err != nil {
		return err
	}
	var consumed position.Set
	var told *pb.RankSteps
	p.master.Look(func() { consumed, told = p.master.Ranks[t.rank].Consumed, p.master.Ranks[t.rank].Steps() })
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []int64
	for _, b := range r.batches {
		ids = append(ids, b.ids...)
	}
	if p.layouts != nil {
		if got := (step{told.GetEpoch(), told.GetHanded()}); t.begun && got != t.at {
			return fmt.Errorf("the master knows of step %v; the trainer was given all before %v", got, t.at)
		}
		return nil
	}
	if err := t.checkConsumed(consumed, ids); err != nil {
		return fmt.Errorf("the master knows: %w", err)
	}
	return nil
}
