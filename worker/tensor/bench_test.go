package tensor

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

const benchRows = 16 << 10

// BenchmarkBuild lays out 13 dense columns, 64, which are more than a cache holds, and lists of 4 ids without and with
// nulls, as they are, in one shape, and padded: in order and shuffled, in nanoseconds of a value.
func BenchmarkBuild(b *testing.B) {
	dense := make([]*vector.Vector, 64)
	slots := make([]uint32, len(dense))
	for i := range dense {
		dense[i], slots[i] = benchScalars(), uint32(i)
	}
	nulls := benchLists()
	nulls.ElemValid = make([]uint64, vector.Words(4*benchRows))
	for i := range nulls.ElemValid {
		nulls.ElemValid[i] = 0x7f7f7f7f7f7f7f7f
	}
	r := rand.New(rand.NewPCG(1, 2))
	shuffled := make([]int32, benchRows)
	for i, row := range r.Perm(benchRows) {
		shuffled[i] = int32(row)
	}
	for _, c := range []struct {
		name   string
		out    *pb.Output
		slots  []*vector.Vector
		values int
	}{
		{"dense", tensorOf(pb.Layout_DENSE, pb.Kind_FLOAT32, slots[:13]...), dense, 13 * benchRows},
		{"dense of 64", tensorOf(pb.Layout_DENSE, pb.Kind_FLOAT32, slots...), dense, 64 * benchRows},
		{"sparse", tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0), []*vector.Vector{benchLists()}, 4 * benchRows},
		{"sparse with nulls", tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0), []*vector.Vector{nulls}, 4 * benchRows},
		{
			"tensor", withShape(tensorOf(pb.Layout_TENSOR, pb.Kind_INT64, 0), 4),
			[]*vector.Vector{benchLists()},
			4 * benchRows,
		},
		{
			"padded", withShape(tensorOf(pb.Layout_PADDED, pb.Kind_INT64, 0), 10),
			[]*vector.Vector{benchLists()},
			10 * benchRows,
		},
		{"label", tensorOf(pb.Layout_LABEL, pb.Kind_FLOAT32, 0), dense[:1], benchRows},
	} {
		for name, order := range map[string][]int32{"in order": nil, "shuffled": shuffled} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				builder, err := NewBuilder(program(c.out, c.slots), 1)
				if err != nil {
					b.Fatal(err)
				}
				w := &Window{Slots: c.slots, Rows: benchRows, Order: order, File: &pb.File{}}
				p := builder.Cut(w, 0, benchRows, math.MaxInt64)
				b.ReportAllocs()
				for b.Loop() {
					batch, err := builder.Take(b.Context())
					if err == nil {
						err = builder.Build(batch, w, p)
					}
					if err != nil {
						b.Fatal(err)
					}
					batch.Release()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.values), "ns/element")
			})
		}
	}
}

func benchScalars() *vector.Vector {
	return &vector.Vector{Type: spec.Type{Kind: pb.Kind_FLOAT32}, Rows: benchRows, F32: make([]float32, benchRows)}
}

func benchLists() *vector.Vector {
	v := &vector.Vector{
		Type: spec.Type{Kind: pb.Kind_INT64, List: true}, Rows: benchRows,
		I64: make([]int64, 4*benchRows), Offsets: make([]int32, benchRows+1),
	}
	for i := range v.Offsets {
		v.Offsets[i] = int32(4 * i)
	}
	return v
}
