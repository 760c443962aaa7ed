package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// faulty is a decoder that cannot decode some rows.
type faulty struct {
	formats.Decoder
	bad  func(row int64) bool // of the file
	next int64                // row of the file, by Skip and Next
	told []decode.Fault
}

func (f *faulty) Skip(rows int) error {
	f.next, f.told = f.next+int64(rows), nil
	return f.Decoder.Skip(rows)
}

func (f *faulty) Next(rows int) ([]*vector.Vector, error) {
	f.told = nil
	vectors, err := f.Decoder.Next(rows)
	for row := range rows {
		if f.bad(f.next + int64(row)) {
			f.told = append(f.told, decode.Fault{Row: row, Err: fmt.Errorf("column ids: broken at byte %d", row)})
		}
	}
	f.next += int64(rows)
	if late, ok := f.Decoder.(formats.Late); ok && err == nil {
		vectors, err = late.Rest()
	}
	return vectors, err
}

func (f *faulty) Faults() []decode.Fault { return f.told }

// badIn says which rows of a file are bad, and where that shows.
// Of layout and other, each is about a tensor of its own, made by functions that fail in calling and again.
type badIn struct{ decoding, calling, again, layout, other func(row int64) bool }

func (b badIn) row(row int64) bool {
	return b.decoding(row) || b.calling(row) || b.again(row) || b.layout(row) || b.other(row)
}

func every(n, at int64) func(int64) bool { return func(row int64) bool { return row%n == at } }

// fussy makes some rows null.
func (b badIn) fussy(ctx context.Context, c *transform.Call) error {
	return badIn{calling: b.again, layout: b.other}.picky(ctx, c)
}

// picky fails on some rows, and makes others null.
func (b badIn) picky(_ context.Context, c *transform.Call) error {
	out := c.Out[0]
	out.I32, out.Valid = nil, make([]uint64, vector.Words(c.N))
	for i := range c.N {
		row := c.Rows.Row(i)
		if b.calling(row) {
			failed := transform.RowError{Row: i, What: "fails: ValueError", Own: true}
			if len(c.Failed) == c.Skip {
				return &transform.RowsError{Rows: append(c.Failed, failed)}
			}
			c.Failed = append(c.Failed, failed)
			continue
		}
		if !b.layout(row) {
			out.Valid[len(out.I32)>>6] |= 1 << (len(out.I32) & 63)
		}
		out.I32 = append(out.I32, int32(row))
	}
	out.Rows = len(out.I32)
	return nil
}

// once has a function fail that is called on a row a second time.
func once(f func(context.Context, *transform.Call) error) func(context.Context, *transform.Call) error {
	called := map[int64]bool{}
	return func(ctx context.Context, c *transform.Call) error {
		for i := range c.N {
			row := c.Rows.Row(i)
			if called[row] {
				return fmt.Errorf("row %d comes again", row)
			}
			called[row] = true
		}
		return f(ctx, c)
	}
}

// badStream opens a stream of a program whose labels, which may have no nulls, are what picky and fussy make.
func badStream(t *testing.T, p *Pipeline, of *pb.Ticket, program *pb.Program, bad badIn, at Cursor) *Stream {
	t.Helper()
	of.Code = &pb.StoredCode{}
	withPython(p, &fakePython{functions: map[string]func(context.Context, *transform.Call) error{
		"picky": once(bad.picky), "fussy": once(bad.fussy),
	}})
	s, err := p.Open(t.Context(), of, program, at)
	if err != nil {
		t.Fatal(err)
	}
	first := s.layout.start.extent
	f := &faulty{Decoder: s.computer.decoder, bad: bad.decoding}
	if first < len(of.GetExtents()) {
		f.next = of.GetExtents()[first].GetFirstRow() // Reset's Skip comes on top
	}
	s.computer.decoder = f
	return s
}

func withPicky(p *pb.Program) *pb.Program {
	made := call(p, "picky", []uint32{pipelinetest.Label}, &pb.Type{Kind: pb.Kind_INT32})
	p.Outputs[3].Slots[0] = made
	second := proto.CloneOf(p.Outputs[3])
	second.Name = "second"
	second.Slots[0] = call(p, "fussy", []uint32{pipelinetest.Label}, &pb.Type{Kind: pb.Kind_INT32})
	p.Outputs = append(p.Outputs, second)
	return p
}

// Rows that are bad by their own bytes are left out, wherever that shows, and no others; from any cursor it is the same
// rows, at the same places, and counts and names agree.
func TestBadRowsAreLeftOut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		groups := rapid.SliceOfN(rapid.IntRange(1, 90), 1, 4).Draw(rt, "row groups")
		var store pipelinetest.Store
		f := store.Put("mem://f.parquet", pipelinetest.Parquet(t, rapid.Uint64().Draw(rt, "file"), groups...))
		ticket := pipelinetest.Ticket(t, &store, f, rapid.Int64Range(1, 100).Draw(rt, "window"))
		ticket.SkipRows = 1000
		program := pipelinetest.Program()
		program.Shuffle = rapid.Bool().Draw(rt, "shuffle")
		program.Filter = rapid.SampledFrom([]string{"", "label == 1", "price > 0.5", "label > 7"}).Draw(rt, "filter")
		n := func(name string) int64 { return rapid.SampledFrom([]int64{1, 2, 7, 1000}).Draw(rt, name) }
		bad := badIn{
			every(n("decoding"), 0), every(n("calling"), 1), every(n("again"), 2), every(n("layout"), 1),
			every(n("other"), 0),
		}
		plain, _, err := collect(t.Context(), newPipeline(&store, 2000), ticket, program, Cursor{})
		if err != nil {
			rt.Fatal(err)
		}
		withPicky(program)
		type told struct {
			rows    []row
			skipped map[uint32][]uint64
			before  map[uint32]uint32
		}
		read := func(at Cursor) told {
			out := told{skipped: map[uint32][]uint64{}, before: map[uint32]uint32{}}
			p := newPipeline(&store, rapid.Int64Range(1, 4000).Draw(rt, "batch"))
			s := badStream(t, p, ticket, program, bad, at)
			defer s.Close()
			next := at
			err := s.Run(t.Context(), func(_ context.Context, b Batch) error {
				defer b.Release()
				m := b.Meta
				if m.GetWindow() > next.Window && (next.K == 0 || next.Window == at.Window) {
					next = Cursor{Window: m.GetWindow()}
				}
				if m.GetWindow() != next.Window || m.GetK() != next.K {
					return fmt.Errorf("batch %v at %v", m, next)
				}
				if at == (Cursor{}) && int(m.GetSkippedBefore()) != len(out.skipped[m.GetWindow()]) {
					return fmt.Errorf("%v says other than batches before: %v", m, out.skipped[m.GetWindow()])
				}
				if _, ok := out.before[m.GetWindow()]; !ok {
					out.before[m.GetWindow()] = m.GetSkippedBefore()
				}
				out.skipped[m.GetWindow()] = append(out.skipped[m.GetWindow()], m.GetSkipped()...)
				for i := range int(m.GetRows()) {
					out.rows = append(out.rows, rowOf(b.Record(), i, m))
				}
				for _, r := range m.GetBadRows() {
					if !bad.row(r.GetRow()) || !strings.Contains(r.GetCause(), "broken") &&
						!strings.Contains(r.GetCause(), "ValueError") &&
						!strings.Contains(r.GetCause(), "tensor label: is null") &&
						!strings.Contains(r.GetCause(), "tensor second: is null") {
						return fmt.Errorf("named: %v", r)
					}
				}
				if next.K += uint64(m.GetRows()); m.GetLast() {
					next = Cursor{Window: next.Window + 1}
				}
				return nil
			})
			if err != nil {
				rt.Fatalf("from %v: %v", at, err)
			}
			return out
		}
		whole := read(Cursor{})
		var want, got []int64
		skips := 0
		for _, r := range plain {
			if !bad.row(r.source) {
				want = append(want, r.source)
			} else if !bad.decoding(r.source) {
				skips++
			}
		}
		for _, r := range whole.rows {
			got = append(got, r.source)
		}
		if program.Shuffle {
			slices.Sort(want)
			slices.Sort(got)
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("rows %v, want %v", got, want)
		}
		rows := 0
		for _, g := range groups {
			rows += g
		}
		for row := range int64(rows) {
			if bad.decoding(row) {
				skips++
			}
		}
		for _, places := range whole.skipped {
			if skips -= len(places); !slices.IsSorted(places) {
				rt.Fatalf("places %v", places)
			}
		}
		if skips != 0 {
			rt.Fatalf("%d rows are left out that nobody was told of, or told of too many", skips)
		}
		if len(whole.rows) == 0 {
			return
		}
		from := rapid.SampledFrom(whole.rows).Draw(rt, "cursor")
		at := Cursor{Window: from.window, K: from.k + rapid.Uint64Range(0, 1).Draw(rt, "behind")}
		part := read(at)
		i := slices.IndexFunc(whole.rows, func(r row) bool {
			return r.window > at.Window || r.window == at.Window && r.k >= at.K
		})
		if i < 0 {
			i = len(whole.rows)
		}
		if !slices.Equal(part.rows, whole.rows[i:]) {
			rt.Fatalf("from %v: %v, want %v", at, part.rows, whole.rows[i:])
		}
		for window, places := range part.skipped {
			before := 0
			if window == at.Window {
				before = int(part.before[window])
			}
			if !slices.Equal(whole.skipped[window][before:], places) {
				rt.Fatalf("from %v, window %d: %d and %v, want %v", at, window, before, places, whole.skipped[window])
			}
		}
	})
}

// Rows that fail in a built-in step are left out, and no others, in whatever order the step comes upon them.
func TestBadRowsOfBuiltinSteps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.IntRange(1, 300).Draw(rt, "rows")
		bad := rapid.SliceOfNDistinct(rapid.IntRange(0, rows-1), 0, rows, rapid.ID).Draw(rt, "bad")
		var store pipelinetest.Store
		f := store.Put("mem://f.parquet", scored(t, rows, bad...))
		ticket := pipelinetest.Ticket(t, &store, f, rapid.Int64Range(1, 300).Draw(rt, "window"))
		ticket.SkipRows = uint32(len(bad))
		p := &pb.Program{Provenance: true, Shuffle: rapid.Bool().Draw(rt, "shuffle"), Sources: []*pb.Source{
			{Name: "ids", Path: []string{"ids"}, Type: &pb.Type{Kind: pb.Kind_INT64, List: true}},
			{Name: "scores", Path: []string{"scores"}, Type: &pb.Type{Kind: pb.Kind_FLOAT32, List: true}},
		}}
		p.Outputs = []*pb.Output{{
			Name: "best", Layout: pb.Layout_SPARSE, Slots: []uint32{step(p, "sort_by_score", nil, 0, 1)},
			Type: &pb.Type{Kind: pb.Kind_INT64},
		}}
		s, err := newPipeline(&store, 500).Open(t.Context(), ticket, p, Cursor{})
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		var want, got []int
		for row := range rows {
			if !slices.Contains(bad, row) {
				want = append(want, row)
			}
		}
		told := 0
		err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
			defer b.Release()
			told += len(b.Meta.GetSkipped())
			for i := range int(b.Meta.GetRows()) {
				got = append(got, int(rowOf(b.Record(), i, b.Meta).source))
			}
			return nil
		})
		slices.Sort(got)
		if err != nil || told != len(bad) || !slices.Equal(got, want) {
			rt.Fatalf("%v: told of %d of %d bad rows, got %v, want %v", err, told, len(bad), got, want)
		}
	})
}

// More bad rows than may be left out end the stream with the error of the next one, behind the rows before it; so do
// rows that are not bad by themselves, and those that counting did not see.
func TestBadRowsThatEndStreams(t *testing.T) {
	var store pipelinetest.Store
	never := func(int64) bool { return false }
	for name, c := range map[string]struct {
		skip    uint32
		bad     badIn
		counted bool
		says    string
	}{
		"none may be":       {0, badIn{decoding: every(20, 7)}, false, "mem://f.parquet row 7: column ids: broken"},
		"too many":          {2, badIn{decoding: every(20, 7)}, false, "3 rows of a window are bad, and on_error lets 2"},
		"too many are":      {2, badIn{decoding: every(20, 7)}, false, "mem://f.parquet row 47: column ids"},
		"too many fail":     {2, badIn{calling: every(20, 7)}, false, "row 47 fails: ValueError"},
		"too many in all":   {2, badIn{decoding: every(100, 7), calling: every(50, 8)}, false, "row 58 fails: ValueError"},
		"no label":          {1, badIn{layout: every(20, 7)}, false, "row 27 is null"},
		"not counted":       {9, badIn{layout: every(20, 7)}, true, "counting did not see this one"},
		"otherwise counted": {9, badIn{calling: every(20, 7)}, true, "row 7 fails: ValueError"},
	} {
		for _, f := range []*func(int64) bool{
			&c.bad.decoding, &c.bad.calling, &c.bad.again, &c.bad.layout, &c.bad.other,
		} {
			if *f == nil {
				*f = never
			}
		}
		t.Run(name, func(t *testing.T) {
			ticket := shard(t, &store, 100, 100)
			ticket.SkipRows = c.skip
			if c.counted {
				ticket.Extents[0].Outputs = []uint32{100}
			}
			s := badStream(t, newPipeline(&store, 500), ticket, withPicky(pipelinetest.Program()), c.bad, Cursor{})
			defer s.Close()
			err := s.Run(t.Context(), func(_ context.Context, b Batch) error { b.Release(); return nil })
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %s", err, c.says)
			}
		})
	}
}

// A function that fails on another row each time is not called for as many times as there are rows.
func TestRowsThatFailOneByOne(t *testing.T) {
	var store pipelinetest.Store
	ticket := shard(t, &store, 100, 100)
	ticket.SkipRows, ticket.Code = 1000, &pb.StoredCode{}
	p := newPipeline(&store, 500)
	calls := 0
	withPython(p, &fakePython{functions: map[string]func(context.Context, *transform.Call) error{
		"moody": func(context.Context, *transform.Call) error {
			calls++
			return &transform.RowError{What: "fails: ValueError", Own: true}
		},
	}})
	program := pipelinetest.Program()
	program.Outputs[3].Slots[0] = call(program, "moody", []uint32{pipelinetest.Label}, &pb.Type{Kind: pb.Kind_INT32})
	_, _, err := collect(t.Context(), p, ticket, program, Cursor{})
	if err == nil || !strings.Contains(err.Error(), "64 times so far; does a function fail at random?") || calls != 64 {
		t.Errorf("%d calls: %v", calls, err)
	}
}
