package features

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Cost is what sessions read of a row group, on average over the rows that they read.
type Cost struct {
	Wanted   float64 `json:"wanted_bytes"` // of the columns that they want
	Bytes    float64 `json:"read_bytes"`   // with what lies between them and is read along
	Requests float64 `json:"requests"`     // to storage
}

// maxChained bounds the groups of columns that are compared with one another: beyond, popularity alone orders them.
const maxChained = 4000

// Layout is what is known of the columns of files, and of the sets of them that sessions read.
type Layout struct {
	chunks []int64    // bytes of a column in a row group
	sets   []readSet  // with rows
	in     [][]uint64 // by column: the sets that have it, as bits
	rows   []float64  // by column, of those sets
}

// readSet is a set of columns, ascending.
type readSet struct {
	columns []int
	rows    float64
}

// LayoutOf takes what was read: a set's features stand for the columns that they lie in. Sets of which no column is
// known count for nothing.
func LayoutOf(m *pb.DatasetReads) *Layout {
	columns := m.GetColumns().GetColumns()
	byName := make(map[string]int, len(columns))
	l := &Layout{in: make([][]uint64, len(columns)), rows: make([]float64, len(columns))}
	for i, c := range columns {
		byName[c.GetName()] = i
		l.chunks = append(l.chunks, c.GetBytes()/int64(max(1, m.GetColumns().GetExtents())))
		l.in[i] = make([]uint64, (len(m.GetSets())+63)/64)
	}
	for _, s := range m.GetSets() {
		var set readSet
		for i := range Members(s) {
			if c, ok := columnOf(byName, m.GetFeatures()[i].GetName()); ok {
				set.columns = append(set.columns, c)
			}
		}
		slices.Sort(set.columns)
		set.columns = slices.Compact(set.columns)
		if set.rows = float64(s.GetRows()); set.rows == 0 || len(set.columns) == 0 {
			continue
		}
		for _, c := range set.columns {
			l.in[c][len(l.sets)/64] |= 1 << (len(l.sets) % 64)
			l.rows[c] += set.rows
		}
		l.sets = append(l.sets, set)
	}
	return l
}

// columnOf is the column that a feature lies in.
func columnOf(byName map[string]int, feature string) (int, bool) {
	for name := feature; ; {
		if c, ok := byName[name]; ok {
			return c, true
		}
		dot := strings.LastIndexByte(name, '.')
		if dot < 0 {
			return 0, false
		}
		name = name[:dot]
	}
}

// Known reports whether there is something to foretell: columns, and sets that read some.
func (l *Layout) Known() bool { return len(l.sets) > 0 }

// Cost is what sessions would read of a row group whose columns lie in an order; nil: the one that they have.
func (l *Layout) Cost(order []int, how storage.Reading) (cost Cost) {
	at := make([]storage.Range, len(l.chunks))
	end := int64(0)
	for i := range l.chunks {
		c := i
		if order != nil {
			c = order[i]
		}
		at[c] = storage.Range{Offset: end, Length: l.chunks[c]}
		end += l.chunks[c]
	}
	all := 0.0
	var ranges []storage.Range
	for _, s := range l.sets {
		ranges = ranges[:0]
		wanted := int64(0)
		for _, c := range s.columns {
			ranges = append(ranges, at[c])
			wanted += at[c].Length
		}
		all += s.rows
		cost.Wanted += s.rows * float64(wanted)
		cost.Bytes += s.rows * float64(how.Size(ranges))
		cost.Requests += s.rows * float64(how.Requests(ranges))
	}
	if all > 0 {
		cost.Wanted, cost.Bytes, cost.Requests = cost.Wanted/all, cost.Bytes/all, cost.Requests/all
	}
	return cost
}

// Order puts columns that are read together next to each other, beginning with those that are read most: columns of the
// same sets form a group, and each group is followed by that of the rest which shares most sets with it, for how many
// it has. Those that nobody reads come last, as they were.
func (l *Layout) Order() []int {
	groups := l.groups()
	if len(groups) <= maxChained {
		l.chain(groups)
	}
	return slices.Concat(groups...)
}

// groups are columns of the same sets, those that are read most first.
func (l *Layout) groups() (groups [][]int) {
	order := make([]int, len(l.chunks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(l.rows[b], l.rows[a]), slices.Compare(l.in[b], l.in[a]))
	})
	for _, c := range order {
		if n := len(groups); n > 0 && slices.Equal(l.in[groups[n-1][0]], l.in[c]) {
			groups[n-1] = append(groups[n-1], c)
			continue
		}
		groups = append(groups, []int{c})
	}
	return groups
}

// chain orders groups behind the first one.
func (l *Layout) chain(groups [][]int) {
	for next := 1; next < len(groups); next++ {
		last, best, likest := l.in[groups[next-1][0]], next, -1.0
		for i := next; i < len(groups); i++ {
			if like := alike(last, l.in[groups[i][0]]); like > likest {
				best, likest = i, like
			}
		}
		chosen := groups[best]
		copy(groups[next+1:best+1], groups[next:best]) // the others stay in their order
		groups[next] = chosen
	}
}

// alike is how many sets two columns have in common, of those that either has.
func alike(a, b []uint64) float64 {
	both, either := 0, 0
	for i := range a {
		both += bits.OnesCount64(a[i] & b[i])
		either += bits.OnesCount64(a[i] | b[i])
	}
	return float64(both) / float64(max(1, either))
}
