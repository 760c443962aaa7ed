package session

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// A session that is over is closed when its trainers have left: but for its named checkpoints, only what Remains
// returns is kept.

// maxSkippedKept is how many row groups that were skipped are named of a closed session; the others are counted.
const maxSkippedKept = 8

// Between reports whether a session without a limit is between two epochs: of the open one nobody has taken anything.
// What Remains returns says all of it, so that it may be closed once all have left, and opened again for who comes
// back.
func (s *State) Between() bool {
	return s.id.Epochs == noLimit && s.closed > 0 && s.failure == "" && s.policy().between()
}

// Over reports whether the session has finished or failed.
func (s *State) Over() bool { return s.Finished() || s.failure != "" }

// Left reports whether trainers were there and all have left, and none restores it.
func (s *State) Left() bool {
	if s.restore.attempt > s.restored {
		return false
	}
	joined := slices.DeleteFunc(slices.Clone(s.ranks), func(k *rank) bool { return k == nil })
	return len(joined) > 0 && !slices.ContainsFunc(joined, func(k *rank) bool { return !k.departed })
}

// Remains is the head of a session without what only its trainers and blocks need. One that is over, or between two
// epochs, goes on from it.
func (s *State) Remains() *pb.SessionHead {
	h := s.Head()
	if s.Between() { // whoever comes back begins with the next epoch
		h.Begun = Steps{Epoch: s.closed}.Proto()
		h.RestoredFrom = RestoredFrom{Step: s.from.Step + uint64(max(0, s.stepsClosed)), Epoch: s.closed}.Proto()
		h.StepsClosed = proto.Int64(0)
	}
	h.Frontier = position.Position{Epoch: s.closed}.Proto()
	h.Returned, h.Base, h.Blocks, h.Epochs, h.Steps, h.Promised, h.Left = nil, nil, nil, nil, nil, 0, nil
	h.Indexes = nil
	h.Skipped = h.GetSkipped()[:min(maxSkippedKept, len(h.GetSkipped()))]
	for _, k := range h.GetSkipped() {
		k.Intervals = nil
	}
	h.SkippedBefore = s.skippedRowGroups() - uint32(len(h.GetSkipped()))
	return h
}

// Reopened is the state of a closed session, in a generation of its own: no trainer has joined it, and those of before
// are fenced.
func Reopened(id Identity, remains *pb.SessionHead, named []*pb.Checkpoint) (*State, error) {
	h := proto.CloneOf(remains)
	h.Generation++
	h.Restored = h.GetRestoreAttempt() // none is under way
	return Load(id, h, nil, nil, named)
}

// Late answers a trainer that Syncs with a closed session, whose state is Reopened: it joined when the session was
// closed, and so stands nowhere, or it leaves, or is told that the session failed. All others are fenced.
func (s *State) Late(c Sync) (Reply, error) {
	if c.Leave || s.failure != "" {
		return s.common(Reply{Generation: c.Generation, Incarnation: c.Incarnation, Revision: c.Revision},
			c.BaseVersion), nil
	}
	if _, _, err := s.Apply(Join{Rank: c.Rank, World: s.world, Nonce: c.Nonce}); err != nil {
		return Reply{}, err
	}
	reply, _, err := s.Apply(c)
	return reply, err
}
