package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/columns"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// columnsOf writes a row group of random numbers, which are the more in number the more kinds there are, and a program that shows them.
func columnsOf(t *testing.T, n, rows, kinds int, options ...parquet.WriterProperty) ([]byte, *pb.Program) {
	t.Helper()
	p := &pb.Program{}
	dense := &pb.Output{Name: "dense", Layout: pb.Layout_DENSE, Type: &pb.Type{Kind: pb.Kind_FLOAT32}}
	fields := make([]arrow.Field, n)
	for i := range fields {
		name := fmt.Sprintf("c%d", i)
		fields[i] = arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float64}
		p.Sources = append(p.Sources, &pb.Source{Name: name, Path: []string{name}, Type: &pb.Type{Kind: pb.Kind_FLOAT64}})
		dense.Slots, dense.Columns = append(dense.Slots, uint32(i)), append(dense.Columns, name)
	}
	p.Outputs = []*pb.Output{dense}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range b.Fields() {
		for range rows {
			f.(*array.Float64Builder).Append(float64(r.IntN(kinds)) * 1.25)
		}
	}
	return pipelinetest.Write(t, b.Schema(), slices.Values([]arrow.Record{b.NewRecord()}), append(options, parquet.WithCompression(compress.Codecs.Snappy))...), p
}

// Who gives a worker the memory that its error asks for has a worker that reads the file.
func TestMemoryThatIsAskedForIsEnough(t *testing.T) {
	const n, rows = 80, 8000
	for _, kinds := range []int{50, 3000, 1 << 40} {
		for name, option := range map[string]parquet.WriterProperty{
			"dictionaries": parquet.WithDictionaryDefault(true), "values": parquet.WithDictionaryDefault(false), "short pages": parquet.WithDataPageSize(4 << 10),
		} {
			var store pipelinetest.Store
			data, program := columnsOf(t, n, rows, kinds, option)
			ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", data), 500)
			read := func(memory int64) error {
				p := New(Config{Storage: &store, Ops: transform.Builtin(), Memory: memory, Streams: 2, BatchBytes: 64 << 10, MaxBatch: 1 << 20, OverRead: 16 << 10, Patience: time.Minute})
				s, err := p.Open(t.Context(), ticket, program, Cursor{})
				if err != nil {
					return err
				}
				defer s.Close()
				return s.Run(t.Context(), func(_ context.Context, b Batch) error { b.Release(); return nil })
			}
			errs := 0
			for mib := int64(1); ; mib *= 2 {
				err := read(mib << 20)
				if err == nil {
					break
				}
				errs++
				asked := regexp.MustCompile(`--memory (\d+)MiB or more`).FindStringSubmatch(fmt.Sprint(err))
				if !errors.Is(err, columns.ErrMemory) || asked == nil {
					t.Fatalf("%s of %d kinds: %v with %d MiB; want an error that says how much is enough", name, kinds, err, mib)
				}
				enough, _ := strconv.ParseInt(asked[1], 10, 64)
				if err := read(enough << 20); err != nil {
					t.Errorf("%s of %d kinds: with %d MiB, %d MiB are asked for, and with these: %v", name, kinds, mib, enough, err)
				}
			}
			if errs == 0 {
				t.Errorf("%s of %d kinds: 1 MiB is enough", name, kinds)
			}
		}
	}
}

// Marks take four bytes each, and no more than that is taken for them.
func TestMemoryOfMarks(t *testing.T) {
	const rows, size = 300, 1 << 12
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", pipelinetest.Parquet(t, 1, 2*rows)), rows)
	program := pipelinetest.Program()
	program.Outputs = program.Outputs[:2]
	marks := step(program, "onehot", map[string]*pb.Value{"size": num(size)}, pipelinetest.IDs)
	program.Outputs[1] = &pb.Output{Name: "marks", Layout: pb.Layout_SPARSE, Slots: []uint32{marks}, Type: &pb.Type{Kind: pb.Kind_FLOAT32}}
	s, err := newPipeline(&store, 1<<20).Open(t.Context(), ticket, program, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := s.holds.results
	if err := s.Run(t.Context(), func(_ context.Context, b Batch) error { b.Release(); return nil }); err != nil {
		t.Fatal(err)
	}
	if bytes := int64(4 * rows * size); before < bytes || before > bytes+bytes/10 || s.holds.results != before {
		t.Errorf("%d bytes were taken for results and %d came to be held; want about %d", before, s.holds.results, bytes)
	}
}
