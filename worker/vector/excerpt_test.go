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
		pb.Kind_FLOAT64, pb.Kind_BINARY,
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
		v.Offsets = []int32{0}
		for i := range v.Rows {
			n := int32(rapid.IntRange(0, 5).Draw(t, "length"))
			if v.IsNull(i) {
				n = 0
			}
			v.Offsets = append(v.Offsets, v.Offsets[i]+n)
		}
		v.ElemValid = words(v.Len())
	}
	if v.Type.Kind == pb.Kind_BINARY && v.Len() > 0 {
		v.Ends = []int32{0}
	}
	for i := range v.Len() {
		v.Bool, v.I32, v.I64 = append(v.Bool, i%3 == 0), append(v.I32, int32(i)), append(v.I64, int64(i))
		v.F32, v.F64 = append(v.F32, float32(i)), append(v.F64, float64(i))
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
	var one, other vector.Excerpt
	if n := testing.AllocsPerRun(100, func() {
		one.Take(ids, []int32{1, 0, 1})
		other.Take(texts, []int32{1, 1})
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
