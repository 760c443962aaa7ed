package transform

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// bounds are the places of a row's values; a scalar counts as a list of one.
func bounds(v *vector.Vector, row int) (from, end int) {
	if !v.Type.List {
		return row, row + 1
	}
	return int(v.Offsets[row]), int(v.Offsets[row+1])
}

// complete reports whether a row is null in none of the features, and has no null element.
func complete(in []*vector.Vector, row int) bool {
	for _, v := range in {
		if v.IsNull(row) {
			return false
		}
		if v.Type.List && v.ElemValid != nil && !allSet(v.ElemValid, int(v.Offsets[row]), int(v.Offsets[row+1])) {
			return false
		}
	}
	return true
}

// allSet reports whether the bits from one place up to another are set.
func allSet(valid []uint64, from, end int) bool {
	for j := from; j < end; j++ {
		if valid[j>>6]>>(j&63)&1 == 0 {
			return false
		}
	}
	return true
}

// idReader reads the ids of rows as int64.
type idReader struct{ wide []int64 }

// row may return memory of the feature, or such that the next call writes to.
func (r *idReader) row(v *vector.Vector, row int) []int64 {
	from, end := bounds(v, row)
	if v.Type.Kind == pb.Kind_INT64 {
		return v.I64[from:end]
	}
	r.wide = slices.Grow(r.wide[:0], end-from)
	for _, id := range v.I32[from:end] {
		r.wide = append(r.wide, int64(id))
	}
	return r.wide
}

// scoreReader reads the numbers of rows as float64.
type scoreReader struct{ wide []float64 }

// row returns memory that the next call writes to.
func (r *scoreReader) row(v *vector.Vector, row int) []float64 {
	from, end := bounds(v, row)
	r.wide = slices.Grow(r.wide[:0], end-from)
	switch v.Type.Kind {
	case pb.Kind_INT32:
		r.wide = appendFloats(r.wide, v.I32[from:end])
	case pb.Kind_INT64:
		r.wide = appendFloats(r.wide, v.I64[from:end])
	case pb.Kind_FLOAT32:
		r.wide = appendFloats(r.wide, v.F32[from:end])
	case pb.Kind_FLOAT64:
		r.wide = appendFloats(r.wide, v.F64[from:end])
	}
	return r.wide
}

func appendFloats[S int32 | int64 | float32 | float64](to []float64, from []S) []float64 {
	for _, x := range from {
		to = append(to, float64(x))
	}
	return to
}

// role is what an input of an op that takes several is for.
type role string

const (
	roleIDs    role = "ids"
	roleScores role = "scores"
)

// checkRoles refuses inputs that do not fit the roles: ids are ints, and scores as many numbers as the ids before them.
func checkRoles(in []spec.Type, roles ...role) error {
	if len(in) != len(roles) {
		return fmt.Errorf("in: want %d features %v, found %d", len(roles), roles, len(in))
	}
	for i, r := range roles {
		switch {
		case r == roleIDs && !isInteger(in[i].Kind):
			return fmt.Errorf(
				"in: want ids as feature %d, a scalar or list of ints, found %v; sigrid_hash makes ids of text",
				i+1, in[i])
		case r == roleScores && !isInteger(in[i].Kind) && !isFloat(in[i].Kind):
			return fmt.Errorf(
				"in: want scores as feature %d, a scalar or list of numbers, found %v; cast turns it into one",
				i+1, in[i])
		case r == roleScores && in[i].List != in[i-1].List:
			return fmt.Errorf("in: want a score for each id, found %v as scores of %v", in[i], in[i-1])
		}
	}
	return nil
}

// errUnequal is of a row whose scores are not one for each id.
func errUnequal(row, ids, scores int) error {
	return &RowError{
		Row: row, Own: true,
		What: fmt.Sprintf("has %d ids and %d scores; they must be as many: see that both features stem from one list",
			ids, scores),
	}
}

// manyValues is how many values of a window are worth asking for the memory to work on its longest row.
const manyValues = 1024

// longest is how many values the row has that has most, of all features together; 0 if the window has less than
// manyValues in lists.
func longest(in []*vector.Vector) int {
	total := 0
	for _, v := range in {
		if v.Type.List {
			total += v.Len()
		}
	}
	if total < manyValues {
		return 0
	}
	most := 0
	for row := range in[0].Rows {
		n := 0
		for _, v := range in {
			from, end := bounds(v, row)
			n += end - from
		}
		most = max(most, n)
	}
	return most
}

// scratchOf is about what an op takes that numbers so many ids of a row in a table, and counts them, and reads all of
// its values as int64 or float64.
func scratchOf(numbered, all int) int64 {
	if all == 0 {
		return 0
	}
	return int64(unsafe.Sizeof(idSlot{}))<<tableWidth(numbered) + 16*int64(all)
}

func tableWidth(n int) int { return max(4, bits.Len(uint(2*n))) }

// spread makes hashes of ids by multiplication, whose upper bits count. It is another one in each process, so that no
// file can have ids that all fall on one place of a table. Results do not depend on it.
var spread = rand.Uint64() | 1 //nolint:gochecknoglobals // of the process

// idTable numbers distinct ids from 0 in the order of their first occurrence: a hash table that is emptied by counting
// rounds, and so costs a row what the row holds.
type idTable struct {
	slots []idSlot
	used  []idSlot // the slots of this round: as few as will do, to stay in the cache
	shift uint
	round uint32
	n     int32
}

type idSlot struct {
	id    int64
	round uint32
	at    int32
}

// reset empties the table, and makes room for up to n ids.
func (t *idTable) reset(n int) {
	width := tableWidth(n)
	if len(t.slots) < 1<<width {
		t.slots, t.round = make([]idSlot, 1<<width), 0
	}
	if t.round++; t.round == 0 {
		clear(t.slots)
		t.round = 1
	}
	t.used, t.shift, t.n = t.slots[:1<<width], uint(64-width), 0
}

// number returns the id's number, having given it the next one if it had none.
func (t *idTable) number(id int64) (at int32, seen bool) {
	for h := uint64(id) * spread >> (t.shift & 63); ; h++ {
		s := &t.used[h&uint64(len(t.used)-1)]
		if s.round != t.round {
			*s = idSlot{id, t.round, t.n}
			t.n++
			return s.at, false
		}
		if s.id == id {
			return s.at, true
		}
	}
}

// find returns the id's number, or -1.
func (t *idTable) find(id int64) int32 {
	for h := uint64(id) * spread >> (t.shift & 63); ; h++ {
		s := &t.used[h&uint64(len(t.used)-1)]
		if s.round != t.round {
			return -1
		}
		if s.id == id {
			return s.at
		}
	}
}
