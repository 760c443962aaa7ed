package transform

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// intersect is Velox's array_intersect.
func intersect() Op {
	op := joinLists("intersect", (*listJoin).intersect)
	op.Summary = "The elements of the first list that are in the second, too, each once, in the first's order."
	op.Exact = "list<int64>: the elements of the first list that are in the second, each once, in the first's order. " +
		"See \"Two lists\""
	return op
}

// union is Velox's array_union.
func union() Op {
	op := joinLists("union", (*listJoin).union)
	op.Summary = "The elements of the first list and then those of the second, each once."
	op.Exact = "list<int64>: the elements of the first list and then the second's, each once. See \"Two lists\""
	return op
}

// joinLists declares an op that makes a list of two, but for what it computes.
func joinLists(name string, join func(*listJoin, []*vector.Vector, int)) Op {
	return Op{
		Name:    name,
		Version: 1,
		Inputs:  "two scalars or lists of ints",
		Output:  "list<int64>; null if an input is null; a null element counts as a value",
		Keeps:   true,
		Example: "{op: " + name + ", in: [cat_1, cat_2], out: cat_1_2}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			return spec.Type{Kind: pb.Kind_INT64, List: true}, checkRoles(in, roleIDs, roleIDs)
		},
		New: func(Params, []spec.Type) (Kernel, error) { return &listJoin{join: join}, nil },
	}
}

type listJoin struct {
	join             func(k *listJoin, in []*vector.Vector, row int)
	readers          [2]idReader
	table            idTable
	taken            []bool // by the ids' numbers
	values           []int64
	valid, elemValid []uint64
	hasNull          bool
}

func (k *listJoin) Run(out *vector.Vector, in []*vector.Vector) error {
	most := in[0].Len() + in[1].Len()
	if most > math.MaxInt32 {
		return fmt.Errorf("the features have %d ids in one window of %d rows; the most is %d",
			most, out.Rows, math.MaxInt32)
	}
	out.Offsets = vector.Grow(out.Offsets, out.Rows+1)
	out.Offsets[0], out.Valid, out.ElemValid = 0, nil, nil
	k.valid = copyValid(k.valid, nil, out.Rows)
	k.elemValid = copyValid(k.elemValid, nil, most)
	k.values, k.hasNull = vector.Grow(k.values, most)[:0], false
	for row := range out.Rows {
		if in[0].IsNull(row) || in[1].IsNull(row) {
			clearBit(k.valid, row)
			out.Valid = k.valid
		} else {
			k.join(k, in, row)
		}
		out.Offsets[row+1] = int32(len(k.values))
	}
	out.I64 = k.values
	if k.hasNull {
		out.ElemValid = k.elemValid
	}
	return nil
}

// Scratch implements Scratcher.
func (k *listJoin) Scratch(in []*vector.Vector) int64 {
	n := longest(in)
	return scratchOf(n, n)
}

func (k *listJoin) intersect(in []*vector.Vector, row int) {
	left, right := k.readers[0].row(in[0], row), k.readers[1].row(in[1], row)
	wantsNull := false
	k.table.reset(len(right))
	for j, id := range right {
		if isNullAt(in[1], row, j) {
			wantsNull = true
		} else {
			k.table.number(id)
		}
	}
	k.taken = vector.Grow(k.taken, int(k.table.n))
	clear(k.taken)
	for j, id := range left {
		if isNullAt(in[0], row, j) {
			if wantsNull {
				k.addNull()
			}
			wantsNull = false
		} else if at := k.table.find(id); at >= 0 && !k.taken[at] {
			k.taken[at] = true
			k.values = append(k.values, id)
		}
	}
}

func (k *listJoin) union(in []*vector.Vector, row int) {
	lists := [...][]int64{k.readers[0].row(in[0], row), k.readers[1].row(in[1], row)}
	wantsNull := true
	k.table.reset(len(lists[0]) + len(lists[1]))
	for i, list := range lists {
		for j, id := range list {
			if isNullAt(in[i], row, j) {
				if wantsNull {
					k.addNull()
				}
				wantsNull = false
			} else if _, seen := k.table.number(id); !seen {
				k.values = append(k.values, id)
			}
		}
	}
}

func (k *listJoin) addNull() {
	clearBit(k.elemValid, len(k.values))
	k.values, k.hasNull = append(k.values, 0), true
}

// isNullAt reports whether element j of a row's list is null.
func isNullAt(v *vector.Vector, row, j int) bool {
	return v.Type.List && v.ElemValid != nil && v.ElemIsNull(int(v.Offsets[row])+j)
}
