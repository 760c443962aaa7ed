package pipeline

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/tensors"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPipeline(s *pipelinetest.Store, batchBytes int64) *Pipeline {
	return New(Config{
		Storage: s, Ops: transform.Builtin(), Memory: 64 << 20, BatchBytes: batchBytes, MaxBatch: 1 << 20,
		OverRead: 100,
		Patience: time.Minute,
	})
}

// row is an output row and its place.
type row struct {
	window uint32
	k      uint64
	source int64
	values string
}

// collect reads a stream to its end and checks the places that its batches claim.
func collect(
	ctx context.Context, p *Pipeline, t *pb.Ticket, program *pb.Program, at Cursor,
) (rows []row, lasts []Cursor, err error) {
	s, err := p.Open(ctx, t, program, at)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	next := at
	err = s.Run(ctx, func(_ context.Context, b Batch) error {
		defer b.Release()
		m := b.Meta
		if m.GetWindow() != next.Window {
			next = Cursor{Window: m.GetWindow()}
		}
		if m.GetWindow() < next.Window || m.GetK() != next.K || int64(m.GetRows()) != b.Record().NumRows() ||
			m.GetRows() == 0 && !m.GetLast() {
			return fmt.Errorf("batch %v of %d rows at %v", m, b.Record().NumRows(), next)
		}
		for i := range int(m.GetRows()) {
			rows = append(rows, rowOf(b.Record(), i, m))
		}
		next.K += uint64(m.GetRows())
		if m.GetLast() {
			lasts = append(lasts, next)
			next = Cursor{Window: next.Window + 1}
		}
		return nil
	})
	return rows, lasts, err
}

// rowOf writes a row bit for bit.
func rowOf(rec arrow.Record, i int, m *pb.BatchMeta) row {
	var b bytes.Buffer
	for c := range int(rec.NumCols()) {
		put(&b, rec.Column(c), i)
	}
	source := rec.Column(rec.Schema().FieldIndices(tensors.RowColumn)[0]).(*array.Int64).Value(i)
	return row{m.GetWindow(), m.GetK() + uint64(i), source, b.String()}
}

func put(b *bytes.Buffer, a arrow.Array, i int) {
	if a.IsNull(i) {
		panic("a tensor has a null")
	}
	switch a := a.(type) {
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		fmt.Fprintf(b, "[%d]", to-from)
		for j := from; j < to; j++ {
			put(b, a.ListValues(), int(j))
		}
	case *array.Struct:
		put(b, a.Field(0), i)
		put(b, a.Field(1), i)
	case *array.Binary:
		fmt.Fprintf(b, "%q", a.Value(i))
	case *array.Float32:
		_ = binary.Write(b, binary.LittleEndian, math.Float32bits(a.Value(i)))
	case *array.Int64:
		_ = binary.Write(b, binary.LittleEndian, a.Value(i))
	case *array.Uint8:
		b.WriteByte(a.Value(i))
	case *array.Int32:
		_ = binary.Write(b, binary.LittleEndian, a.Value(i))
	default:
		panic(fmt.Sprintf("%T", a))
	}
}

// step appends a step to a program and returns its slot.
func step(p *pb.Program, op string, params map[string]*pb.Value, in ...uint32) uint32 {
	slots := make([]spec.Type, 0, len(p.Sources)+len(p.Steps))
	for _, s := range p.Sources {
		slots = append(slots, spec.TypeFromProto(s.Type))
	}
	for _, s := range p.Steps {
		if s.Outs > 0 {
			slots = append(slots, spec.TypeFromProto(s.Type))
		}
		for _, t := range s.More {
			slots = append(slots, spec.TypeFromProto(t))
		}
	}
	types := make([]spec.Type, len(in))
	for i, slot := range in {
		types[i] = slots[slot]
	}
	sig, err := transform.Builtin().Check(op, params, types)
	if err != nil {
		panic(err)
	}
	s := &pb.Step{
		Op: op, Version: sig.Version, Params: sig.Params, In: in, Name: op,
		At: fmt.Sprintf("transforms[%d]", len(p.Steps)),
	}
	if !sig.SelectsRows {
		s.Outs, s.Type = 1, sig.Out.Proto()
	}
	p.Steps = append(p.Steps, s)
	return uint32(len(slots))
}

func num(n int64) *pb.Value { return &pb.Value{Kind: &pb.Value_Int{Int: n}} }

func float(x float64) *pb.Value { return &pb.Value{Kind: &pb.Value_Float{Float: x}} }

func anyProgram(t *rapid.T) *pb.Program {
	p := pipelinetest.Program()
	p.Seed = rapid.Int64().Draw(t, "seed")
	p.Shuffle = rapid.Bool().Draw(t, "shuffle")
	p.Filter = rapid.SampledFrom([]string{
		"", "", "label == 1", "label > 5", "price > 0.5 or score is null", "text in ('a', 'bb')", "price > 0.95",
		"hash(text, 7) % 100 < 60", "hash(row(), 7) % 100 >= 30", "label % 3 == 1 or hash(price, 1) % 2 == 0",
	}).Draw(t, "filter")
	if rapid.Bool().Draw(t, "samples") {
		step(p, "sample", map[string]*pb.Value{
			"rate": float(rapid.SampledFrom([]float64{0, 0.3, 0.9}).Draw(t, "rate")),
		})
	}
	if rapid.Bool().Draw(t, "fills") {
		p.Outputs[0].Slots[1] = step(p, "fill_null", map[string]*pb.Value{"value": num(0)}, pipelinetest.Score)
	}
	if rapid.Bool().Draw(t, "hashes") {
		cut := step(p, "first_x", map[string]*pb.Value{"x": num(2)}, pipelinetest.IDs)
		p.Outputs[1].Slots[0] = step(p, "sigrid_hash", map[string]*pb.Value{"salt": num(3), "max": num(1000)}, cut)
	} else if rapid.Bool().Draw(t, "grams") {
		p.Outputs[1].Slots[0] = step(p, "ngram", map[string]*pb.Value{"n": num(2)}, pipelinetest.IDs, pipelinetest.Tags)
	}
	return p
}

// A stream opened anywhere has the rows that one opened at the start has from there on, wherever batches are cut.
func TestAnyCursorGivesTheSuffix(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		groups := rapid.SliceOfN(rapid.IntRange(1, 90), 1, 4).Draw(rt, "row groups")
		var store pipelinetest.Store
		f := store.Put("mem://f.parquet", pipelinetest.Parquet(t, rapid.Uint64().Draw(rt, "file"), groups...))
		ticket := pipelinetest.Ticket(t, &store, f, rapid.Int64Range(1, 100).Draw(rt, "window"))
		ticket.Epoch = rapid.Uint32Range(0, 2).Draw(rt, "epoch")
		program := anyProgram(rt)
		all, lasts, err := collect(t.Context(), newPipeline(&store, rapid.Int64Range(1, 4000).Draw(rt, "batch")),
			ticket, program, Cursor{})
		if err != nil {
			rt.Fatal(err)
		}
		checkRows(rt, ticket, program, all, lasts)
		other := newPipeline(&store, rapid.Int64Range(1, 4000).Draw(rt, "other batch"))
		for range 8 {
			at := Cursor{rapid.Uint32Range(0, 20).Draw(rt, "at window"), rapid.Uint64Range(0, 100).Draw(rt, "at k")}
			if len(lasts) > 0 && rapid.Bool().Draw(rt, "at an end") {
				at = rapid.SampledFrom(lasts).Draw(rt, "end")
			}
			got, gotLasts, err := collect(t.Context(), other, ticket, program, at)
			if has, ok := windowRows(ticket, lasts, at.Window); ok && has < at.K {
				if short, ok := errors.AsType[*ShortError](err); !ok || *short != (ShortError{Window: at.Window, Rows: has, Taken: at.K}) {
					rt.Fatalf("at %v, of a window of %d rows: %v", at, has, err)
				}
				continue
			}
			if err != nil {
				rt.Fatal(err)
			}
			isBefore := func(r row) bool { return r.window < at.Window || r.window == at.Window && r.k < at.K }
			want := slices.DeleteFunc(slices.Clone(all), isBefore)
			if !slices.Equal(got, want) {
				rt.Fatalf("at %v: %d rows; want %d, those of the whole stream from there on", at, len(got), len(want))
			}
			ended := slices.DeleteFunc(slices.Clone(lasts), func(l Cursor) bool {
				return l.Window < at.Window || l.Window == at.Window && l.K < at.K
			})
			if !slices.Equal(gotLasts, ended) {
				rt.Fatalf("at %v: windows end at %v, want %v", at, gotLasts, ended)
			}
		}
		if used := other.MemoryInUse(); used != 0 {
			rt.Fatalf("%d bytes are in use after all streams", used)
		}
	})
}

// windowRows is how many rows a window of a ticket has, as its end tells; false: there is no such window.
func windowRows(ticket *pb.Ticket, lasts []Cursor, window uint32) (n uint64, ok bool) {
	var all int64
	for _, g := range ticket.Extents {
		all += windows(g)
	}
	for _, l := range lasts {
		if l.Window == window {
			n = l.K
		}
	}
	return n, int64(window) < all
}

// A batch's memory is about what the largest batch has, also where another column has the long values in each row
// group.
func TestBatchesOfOneColumnAtATime(t *testing.T) {
	const columns, rows, long, batch = 24, 4, 50_000, 100_000
	var fields []arrow.Field
	program := &pb.Program{}
	for i := range columns {
		name := fmt.Sprint("text", i)
		fields = append(fields, arrow.Field{Name: name, Type: arrow.BinaryTypes.Binary})
		program.Sources = append(program.Sources, &pb.Source{
			Name: name, Path: []string{name},
			Type: &pb.Type{Kind: pb.Kind_BINARY},
		})
		program.Outputs = append(program.Outputs, &pb.Output{
			Name: name, Layout: pb.Layout_BYTES, Slots: []uint32{uint32(i)}, Columns: []string{name},
			Type: &pb.Type{Kind: pb.Kind_BINARY},
		})
	}
	schema := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	data := pipelinetest.Write(t, schema, func(yield func(arrow.Record) bool) {
		for group := range columns {
			for i := range rows * columns {
				value := []byte("short")
				if i/rows == group {
					value = make([]byte, long)
				}
				b.Field(i / rows).(*array.BinaryBuilder).Append(value)
			}
			if !yield(b.NewRecord()) {
				return
			}
		}
	})
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", data), rows)
	s, err := newPipeline(&store, batch).Open(t.Context(), ticket, program, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var sent int64
	err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
		defer b.Release()
		sent += b.Bytes
		if held := b.Held(); held > 2*2*batch { // none has more than twice what is wanted
			return fmt.Errorf("%d bytes are kept for batches of %d", held, b.Bytes)
		}
		return nil
	})
	if err != nil || sent < columns*rows*long {
		t.Errorf("%d bytes were sent: %v", sent, err)
	}
}

// checkRows checks what a stream's rows must be, whatever the program.
func checkRows(t *rapid.T, ticket *pb.Ticket, program *pb.Program, rows []row, lasts []Cursor) {
	type span struct{ from, to int64 }
	var windows []span
	for _, g := range ticket.Extents {
		for r := int64(0); r < g.Rows; r += g.WindowRows {
			windows = append(windows, span{g.FirstRow + r, g.FirstRow + min(r+g.WindowRows, g.Rows)})
		}
	}
	var total int64
	seen := map[int64]bool{}
	ends := map[uint32]uint64{}
	for _, r := range rows {
		w := windows[r.window]
		if r.source < w.from || r.source >= w.to || seen[r.source] || r.k != ends[r.window] {
			t.Fatalf("row %d at (%d, %d); the window has rows %d to %d", r.source, r.window, r.k, w.from, w.to)
		}
		seen[r.source] = true
		ends[r.window]++
	}
	for _, l := range lasts {
		if ends[l.Window] != l.K {
			t.Fatalf("window %d ends at %d, but has %d rows", l.Window, l.K, ends[l.Window])
		}
		delete(ends, l.Window)
	}
	if len(ends) > 0 {
		t.Fatalf("windows %v never end", ends)
	}
	for _, w := range windows {
		total += w.to - w.from
	}
	selects := program.Filter != "" || slices.ContainsFunc(program.Steps, func(s *pb.Step) bool { return s.Outs == 0 })
	if !selects && int64(len(rows)) != total {
		t.Fatalf("%d rows of %d", len(rows), total)
	}
	if !program.Shuffle && !slices.IsSortedFunc(rows, func(a, b row) int { return int(a.source - b.source) }) {
		t.Fatal("rows are out of order")
	}
}
