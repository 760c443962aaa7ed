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
// maxTurned bounds those of which stretches are turned round, for which all distances are kept, and maxSweeps how often
// all stretches are looked at.
const (
	maxChained = 4000
	maxTurned  = 2000
	maxSweeps  = 8
)

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
// same sets form a group, and each group is followed by that of the rest which has most in common with it: the rows of
// the sets that have both, of those that have either. Then stretches are turned round where that saves requests. Those
// that nobody reads come last, as they were.
func (l *Layout) Order() []int {
	groups := l.groups()
	if len(groups) <= maxChained {
		rows := l.rowsOf()
		l.chain(groups, rows)
		l.turn(groups, rows)
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
func (l *Layout) chain(groups [][]int, rows rowsOfSets) {
	for next := 1; next < len(groups); next++ {
		last, best, likest := groups[next-1][0], next, -1.0
		for i := next; i < len(groups); i++ {
			c := groups[i][0]
			both := rows.both(l.in[last], l.in[c])
			if like := both / max(1, l.rows[last]+l.rows[c]-both); like > likest {
				best, likest = i, like
			}
		}
		chosen := groups[best]
		copy(groups[next+1:best+1], groups[next:best]) // the others stay in their order
		groups[next] = chosen
	}
}

// turn turns stretches of groups round, as long as fewer rows of sets then end or begin between groups, and behind the
// last one that is read (2-opt). What is read most stays in front, where nothing is between.
func (l *Layout) turn(groups [][]int, rows rowsOfSets) {
	for len(groups) > 0 && l.rows[groups[len(groups)-1][0]] == 0 {
		groups = groups[:len(groups)-1]
	}
	n := len(groups)
	if n > maxTurned {
		return
	}
	apart, order := l.apart(groups, rows), make([]int, n)
	for i := range order {
		order[i] = i
	}
	before := func(i, g int) float64 { // between what lies at i and a group
		if i < 0 {
			return 0
		}
		return apart[order[i]][g]
	}
	behind := func(g, i int) float64 {
		if i == n {
			return l.rows[groups[g][0]]
		}
		return apart[g][order[i]]
	}
	for sweep, better := 0, true; better && sweep < maxSweeps; sweep++ {
		better = false
		for i := range n {
			for j := i + 1; j < n; j++ {
				was := before(i-1, order[i]) + behind(order[j], j+1)
				if then := before(i-1, order[j]) + behind(order[i], j+1); then < was {
					slices.Reverse(order[i : j+1])
					better = true
				}
			}
		}
	}
	were := slices.Clone(groups)
	for i, g := range order {
		groups[i] = were[g]
	}
}

// apart are the rows of the sets that have one of two groups alone.
func (l *Layout) apart(groups [][]int, rows rowsOfSets) [][]float64 {
	out := make([][]float64, len(groups))
	for i, g := range groups {
		out[i] = make([]float64, len(groups))
		for j, h := range groups[:i] {
			a, b := g[0], h[0]
			out[i][j] = l.rows[a] + l.rows[b] - 2*rows.both(l.in[a], l.in[b])
			out[j][i] = out[i][j]
		}
	}
	return out
}

// rowsOfSets are the rows of sets, for each value of each byte of their bits: columns are compared by the million.
type rowsOfSets [][256]float64

func (l *Layout) rowsOf() rowsOfSets {
	out := make(rowsOfSets, (len(l.sets)+7)/8)
	for i := range out {
		for bits8 := 1; bits8 < 256; bits8++ {
			out[i][bits8] = out[i][bits8&(bits8-1)]
			if s := 8*i + bits.TrailingZeros8(uint8(bits8)); s < len(l.sets) {
				out[i][bits8] += l.sets[s].rows
			}
		}
	}
	return out
}

// both is the rows of the sets that two columns have in common.
func (r rowsOfSets) both(a, b []uint64) (rows float64) {
	for i := range a {
		for at, common := 8*i, a[i]&b[i]; common != 0; at, common = at+1, common>>8 {
			rows += r[at][common&255]
		}
	}
	return rows
}
