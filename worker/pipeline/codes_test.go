package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// sales writes rows of a country of 200, a shop of 5000 and a price, in dictionaries of at most so many bytes; 0: in
// none.
func sales(t testing.TB, rows int, dictionary int64, version parquet.DataPageVersion) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "country", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "shop", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "price", Type: arrow.PrimitiveTypes.Float32},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	r := rand.New(rand.NewPCG(4, 4))
	for range rows {
		if country := r.IntN(210); country < 200 {
			b.Field(0).(*array.StringBuilder).Append(fmt.Sprintf("the country of number %d", country))
		} else {
			b.Field(0).AppendNull()
		}
		if shop := r.IntN(5100); shop < 5000 {
			b.Field(1).(*array.Int64Builder).Append(int64(shop))
		} else {
			b.Field(1).AppendNull()
		}
		b.Field(2).(*array.Float32Builder).Append(r.Float32())
	}
	return pipelinetest.Write(t, schema, slices.Values([]arrow.Record{b.NewRecord()}),
		parquet.WithDictionaryDefault(dictionary > 0), parquet.WithDictionaryPageSizeLimit(dictionary),
		parquet.WithDataPageVersion(version), parquet.WithBatchSize(512), parquet.WithDataPageSize(1<<16))
}

// salesProgram filters sales and shows prices, and the filter's columns too if they are shown.
func salesProgram(filter string, shown bool) *pb.Program {
	p := &pb.Program{Filter: filter, Provenance: true, Outputs: []*pb.Output{
		{Name: "price", Layout: pb.Layout_LABEL, Slots: []uint32{2}, Type: &pb.Type{Kind: pb.Kind_FLOAT32}},
	}}
	p.Sources = append(p.Sources,
		&pb.Source{Name: "country", Path: []string{"country"}, Type: &pb.Type{Kind: pb.Kind_BINARY}},
		&pb.Source{Name: "shop", Path: []string{"shop"}, Type: &pb.Type{Kind: pb.Kind_INT64}},
		&pb.Source{Name: "price", Path: []string{"price"}, Type: &pb.Type{Kind: pb.Kind_FLOAT32}})
	if shown {
		p.Outputs = append(p.Outputs,
			&pb.Output{
				Name: "country", Layout: pb.Layout_BYTES, Slots: []uint32{0},
				Type: &pb.Type{Kind: pb.Kind_BINARY},
			},
			&pb.Output{Name: "shop", Layout: pb.Layout_SPARSE, Slots: []uint32{1}, Type: &pb.Type{Kind: pb.Kind_INT64}})
	}
	return p
}

// TestFilterOnCodes: rows are the same whether columns lie in dictionaries, in part or as values.
func TestFilterOnCodes(t *testing.T) {
	const rows = 1600
	var store pipelinetest.Store
	var tickets []*pb.Ticket
	for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
		for _, dictionary := range []int64{0, 3000, 1 << 20} {
			uri := fmt.Sprintf("mem://f%d.parquet", len(tickets))
			tickets = append(tickets,
				pipelinetest.Ticket(t, &store, store.Put(uri, sales(t, rows, dictionary, version)), 300))
		}
	}
	ctx := t.Context()
	anyTest := rapid.Custom(func(t *rapid.T) string {
		op := rapid.SampledFrom([]string{"==", "!=", "<", "<=", ">", ">="}).Draw(t, "op")
		n := rapid.IntRange(0, 250).Draw(t, "n")
		return rapid.SampledFrom([]string{
			fmt.Sprintf("country %s 'the country of number %d'",
				op, n), fmt.Sprintf("country not in ('the country of number %d', 'none')", n),
			fmt.Sprintf("shop %s %d", op, n*25), fmt.Sprintf("shop in (%d, %d, 7000)", n, n*20), "country is null",
			"shop is not null",
		}).Draw(t, "test")
	})
	rapid.Check(t, func(t *rapid.T) {
		filter := anyTest.Draw(t, "first")
		if rapid.Bool().Draw(t, "two") {
			filter = fmt.Sprintf(rapid.SampledFrom([]string{"%s and %s", "%s or %s", "not (%s or %s)"}).Draw(t,
				"junction"), filter, anyTest.Draw(t, "second"))
		}
		program := salesProgram(filter, rapid.Bool().Draw(t, "shown"))
		var want []row
		for i, ticket := range tickets {
			got, _, err := collect(ctx, newPipeline(&store, 4096), ticket, program, Cursor{})
			if err != nil {
				t.Fatalf("%s: %v", filter, err)
			}
			if i == 0 {
				want = got
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %d rows of %s, %d of the file of values", filter, len(got), ticket.GetFile().GetUri(),
					len(want))
			}
		}
	})
}

// BenchmarkFilterOnCodes chooses rows by columns that lie in dictionaries, and as it was done before: by their values.
func BenchmarkFilterOnCodes(b *testing.B) {
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(b, &store,
		store.Put("mem://f.parquet", sales(b, benchRows, 1<<20, parquet.DataPageV2)), 8192)
	for _, c := range []struct{ name, filter string }{
		{
			"text, 2%",
			"country in ('the country of number 3', 'the country of number 44', 'the country of number 101', 'the " +
				"country of number 199')",
		},
		{"text, none", "country == 'nowhere at all'"},
		{"int64, 2%", "shop < 100"},
		{"int64, none", "shop == 5001"},
		{"both", "shop < 2500 and country > 'the country of number 5'"},
	} {
		for _, way := range []string{"codes", "values"} {
			b.Run(c.name+"/"+way, func(b *testing.B) {
				benchChoice(b, &store, ticket, salesProgram(c.filter, false), way == "codes")
			})
		}
	}
}

// benchChoice runs a stream that shows the filter's columns as codes, or as values.
func benchChoice(b *testing.B, store *pipelinetest.Store, ticket *pb.Ticket, program *pb.Program, codes bool) {
	b.ReportAllocs()
	p := New(Config{Storage: store, Ops: transform.Builtin(), Memory: 1 << 30, BatchBytes: 1 << 20, MaxBatch: 1 << 28})
	for b.Loop() {
		s, err := p.Open(b.Context(), ticket, program, Cursor{})
		if err != nil {
			b.Fatal(err)
		}
		if !codes {
			s.computer.decoder.(formats.Late).DecodeFirst(s.computer.filter.Columns())
		}
		err = s.Run(b.Context(), func(_ context.Context, b Batch) error { b.Release(); return nil })
		s.Close()
		if err != nil {
			b.Fatal(err)
		}
	}
	c := p.Counters()
	b.ReportMetric(float64(c.DecodeNs)/float64(b.N)/benchRows, "ns-decode/row")
	b.ReportMetric(float64(c.TransformNs)/float64(b.N)/benchRows, "ns-choose/row")
}
