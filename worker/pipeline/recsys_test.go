package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// recsys is the shape of a recommendation model's data: Criteo's (rm1), and two of PreSto (ISCA'24).
type recsys struct {
	name          string
	dense, sparse int
	length        int // of a sparse feature, on average
	buckets       int // features that are made of dense ones by bucketize
	borders       int
	rows, window  int // of the file, and of a window: about 4 MiB decoded
}

func recsysShapes() []recsys {
	return []recsys{
		{"rm1", 13, 26, 1, 13, 1024, 65536, 8192},
		{"rm2", 504, 42, 20, 21, 1024, 8192, 455},
		{"rm5", 504, 42, 20, 42, 4096, 8192, 455},
	}
}

func (m recsys) schema() *arrow.Schema {
	fields := []arrow.Field{{Name: "label", Type: arrow.PrimitiveTypes.Int32}}
	for i := range m.dense {
		fields = append(fields, arrow.Field{
			Name: fmt.Sprintf("int_%d", i), Type: arrow.PrimitiveTypes.Float32,
			Nullable: true,
		})
	}
	for i := range m.sparse {
		f := arrow.Field{Name: fmt.Sprintf("cat_%d", i), Type: arrow.PrimitiveTypes.Int64, Nullable: true}
		if m.length > 1 {
			f.Type = arrow.ListOf(arrow.PrimitiveTypes.Int64)
		}
		fields = append(fields, f)
	}
	return arrow.NewSchema(fields, nil)
}

// parquet writes the shape's file: counts with a null in eight, and ids of which few are frequent.
func (m recsys) parquet(t testing.TB) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	ids := rand.NewZipf(r, 1.2, 1, 1<<20)
	b := array.NewRecordBuilder(memory.DefaultAllocator, m.schema())
	defer b.Release()
	for _, f := range b.Fields() {
		for range m.rows {
			switch f := f.(type) {
			case *array.Int32Builder:
				f.Append(int32(r.IntN(2)))
			case *array.Float32Builder:
				if r.IntN(8) == 0 {
					f.AppendNull()
				} else {
					f.Append(float32(math.Floor(math.Exp(6 * r.Float64()))))
				}
			case *array.Int64Builder:
				f.Append(int64(ids.Uint64()))
			case *array.ListBuilder:
				f.Append(true)
				for range r.IntN(2 * m.length) {
					f.ValueBuilder().(*array.Int64Builder).Append(int64(ids.Uint64()))
				}
			}
		}
	}
	return pipelinetest.Write(t, m.schema(), slices.Values([]arrow.Record{b.NewRecord()}),
		parquet.WithCompression(compress.Codecs.Snappy), parquet.WithDataPageVersion(parquet.DataPageV2))
}

// program fills and takes logarithms of the dense features, hashes the sparse ones, and makes buckets.
func (m recsys) program() *pb.Program {
	p := &pb.Program{}
	for i, f := range m.schema().Fields() {
		typ := &pb.Type{Kind: pb.Kind_FLOAT32}
		switch {
		case i == 0:
			typ.Kind = pb.Kind_INT32
		case i > m.dense:
			typ.Kind, typ.List = pb.Kind_INT64, m.length > 1
		}
		p.Sources = append(p.Sources, &pb.Source{Name: f.Name, Path: []string{f.Name}, Type: typ})
	}
	dense := &pb.Output{Name: "dense", Layout: pb.Layout_DENSE, Type: &pb.Type{Kind: pb.Kind_FLOAT32}}
	filled := make([]uint32, m.dense)
	for i := range filled {
		filled[i] = step(p, "fill_null", map[string]*pb.Value{"value": num(0)}, uint32(1+i))
	}
	for i, slot := range filled {
		dense.Slots = append(dense.Slots, step(p, "log1p", nil, slot))
		dense.Columns = append(dense.Columns, p.GetSources()[1+i].GetName())
	}
	p.Outputs = []*pb.Output{dense}
	sparse := func(name string, slot uint32) {
		p.Outputs = append(p.Outputs, &pb.Output{
			Name: name, Layout: pb.Layout_SPARSE, Slots: []uint32{slot},
			Type: &pb.Type{Kind: pb.Kind_INT64},
		})
	}
	for i := range m.sparse {
		slot := uint32(1 + m.dense + i)
		sparse(p.GetSources()[slot].GetName(),
			step(p, "sigrid_hash", map[string]*pb.Value{"salt": num(int64(i)), "max": num(1_000_000)}, slot))
	}
	for i := range m.buckets {
		sparse(fmt.Sprintf("bucket_%d", i), step(p, "bucketize", map[string]*pb.Value{"borders": m.spread()},
			filled[i]))
	}
	p.Outputs = append(p.Outputs, &pb.Output{
		Name: "label", Layout: pb.Layout_LABEL, Slots: []uint32{0},
		Type: &pb.Type{Kind: pb.Kind_INT32},
	})
	return p
}

// spread are borders over the range of the dense features.
func (m recsys) spread() *pb.Value {
	borders := make([]float64, m.borders)
	for i := range borders {
		borders[i] = math.Exp(6 * float64(i) / float64(m.borders))
	}
	return spec.FloatsOf(borders)
}

// BenchmarkRecsys is one stream of each shape from bytes in memory to batches.
func BenchmarkRecsys(b *testing.B) {
	for _, m := range recsysShapes() {
		b.Run(m.name, func(b *testing.B) {
			var store pipelinetest.Store
			data := m.parquet(b)
			ticket := pipelinetest.Ticket(b, &store, store.Put("mem://f.parquet", data), int64(m.window))
			const times = 8 // the row group is read, so that opening the stream counts for little
			ticket.Extents = slices.Repeat(ticket.GetExtents(), times)
			benchStream(b, &store, ticket, m.program(), times*m.rows)
		})
	}
}
