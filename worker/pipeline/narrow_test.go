package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
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
)

// identities is a file of int64 columns: a scalar without nulls, one with nulls, and a list. Values of a few rows need
// more than 32 bits, and pages that follow a full dictionary hold values.
func identities(t *testing.T, most int64, dictionary int64) []byte {
	ids := arrow.PrimitiveTypes.Int64
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "count", Type: ids}, {Name: "id", Type: ids, Nullable: true}, {
			Name: "ids", Type: arrow.ListOf(ids),
			Nullable: true,
		},
	}, nil)
	r := rand.New(rand.NewPCG(uint64(most), uint64(dictionary)))
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	list := b.Field(2).(*array.ListBuilder)
	for range 1500 {
		b.Field(0).(*array.Int64Builder).Append(r.Int64N(most))
		for _, f := range []array.Builder{b.Field(1), list} {
			if r.IntN(7) == 0 {
				f.AppendNull()
			} else if f == list {
				list.Append(true)
				for range r.IntN(5) {
					list.ValueBuilder().(*array.Int64Builder).Append(r.Int64N(most))
				}
			} else {
				f.(*array.Int64Builder).Append(r.Int64N(most))
			}
		}
	}
	return pipelinetest.Write(t, schema, slices.Values([]arrow.Record{b.NewRecord()}),
		parquet.WithDictionaryPageSizeLimit(dictionary), parquet.WithDataPageSize(500), parquet.WithBatchSize(100))
}

// anyReaders is a program in which the columns have readers of all sorts.
func anyReaders(t *rapid.T) *pb.Program {
	p := &pb.Program{
		Shuffle: rapid.Bool().Draw(t, "shuffle"),
		Filter:  rapid.SampledFrom([]string{"", "", "id > 100"}).Draw(t, "filter"),
	}
	var slots []uint32
	for i, name := range []string{"count", "id", "ids"} {
		p.Sources = append(p.Sources, &pb.Source{
			Name: name, Path: []string{name},
			Type: &pb.Type{Kind: pb.Kind_INT64, List: i == 2},
		})
		slots = append(slots, uint32(i))
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "steps") {
		in := rapid.SampledFrom(slots).Draw(t, fmt.Sprintf("in %d", i))
		switch op := rapid.SampledFrom([]string{"fill_null", "sigrid_hash", "first_x"}).Draw(t, "op"); {
		case op == "fill_null":
			slots = append(slots,
				step(p, op, map[string]*pb.Value{
					"value": num(rapid.SampledFrom([]int64{0, 9, -1, 1 << 40}).Draw(t, "fill")),
				}, in))
		case op == "sigrid_hash":
			slots = append(slots,
				step(p, op, map[string]*pb.Value{"max": num(rapid.SampledFrom([]int64{500, 1 << 50}).Draw(t, "max"))},
					in))
		case len(slots) > 2 && in == 2:
			slots = append(slots, step(p, op, map[string]*pb.Value{"x": num(3)}, in))
		}
	}
	for i, slot := range slots {
		o := &pb.Output{
			Name: fmt.Sprint("out", i), Layout: pb.Layout_SPARSE, Slots: []uint32{slot},
			Type: &pb.Type{Kind: pb.Kind_INT64},
		}
		switch rapid.IntRange(0, 5).Draw(t, o.GetName()) {
		case 0:
			continue
		case 1:
			if slot == 0 {
				o.Layout = pb.Layout_LABEL
			}
		case 2:
			if slot < 2 {
				o.Layout, o.Columns, o.Type = pb.Layout_DENSE, []string{"x"}, &pb.Type{Kind: pb.Kind_FLOAT32}
			}
		}
		p.Outputs = append(p.Outputs, o)
	}
	p.Provenance = true
	return p
}

// TestNarrowSources: streams are the same whether their decoder may make narrow vectors or not, whoever reads the
// columns.
func TestNarrowSources(t *testing.T) {
	var store pipelinetest.Store
	var tickets []*pb.Ticket
	for i, c := range [][2]int64{{1 << 10, 1 << 20}, {1 << 10, 3000}, {1 << 33, 1 << 20}, {1 << 20, 9000}} {
		f := store.Put(fmt.Sprintf("mem://%d.parquet", i), identities(t, c[0], c[1]))
		tickets = append(tickets, pipelinetest.Ticket(t, &store, f, 217))
	}
	p := newPipeline(&store, 5000)
	narrow := 0
	rapid.Check(t, func(rt *rapid.T) {
		program, ticket := anyReaders(rt), rapid.SampledFrom(tickets).Draw(rt, "ticket")
		var both [2][]string
		for i := range both {
			s, err := p.Open(t.Context(), ticket, program, Cursor{})
			if err != nil {
				rt.Fatal(err)
			}
			for source := range program.GetSources() {
				if e, ok := s.computer.chain.Early(source); i == 1 && ok && e.Narrow {
					e.Narrow = false
					s.computer.decoder.(formats.Early).TakeEarly(source, e)
					narrow++
				}
			}
			err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
				defer b.Release()
				rec := b.Record()
				for _, c := range rec.Columns() {
					both[i] = append(both[i], c.String())
				}
				return nil
			})
			if s.Close(); err != nil {
				rt.Fatal(err)
			}
		}
		if !slices.Equal(both[0], both[1]) {
			rt.Fatalf("with narrow vectors:\n%v\nwithout:\n%v", both[0], both[1])
		}
	})
	if narrow == 0 {
		t.Error("no program had a source that may be narrow")
	}
}
