package fake

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// refused leaves out what no worker can read, as far as the spec allows it. Windows are row groups here. A report
// counts only if it was made with the newest grants.
func (m *Master) refused(req *pb.SyncRequest, r *Member) {
	if req.GetRevision() != r.revision {
		return
	}
	for _, f := range req.GetRefused() {
		at := position.FromProto(f.GetAt())
		part := r.Held.Intersect(position.Set{{From: at, To: m.Data.windowEnd(at)}})
		if len(part) == 0 {
			continue
		}
		if f.GetCause() != pb.RefusalCause_UNREADABLE || len(m.skipped) >= int(m.Spec.GetOnError().GetSkip()) {
			m.Failure, m.badData = f.GetCause().String()+": "+f.GetWords(), true
			return
		}
		m.skipped = append(m.skipped, &pb.SkippedRows{
			Epoch: at.Epoch, File: "mem://part", FileIndex: uint32(m.Data.Index(at)), RowGroup: at.Window,
			FirstRow: int64(at.K),
			Cause:    f.GetWords(), Intervals: part.Proto(),
		})
		m.Skipped, m.base, r.Held = m.Skipped.Union(part), m.base.Union(part), r.Held.Subtract(part)
		m.version++
		r.revision++
	}
}
