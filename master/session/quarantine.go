package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Rows that no worker can read are quarantined: what a rank holds of their extent, from its cursor on, moves to base
// as if it had been consumed, so that the partition holds, states tell of it, and no restore grants it again. The
// spec's on_error says how many extents that may befall; one more fails the session. A file that is not the one that
// was listed fails it at once: which of its rows were read before, nobody can say.
//
// A trainer stops reading where it is refused, until its grants change. So a report counts only if it was made with the
// newest grants: a late one could take away rows that were granted again since, and read.

// maxWords bounds what is kept of what a worker says of a refusal, maxLast that of the one that fails the session,
// which may be a traceback, and maxReason why it fails, in bytes: they are kept for as long as the session.
const maxWords, maxLast, maxReason = 400, 5 << 9, 4 << 10

// Refusal is a stream that no worker goes on with.
type Refusal struct {
	At, End  position.Position // the cursor, and where the extent ends
	Changed  bool              // the file changed, or is gone; else it cannot be read
	File     string            // its URI
	Index    uint32            // of the file in the listing
	RowGroup uint32
	FirstRow int64 // of the file: of At's window
	Rows     int64 // source rows from there to the extent's end
	Words    string
}

// Skipped is what was left out of an extent in an epoch.
type Skipped struct {
	Epoch    uint32
	File     string
	Index    uint32
	RowGroup uint32
	FirstRow int64
	Rows     int64
	Words    string
	Set      position.Set
}

// skippedRowGroups counts those of all epochs.
func (s *State) skippedRowGroups() uint32 { return s.skippedBefore + uint32(len(s.skipped)) }

// quarantine is how rows are left out that no worker can read.
type quarantine struct{ *State }

// refused takes up what a rank reports.
func (s quarantine) refused(c Sync, k *rank, ch *Changes) {
	if c.Revision != s.revision(k) {
		return
	}
	for _, r := range c.Refused {
		if !s.policy().skips() && s.failure == "" {
			r.Words = short(r.Words, maxLast)
			s.failure, s.badData = s.intolerable(r), true
			ch.Head = true
			continue
		}
		part := s.blocks.canonicalSet(position.NewSet(position.Interval{From: r.At, To: r.End})).Intersect(k.held)
		if len(part) == 0 || s.failure != "" {
			continue
		}
		r.Words = short(r.Words, maxLast)
		if why := s.intolerable(r); why != "" {
			s.failure, s.badData = why, true
			ch.Head = true
			continue
		}
		s.skip(r, part)
		s.policy().consumed(part)
		s.base, s.baseVersion = s.base.Union(part), s.baseVersion+1
		k.held = k.held.Subtract(part)
		k.releasing = k.releasing.Intersect(k.held)
		k.revision++
		ch.Head = true
		ch.rank(c.Rank)
	}
}

// intolerable says why a refusal fails the session, or is empty.
func (s quarantine) intolerable(r Refusal) string {
	what := fmt.Sprintf("%s extent %d, rows %d to %d", r.File, r.RowGroup, r.FirstRow, r.FirstRow+r.Rows-1)
	const mend = "mend what it names, the file, the spec or the function, and begin a new session; or restore the " +
		"newest checkpoint in a session that goes on without it: on_error: {skip_rows: N} leaves out rows that are " +
		"bad by themselves, and on_error: {skip: %d} whole extents"
	words := r.Words + "; "
	if strings.Contains(r.Words, "\n") { // a traceback
		words = r.Words + "\n"
	}
	switch n := s.skippedRowGroups(); {
	case r.Changed:
		return fmt.Sprintf(
			"%s: the file, or a table that it is joined with, changed or vanished since it was listed: %s; bring it "+
				"back as it was and restore a checkpoint, or begin a new session over the files that there are now",
			what, r.Words)
	case s.find(r) >= 0 || n < s.id.Skip:
		return ""
	case s.id.Skip == 0:
		return fmt.Sprintf("%s: no worker can make batches of it: %s"+mend, what, words, 1)
	default:
		return fmt.Sprintf(
			"%s: no worker can read it: %son_error lets %d extents be left out, and %d were already, %s; "+mend,
			what, words, s.id.Skip, n, s.someSkipped(), n+1)
	}
}

// someSkipped names a few.
func (s quarantine) someSkipped() string {
	var names []string
	for _, k := range s.skipped[:min(3, len(s.skipped))] {
		names = append(names, fmt.Sprintf("%s extent %d", k.File, k.RowGroup))
	}
	if len(names) < int(s.skippedRowGroups()) {
		names = append(names, "others")
	}
	return strings.Join(names, ", ")
}

// find returns the index of the entry for an extent that was refused, or -1.
func (s quarantine) find(r Refusal) int {
	return slices.IndexFunc(s.skipped, func(k Skipped) bool {
		return k.Epoch == r.At.Epoch && k.Index == r.Index && k.RowGroup == r.RowGroup
	})
}

// skip lists a part of an extent as left out. Several ranks may hold parts of one.
func (s quarantine) skip(r Refusal, part position.Set) {
	s.skipped = slices.Clone(s.skipped)
	if i := s.find(r); i >= 0 {
		k := &s.skipped[i]
		k.Set = k.Set.Union(part)
		if r.FirstRow < k.FirstRow {
			k.FirstRow, k.Rows = r.FirstRow, r.Rows
		}
		return
	}
	s.skipped = append(s.skipped, Skipped{
		Epoch: r.At.Epoch, File: r.File, Index: r.Index, RowGroup: r.RowGroup, FirstRow: r.FirstRow, Rows: r.Rows,
		Words: short(r.Words, maxWords), Set: part,
	})
}

// rewindSkipped keeps, of what was skipped, what a restore to m does not grant again. What its states know of beyond
// that is a number.
func (s quarantine) rewindSkipped(m merged) {
	kept := m.base.Union(position.Set{{To: position.Position{Epoch: m.closed}}})
	var list []Skipped
	for _, k := range s.skipped {
		if k.Set = k.Set.Intersect(kept); m.session == s.id.Session && len(k.Set) > 0 {
			list = append(list, k)
		}
	}
	s.skipped = list
	s.skippedBefore = m.skipped - min(m.skipped, uint32(len(list)))
}

// checkSkipped verifies that what was skipped is in base, once, and not more than may be.
func (s quarantine) checkSkipped() error {
	var sets []owned
	for _, k := range s.skipped {
		sets = append(sets, owned{set: k.Set, owner: fmt.Sprintf("%s extent %d", k.File, k.RowGroup)})
		if open := from(k.Set, position.Position{Epoch: s.closed}); !s.base.Covers(open) {
			return fmt.Errorf("%s extent %d was skipped in %v, which is not in base", k.File, k.RowGroup, k.Set)
		}
	}
	if len(s.skipped) > int(s.id.Skip) {
		return fmt.Errorf("%d extents were skipped, where on_error allows %d", len(s.skipped), s.id.Skip)
	}
	return disjoint(sets)
}

// short makes words what etcd takes: they may come from a file, which has any bytes, and as many.
func short(words string, limit int) string {
	if len(words) > limit {
		words = words[:limit] + " ..."
	}
	return strings.ToValidUTF8(words, "\uFFFD")
}

// SkippedProto returns what was skipped as it crosses the wire.
func SkippedProto(list []Skipped) []*pb.SkippedRows {
	var out []*pb.SkippedRows
	for _, k := range list {
		out = append(out, &pb.SkippedRows{
			Epoch: k.Epoch, File: k.File, FileIndex: k.Index, RowGroup: k.RowGroup, FirstRow: k.FirstRow, Rows: k.Rows,
			Cause:     k.Words,
			Intervals: k.Set.Proto(),
		})
	}
	return out
}

func skippedFromProto(ms []*pb.SkippedRows) []Skipped {
	var out []Skipped
	for _, m := range ms {
		out = append(out, Skipped{
			Epoch: m.GetEpoch(), File: m.GetFile(), Index: m.GetFileIndex(), RowGroup: m.GetRowGroup(),
			FirstRow: m.GetFirstRow(),
			Rows:     m.GetRows(), Words: m.GetCause(), Set: position.SetFromProto(m.GetIntervals()),
		})
	}
	return out
}
