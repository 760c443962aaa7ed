package master

import (
	"sync/atomic"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/lru"
	"github.com/penstock-ml/penstock/master/session"
)

// Where nothing random decides which rows there are, what was counted in one epoch holds in all others: files are cut
// into extents and windows alike, however files and shards are shuffled. A leader keeps such counts in memory, for they
// grow with the dataset. One that takes over has those of the blocks in flight, and has the rest counted again.

const (
	// recountBytes bounds the counts kept in memory, of all sessions: of some million windows. What goes is counted
	// again.
	recountBytes = 64 << 20
	// extentBytes is about what those of an extent take, beside the counts.
	extentBytes = 256
)

// recounts are the counts that sessions may need again. They may be used by many goroutines at once.
type recounts struct {
	kept     *lru.Cache[recountKey, []uint32]
	sessions atomic.Uint64
}

// recountKey is an extent of a session's listing, and how it is cut into windows.
type recountKey struct {
	session                    uint64 // as this process counts those that it takes up
	file, extent               uint32
	etag                       string // it may be another one in another epoch, where the listing has none
	firstRow, rows, windowRows int64
}

func newRecounts(limit int64) *recounts {
	return &recounts{kept: lru.New[recountKey, []uint32](limit)}
}

// of are those of a session that runs a program, or nil if nothing is counted, or other numbers in each epoch.
func (r *recounts) of(p *pb.Program) *sessionRecounts {
	if spec.RowsOf(p) == spec.SameRows || spec.DrawsRows(p) {
		return nil
	}
	return &sessionRecounts{r, r.sessions.Add(1)}
}

// sessionRecounts are the counts of one session. Where it is nil, there are none.
type sessionRecounts struct {
	*recounts
	session uint64
}

func (r *sessionRecounts) key(f *pb.File, g *pb.Extent) recountKey {
	return recountKey{
		r.session, f.GetIndex(), g.GetIndex(), f.GetEtag(), g.GetFirstRow(), g.GetRows(), max(1, g.GetWindowRows()),
	}
}

// set sets the outputs of a shard, if those of all of its extents are known.
func (r *sessionRecounts) set(s *pb.Shard) bool {
	if r == nil {
		return false
	}
	found := make([][]uint32, len(s.GetExtents()))
	for i, g := range s.GetExtents() {
		var ok bool
		if found[i], ok = r.kept.Get(r.key(s.GetFile(), g)); !ok {
			return false
		}
	}
	for i, g := range s.GetExtents() {
		g.Outputs = found[i]
	}
	return true
}

// keep keeps the outputs of a shard, if it has them.
func (r *sessionRecounts) keep(s *pb.Shard) {
	if r == nil {
		return
	}
	for _, g := range s.GetExtents() {
		if n := len(g.GetOutputs()); n > 0 && n == len(session.WindowRows(g)) {
			r.kept.Add(r.key(s.GetFile(), g), g.GetOutputs(), extentBytes+4*int64(n))
		}
	}
}
