package decode_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
	"github.com/penstock-ml/penstock/worker/vector"
)

// shown is a Reader of a vector.
type shown struct{ *vector.Vector }

func (s shown) Read(int) (*vector.Vector, error) { return s.Vector, nil }

// drawMaps makes maps of integers, which repeat, to lists of integers: vectors of the keys and of the values.
func drawMaps(t *rapid.T, rows int, key pb.Kind) (keys, values *vector.Vector) {
	keys = &vector.Vector{Type: spec.Type{Kind: key, List: true}, Rows: rows, Offsets: []int32{0}}
	inner := vector.Level{Offsets: []int32{0}, Valid: make([]uint64, vector.Words(8*rows))}
	values = &vector.Vector{Type: spec.Type{Kind: pb.Kind_INT64, List: true, Nested: 1}, Rows: rows}
	values.ElemValid, keys.ElemValid = make([]uint64, vector.Words(32*rows)), make([]uint64, vector.Words(8*rows))
	set := func(bits []uint64, i int) { bits[i>>6] |= 1 << (i & 63) }
	for range rows {
		for range rapid.IntRange(0, 5).Draw(t, "entries") {
			k := rapid.SampledFrom([]int64{0, 1, 2, -3, math.MaxInt32, math.MinInt32}).Draw(t, "key")
			keys.I64, keys.I32 = append(keys.I64, k), append(keys.I32, int32(k))
			keys.Ends = append(keys.Ends, int32(len(keys.Data)))
			keys.Data = fmt.Append(keys.Data, k)
			if rapid.IntRange(0, 5).Draw(t, "null key") > 0 {
				set(keys.ElemValid, len(keys.I64)-1)
			}
			if rapid.IntRange(0, 3).Draw(t, "null") > 0 {
				set(inner.Valid, len(keys.I64)-1)
				for range rapid.IntRange(0, 3).Draw(t, "elements") {
					values.I64 = append(values.I64, int64(len(values.I64)))
					if rapid.Bool().Draw(t, "element") {
						set(values.ElemValid, len(values.I64)-1)
					}
				}
			}
			inner.Offsets = append(inner.Offsets, int32(len(values.I64)))
		}
		keys.Offsets = append(keys.Offsets, int32(len(keys.I64)))
	}
	keys.Ends = append(keys.Ends, int32(len(keys.Data)))
	values.Offsets, values.Nested = keys.Offsets, []vector.Level{inner}
	return keys, values
}

// TestSelector: a key has the value of the last entry that bears it, whatever the keys' kind and however far apart those
// are that are looked for.
func TestSelector(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.IntRange(0, 70).Draw(t, "rows")
		kind := rapid.SampledFrom([]pb.Kind{pb.Kind_INT32, pb.Kind_INT64, pb.Kind_BINARY}).Draw(t, "kind")
		keys, values := drawMaps(t, rows, kind)
		s := decode.NewSelector(shown{keys}, kind, decode.NewAllowance(64<<20))
		e := s.Entries(shown{values})
		wanted := rapid.SampledFrom([][]int64{
			{0, 2, 7, -3, 2}, {0, math.MaxInt32, math.MinInt32, -3}, {math.MaxInt64, math.MinInt64, 1},
		}).Draw(t, "wanted")
		var picks []*decode.Pick
		for _, key := range wanted {
			p, err := e.Pick(fmt.Sprint(key), &pb.Type{Kind: pb.Kind_INT64, List: true})
			if err != nil {
				t.Fatal(err)
			}
			picks = append(picks, p)
		}
		if err := s.Find(rows); err != nil {
			t.Fatal(err)
		}
		if err := e.Load(rows); err != nil {
			t.Fatal(err)
		}
		all := rowtest.Of(values)
		for i, p := range picks {
			v, err := p.Read(rows)
			if err != nil {
				t.Fatal(err)
			}
			for row, got := range rowtest.Of(v) {
				var want any
				for j := keys.Offsets[row]; j < keys.Offsets[row+1]; j++ {
					if keys.I64[j] == wanted[i] && !keys.ElemIsNull(int(j)) {
						want = all[row].([]any)[j-keys.Offsets[row]]
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("row %d of key %d is %v, want %v", row, wanted[i], got, want)
				}
			}
		}
	})
}
