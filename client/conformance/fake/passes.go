package fake

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// leavePasses takes in that a rank's training loop left epochs before their ends.
func (m *Master) leavePasses(req *pb.SyncRequest, r *Member) {
	epoch := min(req.GetFromEpoch(), m.Closed+1)
	if m.counted() {
		epoch = min(req.GetFromEpoch(), m.Closed+2)
	}
	if epoch <= r.from {
		return
	}
	r.from = epoch
	if rest := r.Held.Intersect(before(epoch)); len(rest) > 0 {
		r.Held, m.Returned, m.Release = r.Held.Subtract(rest), m.Returned.Union(rest), m.Release.Subtract(rest)
		r.revision++
	}
	if m.counted() && r.steps.GetEpoch() < epoch {
		r.steps = &pb.RankSteps{Epoch: epoch}
	}
}

// leftByAll reports whether all ranks that are there have left the open epoch.
func (m *Master) leftByAll() (left bool) {
	for _, r := range m.Ranks {
		if !r.Left && r.from <= m.Closed {
			return false
		}
		left = left || !r.Left
	}
	return left
}

// pass gives up what is left of the open epoch.
func (m *Master) pass() {
	m.Returned = m.Returned.Subtract(before(m.Closed + 1))
	m.Next = max(m.Next, int(m.Closed+1)*len(m.Data.Shards))
	m.Planned = max(m.Planned, int(m.Closed+1)*m.Data.blocks())
}

func before(epoch uint32) position.Set {
	return position.Set{{To: position.Position{Epoch: epoch}}}
}
