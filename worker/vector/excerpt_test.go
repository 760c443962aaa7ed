package vector_test

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// anyVector has nulls or none, of any type that an Excerpt takes.
func anyVector(t *rapid.T) *vector.Vector {
	v := &vector.Vector{Rows: rapid.IntRange(1, 200).Draw(t, "rows")}
	v.Type.Kind = rapid.SampledFrom([]pb.Kind{
		pb.Kind_BOOL, pb.Kind_INT32, pb.Kind_INT64, pb.Kind_FLOAT32,
		pb.Kind_FLOAT64, pb.Kind_BINARY, pb.Kind_INT8, pb.Kind_FLOAT16, pb.Kind_UINT32,
	}).Draw(t, "kind")
	v.Type.List = rapid.Bool().Draw(t, "list")
	words := func(n int) []uint64 {
		if rapid.Bool().Draw(t, "no nulls") {
			return nil
		}
		return rapid.SliceOfN(rapid.Uint64(), vector.Words(n), vector.Words(n)).Draw(t, "bits")
	}
	v.Valid = words(v.Rows)
	if v.Type.List {
		v.Offsets = lengths(t, v.Rows, v.Valid)
		v.Type.Nested = uint32(rapid.IntRange(0, 2).Draw(t, "levels"))
		for range v.Type.Nested {
			n := v.Len()
			valid := words(n)
			v.Nested = append(v.Nested, vector.Level{Offsets: lengths(t, n, valid), Valid: valid})
		}
		v.ElemValid = words(v.Len())
	}
	if v.Type.Kind == pb.Kind_BINARY && v.Len() > 0 {
		v.Ends = []int32{0}
	}
	for i := range v.Len() {
		v.Bool, v.I32, v.I64 = append(v.Bool, i%3 == 0), append(v.I32, int32(i)), append(v.I64, int64(i))
		v.F32, v.F64 = append(v.F32, float32(i)), append(v.F64, float64(i))
		v.Small = append(v.Small, bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 2)[:spec.Width(v.Type.Kind)%8]...)
		if v.Type.Kind == pb.Kind_BINARY {
			v.Data = append(v.Data, bytes.Repeat([]byte{byte(i)}, i%4)...)
			v.Ends = append(v.Ends, int32(len(v.Data)))
		}
	}
	if v.Type.Kind == pb.Kind_INT64 && rapid.Bool().Draw(t, "narrow") {
		for _, x := range v.I64 {
			v.U32 = append(v.U32, uint32(x))
		}
		v.I64 = nil
	}
	return v
}

// lengths are offsets of n lists of any lengths, of which null ones are empty.
func lengths(t *rapid.T, n int, valid []uint64) []int32 {
	offsets := []int32{0}
	for i := range n {
		length := int32(rapid.IntRange(0, 4).Draw(t, "length"))
		if valid != nil && valid[i>>6]>>(i&63)&1 == 0 {
			length = 0
		}
		offsets = append(offsets, offsets[i]+length)
	}
	return offsets
}

// show writes a row; what is null shows no value.
func show(v *vector.Vector, row int) string {
	if v.IsNull(row) {
		return "null"
	}
	from, to := row, row+1
	if v.Type.List {
		from, to = int(v.Offsets[row]), int(v.Offsets[row+1])
	}
	out := fmt.Sprint(to-from, ":")
	for _, level := range v.Nested {
		for i := from; i < to; i++ {
			out += fmt.Sprint(level.Offsets[i+1]-level.Offsets[i], !level.IsNull(i), ";")
		}
		from, to = int(level.Offsets[from]), int(level.Offsets[to])
	}
	for j := from; j < to; j++ {
		var value any
		switch v.Type.Kind {
		case pb.Kind_BOOL:
			value = v.Bool[j]
		case pb.Kind_INT32:
			value = v.I32[j]
		case pb.Kind_INT64:
			if v.U32 != nil {
				value = v.U32[j]
				break
			}
			value = v.I64[j]
		case pb.Kind_FLOAT32:
			value = v.F32[j]
		case pb.Kind_FLOAT64:
			value = v.F64[j]
		case pb.Kind_INT8, pb.Kind_FLOAT16, pb.Kind_UINT32:
			width := spec.Width(v.Type.Kind)
			value = v.Small[width*j : width*(j+1)]
		default:
			value = v.Data[v.Ends[j]:v.Ends[j+1]]
		}
		if v.ElemIsNull(j) {
			value = "null"
		}
		out += fmt.Sprint(value, ",")
	}
	return out
}

// An excerpt has the rows that were asked for, whatever its memory held before.
func TestExcerptHasTheRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e vector.Excerpt
		for range 3 {
			from := anyVector(t)
			rows := rapid.SliceOfN(rapid.Int32Range(0, int32(from.Rows-1)), 0, 150).Draw(t, "chosen")
			v := e.Take(from, rows)
			if v.Type != from.Type || v.Rows != len(rows) || from.U32 == nil && v.U32 != nil || from.U32 != nil &&
				v.I64 != nil {
				t.Fatalf("%d rows of %v of %d of %v", v.Rows, v.Type, len(rows), from.Type)
			}
			for i, row := range rows {
				if got, want := show(v, i), show(from, int(row)); got != want {
					t.Fatalf("row %d, which is %d of %v: %s, want %s", i, row, from.Type, got, want)
				}
			}
		}
	})
}

func TestExcerptAllocatesNothing(t *testing.T) {
	ids := &vector.Vector{
		Type: spec.Type{Kind: pb.Kind_INT64, List: true}, Rows: 2, Offsets: []int32{0, 2, 5},
		I64: make([]int64, 5), ElemValid: []uint64{6}, Valid: []uint64{3},
	}
	texts := &vector.Vector{
		Type: spec.Type{Kind: pb.Kind_BINARY}, Rows: 2, Ends: []int32{0, 1, 3}, Data: []byte("abc"),
		Valid: []uint64{1},
	}
	nested := &vector.Vector{
		Type: spec.Type{Kind: pb.Kind_UINT16, List: true, Nested: 1}, Rows: 2, Offsets: []int32{0, 1, 2},
		Nested: []vector.Level{{Offsets: []int32{0, 2, 3}, Valid: []uint64{3}}}, Small: make([]byte, 6),
	}
	var one, other, third vector.Excerpt
	if n := testing.AllocsPerRun(100, func() {
		one.Take(ids, []int32{1, 0, 1})
		other.Take(texts, []int32{1, 1})
		third.Take(nested, []int32{0, 1, 1})
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
