package session

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// dropped is what the model knows of a job whose last batches are dropped.
type dropped struct {
	cameBack  map[uint64]bool // generations in which a rank came back after it had left
	restarted bool            // without states, so that ranks may lose a batch to be in step
	maxRanks  int             // ranks that there ever were
}

func (m *model) beginDropping(batchSize int) {
	m.batchSize, m.drop = batchSize, &dropped{cameBack: map[uint64]bool{}}
	m.id.LastBatch, m.id.BatchSize = pb.LastBatch_DROP, uint64(batchSize)
}

// epoch is the one whose rows go into the next batch.
func (l *loop) epoch(open uint32) uint32 {
	if l.drops {
		return l.at.Epoch
	}
	return open
}

// fullBatch is a call for the next batch: it returns its rows, or none if the epoch is over, or if there is to wait.
func (t *trainer) fullBatch(draw func(n int) int) []position.Position {
	l := t.loop
	if l.at.Handed >= l.told[l.at.Epoch] {
		if l.final[l.at.Epoch] {
			l.ended(l.rank, l.at)
			l.at = Steps{Epoch: l.at.Epoch + 1}
		}
		return nil
	}
	if t.cut || draw(4) == 3 {
		return nil
	}
	taken, _ := t.take(draw, l.at.Epoch)
	rows := l.d.rows(taken)
	if len(rows) < l.batchSize {
		return nil
	}
	t.consumed = t.consumed.Union(taken)
	l.at.Handed++
	return t.handedOver(rows)
}

// checkShares checks that the rows are left of which ranks were told.
func (m *model) checkShares() {
	if m.drop == nil {
		return
	}
	m.drop.maxRanks = max(m.drop.maxRanks, int(m.s.world))
	for epoch := m.s.closed; epoch <= m.s.closed+1; epoch++ {
		if need := cost((drop{fast{m.s}}).shares(epoch), 0); need > (fast{m.s}).left(epoch)/m.s.batch() {
			m.fail("ranks were told of %d batches of epoch %d, of which %d rows are left",
				need, epoch, fast{m.s}.left(epoch))
		}
	}
}

// verdictOnDropped checks that no row came too often, and that no more were dropped than the last batch of each rank
// has.
func (m *model) verdictOnDropped() error {
	for epoch := range uint32(len(m.d)) {
		missing := 0
		for _, row := range m.d.rows(within(m.d.all(), epoch)) {
			n := m.handed[row]
			if n > 1+m.excused[row] {
				return fmt.Errorf("row %v was handed over %d times; %d repeats are excused", row, n, m.excused[row])
			}
			if n < 1 {
				missing++
			}
		}
		left := m.passes != nil && m.passes.some[epoch]
		if limit := m.drop.maxRanks*m.batchSize - 1; !left && missing > limit && len(m.drop.cameBack) == 0 &&
			!m.drop.restarted && len(m.away) == 0 {
			return fmt.Errorf("%d rows of epoch %d are missing; at most %d are dropped", missing, epoch, limit)
		}
	}
	return nil
}

func bugsInDropping() map[string]executor {
	reply := func(change func(s *State, k *rank, r *Reply)) executor {
		return behind(func(s *State, c Command, r *Reply) {
			if q, ok := c.(Sync); ok {
				change(s, s.ranks[q.Rank], r)
			}
		})
	}
	return map[string]executor{
		"ranks are told of more steps than there are rows for": reply(func(s *State, k *rank, r *Reply) {
			for i, told := range k.told {
				if told.Final {
					k.told[i].Steps = fast{s}.left(told.Epoch)/s.batch() + k.handedIn(told.Epoch)
				}
			}
			r.Steps = slices.Clone(k.told)
		}),
		"steps are final before the epoch is planned": reply(func(_ *State, k *rank, r *Reply) {
			for i := range k.told {
				k.told[i].Final = true
			}
			r.Steps = slices.Clone(k.told)
		}),
		"nothing is asked back": reply(func(_ *State, k *rank, r *Reply) { k.releasing, r.Release = nil, nil }),
		"who comes again is told at once": func(s *State, c Command) (Reply, Changes, error) {
			for _, k := range s.ranks {
				if k != nil {
					k.heard = s.joins
				}
			}
			r, ch, err := s.Apply(c)
			for i, k := range s.ranks {
				if k != nil {
					ch.rank(uint32(i))
				}
			}
			return r, ch, err
		},
		"what was told is not written": func(s *State, c Command) (Reply, Changes, error) {
			q, ok := c.(Sync)
			before := 0
			if k := s.rank(q.Rank); ok && k != nil {
				before = len(k.told)
			}
			r, ch, err := s.Apply(c)
			if err == nil && ok && len(s.ranks[q.Rank].told) != before {
				ch.Ranks = slices.DeleteFunc(ch.Ranks, func(r uint32) bool { return r == q.Rank })
			}
			return r, ch, err
		},
		"a rank's share goes to others when its lease ends": func(s *State, c Command) (Reply, Changes, error) {
			r, ch, err := s.Apply(c)
			if q, ok := c.(Expire); ok && err == nil && len(ch.Ranks) > 0 {
				s.ranks[q.Rank].departed = true
			}
			return r, ch, err
		},
	}
}
