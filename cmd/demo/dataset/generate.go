package dataset

import (
	"math"
	"slices"
)

// Generator makes a table's values, each of which depends on nothing but its column and row. So whoever reads a file
// that Make wrote can tell what it should hold. It may be used by many goroutines.
type Generator struct {
	columns  []Column
	samplers []*sampler
	// What labels follow from: indices of columns, or -1.
	firstDense, firstSparse int
}

// NewGenerator makes the values of columns, which methods name by their indices.
func NewGenerator(columns []Column) *Generator {
	first := func(kind Kind) int { return slices.IndexFunc(columns, func(c Column) bool { return c.Kind == kind }) }
	return &Generator{
		columns: columns, samplers: newSamplers(columns), firstDense: first(Dense),
		firstSparse: first(Sparse),
	}
}

// Label is a row's value of a Label column.
func (g *Generator) Label(col, row int) int32 {
	if cell(row, col)>>54 < g.positives(row) {
		return 1
	}
	return 0
}

// AppendIDs appends a row's ids of a Sparse column; ok is false where the list is null.
func (g *Generator) AppendIDs(to []int64, col, row int) (ids []int64, ok bool) {
	s, state := g.samplers[col], cell(row, col)
	n := s.length(state)
	for range n {
		state += golden
		to = append(to, s.id(s.rank(mix(state))))
	}
	return to, n != null
}

// positives is the probability, in 1/1024, of a row's label to be 1. It follows from two features, so that there is
// something to learn.
func (g *Generator) positives(row int) uint64 {
	p := uint64(baseRate)
	if g.firstDense >= 0 {
		if v, ok := g.Number(g.firstDense, row); ok && v > 2 {
			p += raisedBy
		}
	}
	if g.firstSparse >= 0 && g.samplers[g.firstSparse].length(cell(row, g.firstSparse)) > 2 {
		p += raisedBy
	}
	return p
}

// Number is a row's value of a Dense or Real column, if it is not null.
func (g *Generator) Number(col, row int) (float32, bool) {
	state := cell(row, col)
	if g.samplers[col].length(state) == null {
		return 0, false
	}
	c, draw := &g.columns[col], mix(state+golden)
	if c.Kind == Real {
		low, high := math.Float32bits(c.Low), math.Float32bits(c.High)
		return math.Float32frombits(low + uint32(uint64(high-low)*(draw>>32)>>32)), true
	}
	return float32(int(g.samplers[col].rank(draw)) - c.Shift), true
}
