package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// findsBugs plants each bug in job after job until a model finds it. A job runs in one goroutine, on which the race
// detector would only be spent.
func findsBugs[B any](t *testing.T, jobs uint64, bugs map[string]B, job func(seed uint64, bug B) error) {
	t.Helper()
	for name, bug := range bugs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range jobs {
				if err := job(seed, bug); err != nil {
					t.Logf("found with seed %d: %v", seed, err)
					return
				}
			}
			t.Fatal("the model did not find the planted bug")
		})
	}
}

// TestModelFindsBugs shows that the model can fail: each planted bug is found within some thousand jobs.
func TestModelFindsBugs(t *testing.T) {
	findsBugs(t, 3000, bugs(), func(seed uint64, execute executor) error {
		c := chaos{steps: 150, deaths: true, restores: true, execute: execute}
		switch seed % 4 { // long enough to
		case 0, 2: // meet a part again that went round
			c = chaos{steps: 400, execute: execute}
		case 1: // come to later epochs
			c = chaos{steps: 600, restores: true, execute: execute}
		}
		return run(rand.New(rand.NewPCG(seed, 0)).IntN, c)
	})
}

// TestModelFindsBugsInSteps is the same for what ranks in step need.
func TestModelFindsBugsInSteps(t *testing.T) {
	findsBugs(t, 3000, bugsInSteps(), func(seed uint64, execute executor) error {
		return run(rand.New(rand.NewPCG(seed, 0)).IntN, chaos{steps: 60, pad: true, deaths: true, execute: execute})
	})
}

// TestModelFindsBugsInDropping is the same for last batches that are dropped.
func TestModelFindsBugsInDropping(t *testing.T) {
	findsBugs(t, 3000, bugsInDropping(), func(seed uint64, execute executor) error {
		return run(rand.New(rand.NewPCG(seed, 0)).IntN, chaos{steps: 60, drop: true, deaths: true, execute: execute})
	})
}

func bugsInSteps() map[string]executor {
	return map[string]executor{
		"an epoch has the batches that were handed over": func(s *State, c Command) (Reply, Changes, error) {
			before := s.closed
			r, ch, err := s.Apply(c)
			if len(s.steps) > 0 && s.closed > before {
				last := &s.steps[len(s.steps)-1]
				last.Steps = 0
				for _, k := range s.ranks {
					if k != nil && k.steps.Epoch == last.Epoch {
						last.Steps = max(last.Steps, k.steps.Handed)
					}
				}
				r.Steps = pad{fast{s}}.stepsFrom(0)
			}
			return r, ch, err
		},
		"what dead ranks reported is forgotten": func(s *State, c Command) (Reply, Changes, error) {
			before := s.promised
			r, ch, err := s.Apply(c)
			if _, ok := c.(Join); ok {
				s.promised = before
			}
			return r, ch, err
		},
		"steps are forgotten when their epoch closes": behind(func(s *State, _ Command, r *Reply) {
			s.steps = nil
			r.Steps = nil
		}),
		"an epoch closes before all ranks have joined": func(s *State, c Command) (Reply, Changes, error) {
			absent := s.absent
			switch c.(type) {
			case Join, Restore:
				return s.Apply(c)
			}
			s.absent = 0
			r, ch, err := s.Apply(c)
			s.absent = absent
			return r, ch, err
		},
		"what a rank holds above its share is not asked back": behind(func(s *State, c Command, r *Reply) {
			if q, ok := c.(Sync); ok && sharesEvenly(s) {
				s.ranks[q.Rank].releasing, r.Release = nil, nil
			}
		}),
		"ranks that start again together go on each for itself": behind(func(s *State, c Command, r *Reply) {
			if k := joining(s, c); k != nil && k.kind == pb.JoinKind_REJOIN && k.steps.Epoch == s.closed {
				k.begun.Handed++
				k.begun.Ready++
				k.steps = k.begun
				r.Begun = k.begun
			}
		}),
	}
}

func bugs() map[string]executor {
	return map[string]executor{
		"grants are not recorded": behind(func(s *State, c Command, r *Reply) {
			if q, ok := c.(Sync); ok && len(r.Grants) > 0 {
				k := s.ranks[q.Rank]
				s.returned = s.returned.Union(k.held)
				k.held, k.releasing = nil, nil
			}
		}),
		"a cursor is moved when rows are sent": func(s *State, c Command) (Reply, Changes, error) {
			if q, ok := c.(Sync); ok && s.rank(q.Rank) != nil && len(s.rank(q.Rank).held) > 0 {
				q.Consumed = q.Consumed.Union(s.rank(q.Rank).held[:1])
				c = q
			}
			return s.Apply(c)
		},
		"the grants of a lost reply are forgotten": behind(func(_ *State, c Command, r *Reply) {
			if q, ok := c.(Sync); ok && !q.WantsMore {
				r.Grants = nil
			}
		}),
		"what was consumed is forgotten with its epoch": behind(func(s *State, _ Command, r *Reply) {
			start := position.Position{Epoch: s.closed}
			s.base, r.Base = from(s.base, start), from(r.Base, start)
			for _, k := range s.ranks {
				if k != nil {
					k.consumed = from(k.consumed, start)
				}
			}
		}),
		"consumption is kept as a floor": behind(func(s *State, c Command, _ *Reply) {
			if k := joining(s, c); k != nil && len(k.consumed) > 1 {
				s.returned = s.returned.Union(k.consumed[1:])
				k.consumed = k.consumed[:1]
			}
		}),
		"consumption is kept as a highest cursor": behind(func(s *State, c Command, _ *Reply) {
			if q, ok := c.(Sync); ok && len(s.ranks[q.Rank].consumed) > 0 {
				k := s.ranks[q.Rank]
				below := position.Set{{To: k.consumed[len(k.consumed)-1].To}}.Intersect(k.held)
				k.held, k.releasing = k.held.Subtract(below), nil
				k.consumed = k.consumed.Union(below)
			}
		}),
		"an ended lease loses what was held": behind(func(s *State, c Command, _ *Reply) {
			if q, ok := c.(Expire); ok && s.rank(q.Rank) != nil {
				lost := s.ranks[q.Rank].revoked.Intersect(s.returned)
				s.base = s.base.Union(lost)
				s.returned = s.returned.Subtract(lost)
			}
		}),
		"a recall does not wait for the release": behind(func(s *State, c Command, _ *Reply) {
			if q, ok := c.(Recall); ok {
				k := s.ranks[q.Rank]
				s.returned = s.returned.Union(k.releasing)
				k.held = k.held.Subtract(k.releasing)
				k.releasing = nil
			}
		}),
		"epochs close too early": behind(func(s *State, _ Command, r *Reply) {
			r.Closed = min(r.Closed+1, s.id.Epochs-1)
		}),
		"what a leaving rank consumed is granted again": behind(func(s *State, c Command, _ *Reply) {
			if q, ok := c.(Sync); ok && q.Leave {
				s.returned = s.returned.Union(s.base)
				s.base = nil
			}
		}),
		"a restore forgets the base": behind(func(s *State, c Command, r *Reply) {
			if q, ok := c.(Join); ok && q.Restoring && len(r.WaitingFor) == 0 {
				s.returned = s.returned.Union(s.base)
				s.base = nil
			}
		}),
		"states of different steps are restored": func(s *State, c Command) (Reply, Changes, error) {
			if q, ok := c.(Join); ok {
				q.Restore = slices.Clone(q.Restore)
				for i, p := range q.Restore {
					q.Restore[i].Rows, q.Restore[i].DepartedRows = 0, make([]int64, len(p.Departed))
				}
				c = q
			}
			return s.Apply(c)
		},
		"a restore forgets what this etcd never granted": func(s *State, c Command) (Reply, Changes, error) {
			if q, ok := c.(Join); ok {
				q.Restore = slices.Clone(q.Restore)
				for i, p := range q.Restore {
					q.Restore[i].Consumed = p.Consumed.Intersect(position.Set{{To: s.frontier}})
				}
				c = q
			}
			return s.Apply(c)
		},
		"a generation that a lost etcd knew comes again": func(s *State, c Command) (Reply, Changes, error) {
			before := s.generation
			r, ch, err := s.Apply(c)
			if s.generation > before {
				s.generation = before + 1
				r.Generation = s.generation
			}
			return r, ch, err
		},
		"old starts are not fenced": func(s *State, c Command) (Reply, Changes, error) {
			if q, ok := c.(Sync); ok && s.rank(q.Rank) != nil {
				q.Generation, q.Incarnation, q.Nonce = s.generation, s.ranks[q.Rank].incarnation, s.ranks[q.Rank].nonce
				c = q
			}
			return s.Apply(c)
		},
		"starts of a lost session are not fenced": func(s *State, c Command) (Reply, Changes, error) {
			if q, ok := c.(Sync); ok && s.rank(q.Rank) != nil {
				q.Nonce = s.ranks[q.Rank].nonce
				c = q
			}
			return s.Apply(c)
		},
		"a repeated join is a new start": func(s *State, c Command) (Reply, Changes, error) {
			if q, ok := c.(Join); ok && !q.Restoring {
				if k := s.rank(q.Rank); k != nil {
					q.Nonce = fmt.Sprint(q.Nonce, " and ", k.incarnation)
				}
				c = q
			}
			return s.Apply(c)
		},
		"released parts are taken whenever they are named": func(s *State, c Command) (Reply, Changes, error) {
			if q, ok := c.(Sync); ok {
				q.Revision = max(q.Revision, 1<<40)
				c = q
			}
			return s.Apply(c)
		},
		"a head is not written": func(s *State, c Command) (Reply, Changes, error) {
			r, ch, err := s.Apply(c)
			ch.Head = ch.Head && len(ch.Ranks) == 0
			return r, ch, err
		},
	}
}

// behind is Apply with a bug that changes the state or the reply behind it, and is written.
func behind(change func(s *State, c Command, r *Reply)) executor {
	return func(s *State, c Command) (Reply, Changes, error) {
		r, ch, err := s.Apply(c)
		if err != nil {
			return r, ch, err
		}
		change(s, c, &r)
		ch.Head = true
		for i, k := range s.ranks {
			if k != nil {
				ch.rank(uint32(i))
			}
		}
		return r, ch, nil
	}
}

// joining is the rank that a command starts.
func joining(s *State, c Command) *rank {
	if q, ok := c.(Join); ok {
		return s.rank(q.Rank)
	}
	return nil
}
