package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// atOnce is how many faults may be under way at the same time.
const atOnce = 4

// struck is a fault that was carried out.
type struck struct {
	Fault
	// On names the processes.
	On           []string
	Began, Ended time.Time
}

// storm carries out the faults.
type storm struct {
	fleet *fleet
	job   *job
	say   func(format string, args ...any)

	mu      sync.Mutex
	struck  []struck
	current map[int]struck // under way, by number
}

func newStorm(f *fleet, j *job, say func(string, ...any)) *storm {
	return &storm{fleet: f, job: j, say: say, current: map[int]struck{}}
}

// run strikes with the faults, each when its part of the rows was handed over, and waits until all of them are over.
// The job is held back from being much ahead.
func (s *storm) run(ctx context.Context, faults []Fault) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	share := func(n int) int64 { return s.job.total * int64(n) / int64(len(faults)+1) }
	for i, f := range faults {
		s.job.allow(share(i + 2))
		if err := s.job.await(ctx, share(i+1)); err != nil {
			return errors.Join(err, group.Wait())
		}
		group.Go(func() error {
			if err := s.strike(ctx, f); err != nil && ctx.Err() == nil {
				return fmt.Errorf("chaos: fault %v: %w", f, err)
			}
			return nil
		})
	}
	s.job.allow(math.MaxInt64) // rows may come twice
	return group.Wait()
}

// strike carries out one fault, once no other has its target.
func (s *storm) strike(ctx context.Context, f Fault) error {
	on := s.targets(ctx, f)
	slices.Sort(on) // in one order for all, so that no two wait for each other
	for i, name := range on {
		if err := s.fleet.units[name].take(ctx); err != nil {
			for _, taken := range on[:i] {
				s.fleet.units[taken].leave()
			}
			return err
		}
	}
	defer func() {
		for _, name := range on {
			s.fleet.units[name].leave()
		}
	}()
	now := struck{Fault: f, On: on, Began: time.Now()}
	s.say("%v (%s)", f, strings.Join(on, " "))
	s.mu.Lock()
	s.current[f.Number] = now
	s.mu.Unlock()
	err := s.do(ctx, f, on)
	now.Ended = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.current, f.Number)
	s.struck = append(s.struck, now)
	return err
}

// targets are the names of a fault's processes.
func (s *storm) targets(ctx context.Context, f Fault) []string {
	switch f.Target {
	case "leader":
		return []string{s.fleet.leads(ctx)}
	case "etcd-majority":
		spared := f.Number % etcdMembers
		return slices.Delete(names("etcd", etcdMembers), spared, spared+1)
	case "trainers":
		return s.job.names()
	}
	if f.Class == functions { // one at a time: what fails on all workers is not tried again
		return []string{functions, f.Target}
	}
	if number, ok := strings.CutPrefix(f.Target, "trainer-"); ok {
		return s.job.nth(number)
	}
	return s.members(f.Target)
}

// members are all processes of a kind, or the one of that name.
func (s *storm) members(name string) []string {
	switch name {
	case "workers":
		return names("worker", s.fleet.workers)
	case "masters":
		return names("master", s.fleet.masters)
	case "etcds":
		return names("etcd", etcdMembers)
	case "trainer", "trainers":
		return names("trainer", s.fleet.maxWorld())
	}
	return []string{name}
}
