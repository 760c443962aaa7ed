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
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// columnsOf writes a row group of random numbers, which are the more in number the more kinds there are, and a program
// that shows them.
func columnsOf(t *testing.T, n, rows, kinds int, options ...parquet.WriterProperty) ([]byte, *pb.Program) {
	t.Helper()
	p := &pb.Program{}
	dense := &pb.Output{Name: "dense", Layout: pb.Layout_DENSE, Type: &pb.Type{Kind: pb.Kind_FLOAT32}}
	fields := make([]arrow.Field, n)
	for i := range fields {
		name := fmt.Sprintf("c%d", i)
		fields[i] = arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float64}
		p.Sources = append(p.Sources, &pb.Source{
			Name: name, Path: []string{name},
			Type: &pb.Type{Kind: pb.Kind_FLOAT64},
		})
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
	return pipelinetest.Write(t, b.Schema(), slices.Values([]arrow.Record{b.NewRecord()}),
		append(options, parquet.WithCompression(compress.Codecs.Snappy))...), p
}

// Who gives a worker the memory that its error asks for has a worker that reads the file.
func TestMemoryThatIsAskedForIsEnough(t *testing.T) {
	const n, rows = 80, 8000
	for _, kinds := range []int{50, 3000, 1 << 40} {
		for name, option := range map[string]parquet.WriterProperty{
			"dictionaries": parquet.WithDictionaryDefault(true), "values": parquet.WithDictionaryDefault(false),
			"short pages": parquet.WithDataPageSize(4 << 10),
		} {
			var store pipelinetest.Store
			data, program := columnsOf(t, n, rows, kinds, option)
			ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", data), 500)
			with := func(memory int64) error {
				p := New(Config{
					Storage: &store, Ops: transform.Builtin(), Memory: memory, Streams: 2,
					BatchBytes: 64 << 10, MaxBatch: 1 << 20, OverRead: 16 << 10, Patience: time.Minute,
				})
				_, err := read(t.Context(), p, ticket, program)
				return err
			}
			errs := 0
			for mib := int64(1); ; mib *= 2 {
				err := with(mib << 20)
				if err == nil {
					break
				}
				errs++
				asked := regexp.MustCompile(`--memory (\d+)MiB or more`).FindStringSubmatch(fmt.Sprint(err))
				if !errors.Is(err, ErrLimit) || asked == nil {
					t.Fatalf("%s of %d kinds: %v with %d MiB; want an error that says how much is enough",
						name, kinds, err, mib)
				}
				enough, _ := strconv.ParseInt(asked[1], 10, 64)
				if err := with(enough << 20); err != nil {
					t.Errorf("%s of %d kinds: with %d MiB, %d MiB are asked for, and with these: %v",
						name, kinds, mib, enough, err)
				}
			}
			if errs == 0 {
				t.Errorf("%s of %d kinds: 1 MiB is enough", name, kinds)
			}
		}
	}
}

// swelling is a kernel whose results are as large as it says.
type swelling struct {
	bytes func() int64
	runs  int
}

func (k *swelling) Size([]*vector.Vector) (int64, error) { return k.bytes(), nil }

func (k *swelling) Run(out *vector.Vector, in []*vector.Vector) error {
	k.runs++
	out.I32 = make([]int32, in[0].Rows, k.bytes()/4)
	return nil
}

// openSwelling opens a stream of three windows with a step that swells.
func openSwelling(t *testing.T, k *swelling) *Stream {
	t.Helper()
	program := pipelinetest.Program()
	program.Outputs[1].Slots[0] = step(program, "sigrid_hash", map[string]*pb.Value{"salt": num(3), "max": num(1000)},
		pipelinetest.IDs)
	program.Outputs[3].Slots[0] = uint32(len(program.Sources)) + 1
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", pipelinetest.Parquet(t, 1, 900)), 300)
	p := withOp(t, &store, program, pb.Kind_INT32, k, pipelinetest.Label)
	s, err := p.Open(t.Context(), ticket, program, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// A result that swells is made only where there is memory for it beside the other steps' results, and it is counted
// once, however many windows have one.
func TestMemoryOfResultsThatSwell(t *testing.T) {
	drop := func(_ context.Context, b Batch) error { b.Release(); return nil }
	k := &swelling{}
	s := openSwelling(t, k)
	k.bytes = func() int64 {
		return s.pipeline.MemoryLimit() - s.pipeline.MemoryInUse() + s.computer.expects.results/2
	}
	if err := s.Run(t.Context(), drop); !errors.Is(err, ErrLimit) || k.runs != 0 {
		t.Errorf("%v; the step ran %d times", err, k.runs)
	}
	const bytes = 1 << 20
	k = &swelling{bytes: func() int64 { return bytes }}
	s = openSwelling(t, k)
	before := s.computer.holds.results
	if err := s.Run(t.Context(), drop); err != nil || k.runs != 3 {
		t.Errorf("%v; the step ran %d times", err, k.runs)
	}
	if more := s.computer.holds.results - before; before == 0 || more < bytes || more > bytes+before {
		t.Errorf("%d bytes more are counted for results of %d, beside %d", more, bytes, before)
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
	program.Outputs[1] = &pb.Output{
		Name: "marks", Layout: pb.Layout_SPARSE, Slots: []uint32{marks},
		Type: &pb.Type{Kind: pb.Kind_FLOAT32},
	}
	s, err := newPipeline(&store, 1<<20).Open(t.Context(), ticket, program, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := s.computer.holds.results
	if err := s.Run(t.Context(), func(_ context.Context, b Batch) error { b.Release(); return nil }); err != nil {
		t.Fatal(err)
	}
	after := s.computer.holds.results
	if bytes := int64(4 * rows * size); before < bytes || before > bytes+bytes/10 || after != before {
		t.Errorf("%d bytes were taken for results and %d came to be held; want about %d", before, after, bytes)
	}
}
