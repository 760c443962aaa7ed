package fake

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// bad reports whether a bad row was left out before output row k of a window, or behind its last one.
func (d *Dataset) bad(p position.Position) bool {
	return d.Bad > 0 && (31*d.Index(p)+7*int(p.Window)+int(p.K)+int(p.Epoch))%d.Bad == 0
}

// leftOut says in a record's metadata what was left out before its rows.
func (d *Dataset) leftOut(r *Record, m *pb.BatchMeta) {
	at := r.Position
	for at.K = 0; at.K < r.K; at.K++ {
		if d.bad(at) {
			m.SkippedBefore++
		}
	}
	end := r.K + uint64(r.Rows)
	for ; at.K < end || r.Last && at.K == end; at.K++ {
		if d.bad(at) {
			m.Skipped = append(m.Skipped, at.K)
			m.BadRows = append(m.BadRows, &pb.BadRow{Row: int64(at.K), Cause: "column c: broken"})
		}
	}
}

// BadIn counts the rows that are left out of a set of positions.
func (d *Dataset) BadIn(set position.Set) (t position.Tally) {
	for epoch := range d.Epochs {
		for shard, windows := range d.Shards {
			for w, rows := range windows {
				at := d.Start(epoch, shard)
				for at.Window = uint32(w); rows > 0 && at.K <= uint64(rows); at.K++ {
					if d.bad(at) && set.Contains(at) {
						t = t.Plus(position.Tally{{Epoch: epoch, N: 1}})
					}
				}
			}
		}
	}
	return t
}

// skips checks that a rank counts, beside what it says that it consumed, the rows that were left out of that.
func (m *Master) skips(req *pb.SyncRequest) {
	want := m.Data.BadIn(position.SetFromProto(req.GetConsumed())).From(m.Closed)
	if got := position.TallyFromProto(req.GetConsumedSkips()).From(m.Closed); !got.Equal(want) && !m.inLanes() {
		m.problems = append(m.problems,
			fmt.Sprintf("counts %v bad rows beside what it consumed, which lacks %v", got, want))
	}
	if len(req.GetBadRows()) > 16 {
		m.problems = append(m.problems, fmt.Sprintf("names %d bad rows", len(req.GetBadRows())))
	}
}
