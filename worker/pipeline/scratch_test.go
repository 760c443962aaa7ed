package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// uneven writes rows of four ids beside many numbers, of which one row has very many ids, and a program without steps
// that shows nothing but the first number.
func uneven(t *testing.T, rows, long int) ([]byte, *pb.Program) {
	const numbers = 30
	fields := []arrow.Field{{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)}}
	p := &pb.Program{Sources: []*pb.Source{{
		Name: "ids", Path: []string{"ids"},
		Type: &pb.Type{Kind: pb.Kind_INT64, List: true},
	}}}
	for i := range numbers {
		name := fmt.Sprintf("c%d", i)
		fields = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float64})
		p.Sources = append(p.Sources, &pb.Source{
			Name: name, Path: []string{name},
			Type: &pb.Type{Kind: pb.Kind_FLOAT64},
		})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	ids := b.Field(0).(*array.ListBuilder)
	for row := range rows {
		ids.Append(true)
		n := 4
		if row == rows/2 {
			n = long
		}
		for i := range n {
			ids.ValueBuilder().(*array.Int64Builder).Append(int64(i))
		}
		for i := range numbers {
			b.Field(1 + i).(*array.Float64Builder).Append(float64(row))
		}
	}
	p.Outputs = []*pb.Output{{
		Name: "c0", Layout: pb.Layout_DENSE, Slots: []uint32{1}, Columns: []string{"c0"},
		Type: &pb.Type{Kind: pb.Kind_FLOAT32},
	}}
	return pipelinetest.Write(t, b.Schema(), slices.Values([]arrow.Record{b.NewRecord()})), p
}

// seeing is a kernel that calls who wants to see its input.
type seeing struct{ see func(v *vector.Vector) }

func (k seeing) Run(out *vector.Vector, in []*vector.Vector) error {
	k.see(in[0])
	out.F32 = vector.Grow(out.F32, out.Rows)
	clear(out.F32)
	return nil
}

// withOp is a pipeline that knows an op more, which makes numbers of a kind, and the program gets a step of it on a
// slot.
func withOp(
	t *testing.T, store *pipelinetest.Store, p *pb.Program, kind pb.Kind, k transform.Kernel, slot uint32,
) *Pipeline {
	ops, err := transform.Builtin().With(transform.Op{
		Name: "own", Version: 1,
		Infer: func(transform.Params, []spec.Type) (spec.Type, error) { return spec.Type{Kind: kind}, nil },
		New:   func(transform.Params, []spec.Type) (transform.Kernel, error) { return k, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Steps = append(p.Steps, &pb.Step{
		At: "transforms", Op: "own", Version: 1, Name: "own", In: []uint32{slot},
		Outs: 1, Type: &pb.Type{Kind: kind},
	})
	pipeline := newPipeline(store, 10_000)
	pipeline.cfg.Ops = ops
	return pipeline
}

// What steps make of a column that is far larger than expected is counted before it is made, however small the column
// is beside the others.
func TestResultsOfALongListAreCountedFirst(t *testing.T) {
	const rows, long, hashes = 4000, 200_000, 8
	var store pipelinetest.Store
	data, program := uneven(t, rows, long)
	seen := 0
	var p *Pipeline
	k := seeing{func(v *vector.Vector) {
		if v.Len() > long {
			seen++
			if want := int64(8 * long * (hashes + 1)); p.MemoryInUse() < want {
				t.Errorf("%d bytes are in use; the ids and what is made of them take %d", p.MemoryInUse(), want)
			}
		}
	}}
	p = withOp(t, &store, program, pb.Kind_FLOAT32, k, 0)
	for salt := range hashes {
		hash := step(program, "sigrid_hash", map[string]*pb.Value{"salt": num(int64(salt)), "max": num(1000)}, 0)
		program.Outputs = append(program.Outputs, &pb.Output{
			Name: fmt.Sprint(salt), Layout: pb.Layout_SPARSE,
			Slots: []uint32{hash}, Type: &pb.Type{Kind: pb.Kind_INT64},
		})
	}
	p.cfg.MaxBatch = 32 << 20
	n, err := read(t.Context(), p, pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", data), 500), program)
	if err != nil || n != rows || seen != 1 {
		t.Errorf("%d rows, %v; the list came %d times", n, err, seen)
	}
}

// read reads a stream to its end.
func read(ctx context.Context, p *Pipeline, ticket *pb.Ticket, program *pb.Program) (rows int, err error) {
	s, err := p.Open(ctx, ticket, program, Cursor{})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	err = s.Run(ctx, func(_ context.Context, b Batch) error {
		rows += int(b.Meta.GetRows())
		b.Release()
		return nil
	})
	return rows, err
}

// Numbers made of lists take what numbers take, and the tables that they are made with are counted.
func TestMemoryOfComparisons(t *testing.T) {
	const rows, long, steps = 4000, 50_000, 10
	var store pipelinetest.Store
	data, program := uneven(t, rows, long)
	for range steps {
		jaccard := step(program, "jaccard_similarity", nil, 0, 0)
		program.Outputs[0].Slots, program.Outputs[0].Columns = append(program.Outputs[0].Slots, jaccard),
			append(program.Outputs[0].Columns, "j")
	}
	s, err := newPipeline(&store, 10_000).Open(t.Context(),
		pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", data), 500), program, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if most := int64(steps * 6 * 500); s.computer.holds.results > 2*most {
		t.Errorf("%d bytes are expected of %d numbers for each of 500 rows", s.computer.holds.results, steps)
	}
	if err := s.Run(t.Context(), func(_ context.Context, b Batch) error { b.Release(); return nil }); err != nil {
		t.Fatal(err)
	}
	counted, kept := s.computer.holds.scratch, s.computer.chain.Scratch()
	if table := int64(16 * long); counted < steps*table || kept > counted {
		t.Errorf("%d bytes are counted, and %d kept, of %d tables of %d ids", counted, kept, steps, long)
	}
}

// One long row among many takes what it is in batches, not that for all that a stream may have.
func TestMemoryOfOneLongRow(t *testing.T) {
	const long = 4 << 20
	var store pipelinetest.Store
	data := pipelinetest.Texts(t, 1<<20, func(row int) string {
		if row == 1500 {
			return strings.Repeat("long", long/4)
		}
		return "short"
	}, 3000)
	program := &pb.Program{
		Sources: []*pb.Source{{Name: "text", Path: []string{"text"}, Type: &pb.Type{Kind: pb.Kind_BINARY}}},
		Outputs: []*pb.Output{{
			Name: "text", Layout: pb.Layout_BYTES, Slots: []uint32{0},
			Type: &pb.Type{Kind: pb.Kind_BINARY},
		}},
	}
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", data), 500)
	for _, compressed := range []bool{false, true} {
		p := newPipeline(&store, 10_000)
		p.cfg.MaxBatch = 2 * long
		s, err := p.Open(t.Context(), ticket, program, Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		copies := int64(1)
		if compressed {
			s.Compress()
			copies += HandedOver
		}
		if err := s.Run(t.Context(), func(_ context.Context, b Batch) error { b.Release(); return nil }); err != nil {
			t.Fatal(err)
		}
		batches := s.computer.holds.longer + HandedOver*(s.computer.holds.packed-s.computer.batch)
		if want := copies * long; batches < want-want/10 || batches > want+want/4 {
			t.Errorf("compressed %v: %d bytes are taken for batches; one has %d", compressed, batches, long)
		}
		s.Close()
	}
}

// What is read ahead does not keep a stream from memory that it needs: it begins anew without.
func TestReadAheadGivesWay(t *testing.T) {
	const rows, groups = 3000, 60
	var store pipelinetest.Store
	data := pipelinetest.Texts(t, 64<<10, noise(100), slices.Repeat([]int{rows}, groups)...)
	program := &pb.Program{
		Sources: []*pb.Source{{Name: "text", Path: []string{"text"}, Type: &pb.Type{Kind: pb.Kind_BINARY}}},
		Outputs: []*pb.Output{{
			Name: "text", Layout: pb.Layout_BYTES, Slots: []uint32{0},
			Type: &pb.Type{Kind: pb.Kind_BINARY},
		}},
	}
	k := &swelling{}
	p := withOp(t, &store, program, pb.Kind_INT32, k, 0)
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", data), rows)
	s, err := p.Open(t.Context(), ticket, program, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	needs := s.quota.Held()
	s.Close()
	ticket.ProgramDigest = []byte("digest")
	k.bytes = func() int64 { return 4 * rows }
	// and leaves what it read ahead into
	if n, err := read(t.Context(), p, ticket, program); err != nil || n != groups*rows {
		t.Fatalf("%d rows of %d, %v", n, groups*rows, err)
	}
	kit := latest(p, ticket)
	withMemory(p, 2*needs, 2*needs)
	waited := false
	k.bytes = func() int64 {
		for !waited && p.MemoryInUse() < needs+needs/2 && t.Context().Err() == nil { // it reads ahead
			time.Sleep(time.Millisecond)
		}
		waited = true
		return needs * 6 / 10
	}
	n, err := read(t.Context(), p, ticket, program)
	if !errors.Is(err, ErrBusy) || n != 0 {
		t.Fatalf("%d rows, %v; want that what was read ahead is in the way", n, err)
	}
	withMemory(p, 64<<20, 64<<20) // it has room
	keep(p, kit)
	if s, err = p.Open(t.Context(), ticket, program, Cursor{}); err != nil || s.quota.buffers.Ahead() != 0 {
		t.Fatalf("%v; what another stream left is there to read ahead", err)
	}
	s.Close()
	withMemory(p, 2*needs, 2*needs)
	if n, err := read(t.Context(), p, ticket, program); err != nil || n != groups*rows {
		t.Errorf("%d rows of %d, %v", n, groups*rows, err)
	}
	k.bytes = func() int64 { return 2 * needs }
	if n, err := read(t.Context(), p, ticket, program); !errors.Is(err, ErrLimit) || errors.Is(err, ErrBusy) || n != 0 {
		t.Errorf("%d rows, %v; want that there is too little memory", n, err)
	}
}
