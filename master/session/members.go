package session

import (
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// members are the ranks of a generation.
type members struct {
	ranks  []*rank // by number; nil: never joined in this generation
	absent int     // ranks that are nil
	joins  uint64  // the newest rank.joined
}

func newMembers(ranks []*rank) members {
	m := members{ranks: ranks}
	for _, k := range ranks {
		if k == nil {
			m.absent++
			continue
		}
		m.joins = max(m.joins, k.joined)
	}
	return m
}

// rank is one rank's part of the state.
type rank struct {
	incarnation uint64
	nonce       string
	kind        pb.JoinKind
	revision    uint64 // counts the changes of held and releasing, but for consumption; see State.revision
	held        position.Set
	consumed    position.Set
	skips       position.Tally // bad rows that were left out beside consumed
	releasing   position.Set   // asked back, part of held
	asked       uint64         // revision at which it was asked last
	answered    bool           // it has said since what it releases
	idle        uint32         // see takeover.go; 1 more than the epoch, 0: in none
	departed    bool
	expired     bool  // the lease ended, and no Sync came since
	mayRepeat   int64 // rows at most that others hand over again, of earlier incarnations
	atRisk      int64 // the same of this one, since its lease ended
	// what was taken when a lease of this incarnation ended, and it did not report as consumed since
	revoked   position.Set
	counters  Counters
	earlier   Counters // of earlier incarnations
	steps     Steps
	begun     Steps        // where this incarnation's training loop began
	joined    uint64       // number of this incarnation's join among those of all ranks
	heard     uint64       // the newest join before this rank was last heard of
	begunStep uint64       // of the job, where this incarnation's training loop began
	part      *Checkpoint  // of the checkpoint that is being taken
	told      []EpochSteps // to this incarnation, of epochs that are not closed; where last batches are dropped
}

func (k *rank) present() bool { return !k.departed && !k.expired }

// revokedSince is what an ended lease took of epochs that are not closed; of a rank that was not heard of since, all,
// so that it can be told if others have handed over what it did.
func (k *rank) revokedSince(start position.Position) position.Set {
	if k.expired {
		return k.revoked
	}
	return from(k.revoked, start)
}

// Member identifies a rank's present start.
type Member struct {
	Rank        uint32
	Incarnation uint64
}

// Present lists the ranks whose leases run, for the timers of a new leader.
func (m *members) Present() []Member {
	var out []Member
	for i, k := range m.ranks {
		if k != nil && k.present() {
			out = append(out, Member{Rank: uint32(i), Incarnation: k.incarnation})
		}
	}
	return out
}

// Joined reports whether any rank has joined in this generation.
func (m *members) Joined() bool {
	return slices.ContainsFunc(m.ranks, func(k *rank) bool { return k != nil })
}

func (m *members) rank(r uint32) *rank {
	if int64(r) >= int64(len(m.ranks)) {
		return nil
	}
	return m.ranks[r]
}

// allJoined reports whether each rank has joined in this generation.
func (m *members) allJoined() bool { return m.absent == 0 }

// startedWith is the newest of the ranks that joined after a rank was last heard of, and may wait for it; nil: it
// starts alone.
func (m *members) startedWith(k *rank, waits func(other *rank) bool) (with *rank) {
	newest := k.heard
	for _, other := range m.ranks {
		if other != nil && other != k && !other.departed && other.joined > newest && waits(other) {
			with, newest = other, other.joined
		}
	}
	return with
}

// leftByAll reports whether the training loops of all ranks that are waited for, maybe those whose leases ended, too,
// are in later epochs, and there is one.
func (m *members) leftByAll(epoch uint32, expired bool) bool {
	found := false
	for _, k := range m.ranks {
		switch {
		case k == nil || k.departed || k.expired && !expired:
		case k.steps.Epoch <= epoch:
			return false
		default:
			found = found || k.present()
		}
	}
	return found
}
