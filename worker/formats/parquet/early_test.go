package parquet

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/parquet"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// oneValue is a vector of one value of a kind; nil: the kind has none of fixed width.
func oneValue(kind pb.Kind) *vector.Vector {
	v := &vector.Vector{Type: spec.Type{Kind: kind}, Rows: 1}
	switch kind {
	case pb.Kind_INT32:
		v.I32 = []int32{-7}
	case pb.Kind_INT64:
		v.I64 = []int64{-7}
	case pb.Kind_FLOAT32:
		v.F32 = []float32{-0.5}
	case pb.Kind_FLOAT64:
		v.F64 = []float64{-0.5}
	default:
		return nil
	}
	return v
}

func change(dst, src []int64) {
	for i, x := range src {
		dst[i] = 3*x + 1
	}
}

// takeLate does to a vector what the decoder was to do.
func takeLate(v *vector.Vector, e vector.Early) *vector.Vector {
	out := *v
	if e.Fill == nil && e.Change == nil {
		return v
	}
	if e.Change != nil {
		out.I64 = make([]int64, v.Len())
		change(out.I64, v.I64)
		return &out
	}
	fillLate(v, v.I32, e.Fill.I32, &out.I32)
	fillLate(v, v.I64, e.Fill.I64, &out.I64)
	fillLate(v, v.F32, e.Fill.F32, &out.F32)
	fillLate(v, v.F64, e.Fill.F64, &out.F64)
	if out.ElemValid = nil; !v.Type.List {
		out.Valid = nil
	}
	return &out
}

func fillLate[T any](v *vector.Vector, values, fill []T, out *[]T) {
	*out = make([]T, len(values))
	for j := range values {
		if (*out)[j] = values[j]; v.ElemIsNull(j) {
			(*out)[j] = fill[0]
		}
	}
}

// TestTakeEarly: a step that the decoder takes gives what it gives of the values, whatever the encoding, with nulls and
// without.
func TestTakeEarly(t *testing.T) {
	taken := map[string]int{}
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 12))
		data := writeTable(t, randomTable(seed, testSchema(), 900), 700, parquet.WithDataPageSize(400),
			parquet.WithBatchSize(50),
			parquet.WithDataPageVersion([]parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2}[seed&1]),
			parquet.WithStats(false),
			parquet.WithCompression(oneOf(r, testCodecs[:2]...)),
			parquet.WithDictionaryPageSizeLimit([]int64{200, 1 << 20}[seed>>1&1]),
			parquet.WithDictionaryDefault(seed < 4))
		f, err := readFooter(data)
		if err != nil {
			t.Fatal(err)
		}
		sources := sourcesOf(f)
		d, all := NewDecoder(sources, testMemory), NewDecoder(sources, testMemory)
		early := map[int]vector.Early{}
		for i, s := range sources {
			e := vector.Early{Fill: oneValue(s.GetType().GetKind())}
			if s.GetType().GetKind() == pb.Kind_INT64 && r.IntN(2) == 0 {
				e = vector.Early{Change: change}
			}
			if s.GetType().GetKind() == pb.Kind_INT64 && r.IntN(2) == 0 {
				e.Narrow = true
				if r.IntN(3) == 0 {
					e.Fill, e.Change = nil, nil
				} else if e.Fill != nil {
					e.Fill.I64[0] = 1
				}
			}
			if e.Fill != nil || e.Change != nil || e.Narrow {
				early[i] = e
				d.TakeEarly(i, e)
			}
		}
		for rg := range f.RowGroups {
			resetBoth(t, f, rg, data, d, all)
			for left := int(f.RowGroups[rg].Rows); left > 0; {
				n := 1 + r.IntN(min(left, 150))
				left -= n
				got, want := nextOfBoth(t, r, n, d, all)
				for i := range got {
					if got[i].U32 != nil {
						if !early[i].Narrow || !got[i].Early {
							t.Fatalf("seed %d: values of %s are narrow for those who take no such",
								seed, sources[i].GetName())
						}
						taken["narrow"]++
						wide := *got[i]
						wide.I64 = widened(got[i])
						got[i] = &wide
					}
					if got[i].Early {
						taken[fmt.Sprintf("%v, fill %v", got[i].Type, early[i].Fill != nil)]++
						want[i] = takeLate(want[i], early[i])
					}
				}
				if got != nil {
					same(t, fmt.Sprintf("seed %d, row group %d, %d rows left", seed, rg, left), sources, got, want)
				}
			}
		}
	}
	if taken["narrow"] == 0 {
		t.Errorf("never narrow; taken: %v", taken)
	}
	for _, list := range []bool{false, true} {
		for _, fill := range []bool{false, true} {
			if what := fmt.Sprintf("%v, fill %v", spec.Type{Kind: pb.Kind_INT64, List: list}, fill); taken[what] == 0 {
				t.Errorf("never taken: %s; taken: %v", what, taken)
			}
		}
	}
}

// A column that two sources show takes no step of one of them.
func TestTakeEarlyOfShared(t *testing.T) {
	f, err := readFooter(writeTable(t, smallTable(10), 10))
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder([]*pb.Source{source("i", pb.Kind_INT32, false), source("i", pb.Kind_INT32, false)}, testMemory)
	d.TakeEarly(0, vector.Early{Fill: oneValue(pb.Kind_INT32)})
	b, err := d.boundTo(f)
	if err == nil {
		err = d.bind(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if c := d.columns[d.bound.Bindings[0].Value]; c.out.Early {
		t.Error("the column of two sources took the step of one")
	}
}
