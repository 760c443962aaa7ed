package session

import (
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-ml/penstock/api/position"
)

// faults are the windows of a dataset that workers cannot read: never, or only at times, as where a worker's own disk
// is damaged and it may or may not be a candidate. Two windows make a row group.
type faults struct {
	d       dataset
	windows map[position.Position]bool // whether never
}

// randomFaults makes none, or few of them.
func randomFaults(d dataset, draw func(n int) int) *faults {
	f := &faults{d: d, windows: map[position.Position]bool{}}
	for e := range d {
		for b := range d[e] {
			for s := range d[e][b] {
				for w := range d[e][b][s] {
					if draw(5) == 0 {
						at := position.Position{Epoch: uint32(e), Block: uint32(b), Shard: uint32(s), Window: uint32(w)}
						f.windows[at] = draw(2) == 0
					}
				}
			}
		}
	}
	return f
}

// rowGroup is the first window of the row group in which p lies, and the place after the last.
func (f *faults) rowGroup(p position.Position) (from, to position.Position) {
	from, to = p.ShardStart(), p.ShardStart()
	from.Window = p.Window / 2 * 2
	if to.Window = from.Window + 2; int(to.Window) >= len(f.d.windows(p)) {
		to.Window, to.Shard = 0, to.Shard+1
	}
	return from, to
}

// rowGroups counts those with windows that cannot be read: never, or at all times.
func (f *faults) rowGroups() (never, ever int) {
	bad := map[position.Position]bool{}
	for at, always := range f.windows {
		from, _ := f.rowGroup(at)
		bad[from] = bad[from] || always
	}
	for _, always := range bad {
		if always {
			never++
		}
	}
	return never, len(bad)
}

// mayBeSkipped reports whether a row is in a row group after rows that cannot be read, or among them.
func (f *faults) mayBeSkipped(row position.Position) bool {
	from, _ := f.rowGroup(row)
	for ; from.Window <= row.Window; from.Window++ {
		if _, bad := f.windows[from]; bad {
			return true
		}
	}
	return false
}

// readable is the part of a piece that workers send. The trainer notes where they refuse to go on.
func (t *trainer) readable(p position.Interval, draw func(n int) int) position.Interval {
	if t.slow != nil {
		return t.slow.readable(p)
	}
	if t.faults == nil {
		return p
	}
	at := p.From
	at.K = 0
	for ; int(at.Window) < len(t.faults.d.windows(p.From)) && at.Less(p.To); at.Window++ {
		stop := at
		if stop.Less(p.From) {
			stop = p.From
		}
		never, bad := t.faults.windows[at]
		if !t.refused[stop] && (!bad || !never && draw(2) == 0) {
			continue
		}
		if t.refused == nil {
			t.refused = map[position.Position]bool{}
		}
		t.refused[stop] = true
		return position.Interval{From: p.From, To: stop}
	}
	return p
}

// refusals is what the trainer reports, filled in as the master does.
func (t *trainer) refusals() []Refusal {
	var out []Refusal
	for _, at := range slices.SortedFunc(maps.Keys(t.refused), position.Position.Compare) {
		from, end := t.faults.rowGroup(at)
		out = append(out, Refusal{
			At: at, End: end, File: fmt.Sprint("file ", at.Epoch, at.Block, at.Shard), Index: at.Block<<16 | at.Shard,
			RowGroup: from.Window / 2, FirstRow: int64(at.Window), Rows: 1, Words: "unreadable",
		})
	}
	return out
}

// forgetRefused forgets where it was refused if that is not the trainer's any more: should it be granted again, it is
// tried again.
func (t *trainer) forgetRefused() {
	held := position.NewSet(t.pieces()...)
	for at := range t.refused {
		if !held.Contains(at) {
			delete(t.refused, at)
		}
	}
}

// modelEnded ends a model's run: the session failed, as it had to.
type modelEnded struct{}

// failed checks that the session failed for more bad row groups than it may skip.
func (m *model) failed() {
	if m.faults == nil {
		m.fail("the session failed: %s", m.s.Failure())
	}
	if _, ever := m.faults.rowGroups(); !m.moved && ever <= int(m.id.Skip) {
		m.fail("the session failed with %d bad row groups, where %d may be skipped: %s", ever, m.id.Skip, m.s.Failure())
	}
	panic(modelEnded{})
}

// skipped is what was left out.
func (m *model) skipped() position.Set {
	all := m.before
	list, _ := m.s.Skipped()
	for _, k := range list {
		all = all.Union(k.Set)
	}
	return all
}

// unskipped checks which rows were left out, and returns whether a row was.
func (m *model) unskipped() (func(position.Position) bool, error) {
	if m.faults == nil {
		return func(position.Position) bool { return false }, nil
	}
	_, n := m.s.Skipped()
	if never, _ := m.faults.rowGroups(); n > m.id.Skip || !m.moved && never > int(n) {
		return nil, fmt.Errorf("%d row groups were skipped, where %d may be and %d are bad", n, m.id.Skip, never)
	}
	all := m.skipped()
	for _, row := range m.d.rows(all) {
		if !m.faults.mayBeSkipped(row) {
			return nil, fmt.Errorf("row %v was skipped, and can be read", row)
		}
	}
	return all.Contains, nil
}
