package session

import (
	"slices"
	"sort"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Where last batches are dropped (last_batch DROP, in order FAST), all ranks hand over equally many batches in an
// epoch, all of them full, and what is left of it then, less than a batch for each rank, nobody gets. Output rows are
// counted when a block is planned, so the number of steps is known as soon as the epoch is planned, and before that how
// many there are at least:
//
//   - An epoch has the most steps S that its rows suffice for: the sum over ranks of S - handed, times the batch size,
//     is at most what is planned and not consumed. Ranks that have not joined yet count; those that left do not.
//   - What a rank was told never falls, and is written before it is told. It is final once all of the epoch is planned.
//   - A rank hands over its i-th batch only if it was told of i steps, and ends the epoch, without waiting, when it
//     handed over a final number.
//   - Once its number is final, a rank gives back what it holds above its need, to the row, and is granted no more than
//     that.
//   - An epoch closes when all ranks have ended it; what is left of it is forgotten.
//
// Invariant: what ranks were told and have not handed over, in rows, is at most what is left. A hand-over lowers both
// by as much; a rank that starts again was told nothing. So whoever was told of steps gets their rows: they are free,
// or held by a rank that is asked to give them back, or they return when its lease ends. Nobody waits for ever.
//
// All get equally many steps but for ranks that come back after they left: their share went to the others, and they get
// what is left. Ranks that are started again together go on at one place (begin), where one may have consumed more than
// that; so a rank that came again is told of steps only when all have been heard of since. If some had left, see
// drop_again.go.

// drop is the ending where last batches are dropped.
type drop struct{ fast }

func (s drop) countsOutputs() bool { return true }
func (s drop) counts() bool        { return true }
func (s drop) ahead() uint32       { return 2 } // a rank may have ended the epoch after the open one, too
func (s drop) keep() uint32        { return s.closed }

func (s drop) needsPlan() (epoch, index uint32, ok bool) {
	return s.nextBlock(s.told, s.starved) // what is left of an epoch that ranks were told of may be left for good
}

func (s drop) plan(b block, rows int64, ch *Changes) {
	s.fast.plan(b, rows, ch)
	s.countPlanned(b)
}

func (s drop) consumed(set position.Set) { s.countConsumed(set) }

func (s drop) load(*pb.SessionHead) error {
	s.countLeft()
	return nil
}

func (s drop) rewind(m merged) {
	s.fast.rewind(m)
	s.countLeft()
}

// grant tells a rank of its steps, asks it for what it holds above its need, and grants it up to that.
func (s drop) grant(c Sync, k *rank, ch *Changes) (drained bool) {
	s.announce(c.Rank, k, ch)
	n := needs{s.need(k, s.closed), s.need(k, s.closed+1)}
	s.trim(c.Rank, k, n, ch)
	wants := func(epoch uint32) bool { return c.WantsMore || len(within(k.held, epoch)) == 0 }
	s.more(c.Rank, k, c.Streams, n, func(uint32) bool { return false }, wants, ch)
	return s.drained()
}

// answer says how many steps epochs have, too.
func (s drop) answer(rank uint32, k *rank, at *Steps, r Reply) Reply {
	r = s.fast.answer(rank, k, at, r)
	if at != nil {
		r.Steps = slices.DeleteFunc(slices.Clone(k.told), func(e EpochSteps) bool { return e.Epoch < at.Epoch })
	}
	return r
}

// advance takes over what a rank reports: only padding needs more than what was handed over.
func (s drop) advance(r uint32, k *rank, n *Steps, _ bool, ch *Changes) {
	if n != nil {
		k.advance(r, &Steps{Epoch: n.Epoch, Handed: n.Handed, Ready: n.Handed}, ch)
	}
}

// begin has ranks that start together go on in step.
func (s drop) begin(k *rank, _ *Changes) Steps {
	if with := s.startedWith(k, func(o *rank) bool { return s.waits(o) && o.begun.Epoch >= s.closed }); with != nil {
		return with.begun
	}
	return s.beginAlone(s.at(k))
}

func (s drop) over(epoch uint32) bool { return s.allJoined() && s.endedByAll(epoch) }

func (s drop) stepsOf(epoch uint32) (n uint64, known bool) {
	n, known, _ = limitOf(s.shares(epoch))
	return n, known
}

// passed is what the rank was told: to look at all ranks for each would take their square.
func (s drop) passed(k *rank, epoch uint32) (n uint64, known bool) {
	told := k.toldOf(epoch)
	return told.Steps, told.Final
}

func (k *rank) toldOf(epoch uint32) EpochSteps {
	if i := slices.IndexFunc(k.told, func(e EpochSteps) bool { return e.Epoch == epoch }); i >= 0 {
		return k.told[i]
	}
	return EpochSteps{Epoch: epoch}
}

// handedIn is how many batches of an epoch a rank handed over that has not ended it.
func (k *rank) handedIn(epoch uint32) uint64 {
	if k != nil && k.steps.Epoch == epoch {
		return k.steps.Handed
	}
	return 0
}

// told reports whether the steps of an epoch are final for some rank.
func (s drop) told(epoch uint32) bool {
	return slices.ContainsFunc(s.ranks, func(k *rank) bool { return k != nil && !k.departed && k.toldOf(epoch).Final })
}

// admit checks what a rank reports: it hands over no more than it was told of.
func (s drop) admit(r uint32, n *Steps, left uint32) error {
	k := s.rank(r)
	if n == nil || k.departed || n.Epoch < k.steps.Epoch {
		return nil
	}
	ok := n.Epoch <= min(s.closed+2, s.id.Epochs) && n.Handed <= max(k.toldOf(n.Epoch).Steps, k.handedIn(n.Epoch))
	for epoch := k.steps.Epoch; ok && epoch < n.Epoch; epoch++ {
		ok = epoch < left || k.toldOf(epoch).Final
	}
	if !ok {
		return invalid("rank %d reports %+v, and was told of the steps %+v: the trainer or its client is broken",
			r, *n, k.told)
	}
	return nil
}

// announce works out what a rank is told of the steps of the epochs that it may read.
func (s drop) announce(r uint32, k *rank, ch *Changes) {
	for epoch := k.steps.Epoch; epoch <= s.closed+1 && epoch < s.id.Epochs; epoch++ {
		due := s.due(k, epoch)
		i := slices.IndexFunc(k.told, func(e EpochSteps) bool { return e.Epoch == epoch })
		switch {
		case i < 0 && (due.Steps > 0 || due.Final):
			k.told = append(k.told, due)
		case i >= 0 && k.told[i] != due:
			k.told = slices.Clone(k.told)
			k.told[i] = due
		default:
			continue
		}
		ch.rank(r)
	}
}

// share is a rank's part in the steps of an epoch.
type share struct {
	handed, told uint64
	final        bool // told is
	departed     bool
	newcomer     bool // has joined, and was told nothing
}

// shares are those of all ranks that are to read an epoch, or were told how many steps it has.
func (s drop) shares(epoch uint32) []share {
	var out []share
	for _, k := range s.ranks {
		switch {
		case k == nil:
			n := share{}
			if s.begun.Epoch == epoch {
				n.handed = s.begun.Handed
			}
			out = append(out, n)
		case k.departed, k.steps.Epoch > epoch: // it needs nothing, but others make as many steps as it was told of
			if told := k.toldOf(epoch); told.Final {
				out = append(out, share{handed: told.Steps, told: told.Steps, final: true, departed: k.departed})
			}
		default:
			told := k.toldOf(epoch)
			out = append(out, share{
				handed: k.handedIn(epoch), told: told.Steps, final: told.Final,
				newcomer: told.Steps == 0 && !told.Final,
			})
		}
	}
	return out
}

// cost is how many batches shares need to come to so many steps.
func cost(shares []share, steps uint64) (n uint64) {
	for _, s := range shares {
		want := max(s.told, steps)
		if s.final {
			want = s.told
		}
		n += max(want, s.handed) - s.handed
	}
	return n
}

// affordable is the most steps that shares can come to with so many batches.
func affordable(shares []share, batches uint64) uint64 {
	limit := batches
	for _, s := range shares {
		limit = max(limit, s.handed+batches)
	}
	n := sort.Search(int(min(limit, maxSteps)), func(i int) bool { return cost(shares, uint64(i)+1) > batches })
	return uint64(n)
}

// due is how many steps of an epoch a rank is to make, as far as is known, and whether that is all.
func (s drop) due(k *rank, epoch uint32) EpochSteps {
	told := k.toldOf(epoch)
	switch {
	case told.Final:
		told.Dropped = s.dropped(epoch, s.shares(epoch), told.Steps) // more, if a rank left since
		return told
	case s.unsettled(k):
		return told
	}
	due := EpochSteps{Epoch: epoch, Final: s.whollyPlanned(epoch)}
	shares, batches := s.shares(epoch), s.left(epoch)/s.batch()
	limit, limited, present := limitOf(shares)
	var followers []*rank
	if !present {
		followers = s.followers(k.begun)
	}
	switch {
	case len(followers) > 0:
		due.Steps = affordable(s.withFollowers(k, epoch, shares, followers), batches)
		if limited {
			due.Steps = min(due.Steps, limit)
		}
		if first := k.firstSteps(epoch); due.Steps > first {
			due.Steps, due.Final = first, false
		}
	case !limited:
		due.Steps = affordable(shares, batches)
	case cost(shares, limit) <= batches:
		due.Steps = limit
	default:
		due.Steps = min(limit, rest(shares, batches, limit, told.Steps == 0))
	}
	due.Steps = max(due.Steps, told.Steps)
	if due.Final {
		due.Dropped = s.dropped(epoch, shares, due.Steps)
	}
	return due
}

// limitOf is how many steps ranks were told of that are final, and whether one of these is present. What those were
// told that are gone counts only until one that is present is told: for that one it may have been too much.
func limitOf(shares []share) (steps uint64, told, present bool) {
	for _, o := range shares {
		switch {
		case !o.final || present && o.departed:
		case !present && !o.departed:
			steps, told, present = o.told, true, true
		default:
			steps, told = max(steps, o.told), true
		}
	}
	return steps, told, present
}

// dropped is how many rows of an epoch nobody gets whose ranks come to so many steps.
func (s drop) dropped(epoch uint32, shares []share, steps uint64) uint64 {
	left := s.left(epoch)
	return left - min(left, cost(shares, steps)*s.batch())
}

// rest is what ranks can come to where a rank came back whose share is others' by now: first those that were told of
// steps, then the newcomers.
func rest(shares []share, batches, limit uint64, newcomer bool) uint64 {
	others := slices.DeleteFunc(slices.Clone(shares), func(o share) bool { return o.newcomer })
	steps := min(limit, affordable(others, batches))
	if !newcomer {
		return steps
	}
	came := slices.DeleteFunc(slices.Clone(shares), func(o share) bool { return !o.newcomer })
	return affordable(came, batches-min(batches, cost(others, steps)))
}

// unsettled reports whether a rank came again, and it is not known yet at which place others do.
func (s drop) unsettled(k *rank) bool {
	if k.incarnation == 1 || slices.ContainsFunc(k.told, func(e EpochSteps) bool { return e.Epoch >= k.begun.Epoch }) {
		return false
	}
	return slices.ContainsFunc(s.ranks, func(o *rank) bool { return o != nil && !o.departed && o.heard != s.joins })
}

// starved reports whether a rank has handed over all batches that it was told of, though more may come.
func (s drop) starved() bool {
	return slices.ContainsFunc(s.ranks, func(k *rank) bool {
		if k == nil || k.departed || s.unsettled(k) {
			return false
		}
		if k.steps.Epoch > s.closed && !s.told(s.closed) {
			return false // it left that; who is in it still has it planned on, as its blocks are read
		}
		told := k.toldOf(k.steps.Epoch)
		return !told.Final && k.steps.Handed >= told.Steps
	})
}

// need is how many rows of an epoch a rank has yet to hand over, if that is known, for good or until others have come.
func (s drop) need(k *rank, epoch uint32) need {
	told := k.toldOf(epoch)
	switch {
	case k.steps.Epoch > epoch:
		return need{known: true}
	case !told.Final && (told.Steps == 0 || !s.whollyPlanned(epoch)):
		return need{}
	}
	return need{rows: (max(told.Steps, k.handedIn(epoch)) - k.handedIn(epoch)) * s.batch(), known: true}
}

// endedByAll reports whether all ranks that are to read an epoch have ended it, and wait for no one that left and may
// join them in it.
func (s drop) endedByAll(epoch uint32) bool {
	ended := false
	for _, k := range s.ranks {
		if !k.departed && k.steps.Epoch <= epoch {
			return false
		}
		ended = ended || k.steps.Epoch > epoch
	}
	var begun []Steps
	for _, k := range s.ranks {
		// One that is further has to hear of the epoch after the next.
		if !k.departed && k.begun.Epoch <= epoch && k.steps.Epoch == epoch+1 && !slices.Contains(begun, k.begun) {
			begun = append(begun, k.begun)
		}
	}
	return ended && !slices.ContainsFunc(begun, func(n Steps) bool { return len(s.followers(n)) > 0 })
}

// forget forgets what ranks were told of closed epochs.
func (s drop) forget(start position.Position) {
	s.fast.forget(start)
	for _, k := range s.ranks {
		if k != nil {
			k.forgetRest(start)
		}
	}
}

func (k *rank) forgetRest(start position.Position) {
	for k.begun.Epoch < start.Epoch {
		if told := k.toldOf(k.begun.Epoch); !told.Final || k.begun.Handed < told.Steps {
			break
		}
		k.begun = Steps{Epoch: k.begun.Epoch + 1}
	}
	k.held, k.releasing = from(k.held, start), from(k.releasing, start)
	k.told = slices.DeleteFunc(slices.Clone(k.told), func(e EpochSteps) bool { return e.Epoch < start.Epoch })
}
