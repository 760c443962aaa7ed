package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Whatever part of its rows a window keeps, each is what it is where all are kept.
func TestRowsDoNotDependOnWhichAreKept(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var store pipelinetest.Store
		groups := rapid.SliceOfN(rapid.IntRange(1, 300), 1, 3).Draw(rt, "row groups")
		ticket := pipelinetest.Ticket(t, &store,
			store.Put("mem://f.parquet", pipelinetest.Parquet(t, rapid.Uint64().Draw(rt, "file"), groups...)),
			rapid.Int64Range(1, 200).Draw(rt, "window"))
		program := anyProgram(rt)
		program.Filter = rapid.SampledFrom([]string{
			"price > 0.9", "price > 0.5", "label == 1 and price < 0.2",
			"price is not null",
		}).Draw(rt, "a filter")
		compareKept(rt, &store, ticket, program)
	})
}

// compareKept compares the rows of a program with those that it has where all rows are kept.
func compareKept(t *rapid.T, store *pipelinetest.Store, ticket *pb.Ticket, program *pb.Program) {
	kept, _, err := collect(t.Context(), newPipeline(store, 3000), ticket, program, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	program.Filter, program.Shuffle = "", false
	program.Steps = slices.DeleteFunc(program.Steps, func(s *pb.Step) bool { return s.Outs == 0 })
	all, _, err := collect(t.Context(), newPipeline(store, 3000), ticket, program, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range kept {
		if want := all[r.source]; want.source != r.source || want.values != r.values || want.window != r.window {
			t.Fatalf("row %d of window %d: %q, want row %d of window %d: %q", r.source, r.window, r.values, want.source,
				want.window, want.values)
		}
	}
}

// squares are pictures of two colors, and the rows' numbers.
func squares(t *testing.T, width, height, rows int) []byte {
	var data bytes.Buffer
	return pipelinetest.Texts(t, 4096, func(row int) string {
		m := image.NewGray(image.Rect(0, 0, width, height))
		for i := range m.Pix {
			m.Pix[i] = byte(i*7 + row)
		}
		data.Reset()
		if err := png.Encode(&data, m); err != nil {
			t.Fatal(err)
		}
		return data.String()
	}, rows)
}

// What is random about a picture is its row's, whichever others are kept.
func TestPicturesDoNotDependOnWhichAreKept(t *testing.T) {
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", squares(t, 12, 9, 120)), 50)
	rapid.Check(t, func(t *rapid.T) {
		p := &pb.Program{
			Provenance: true, Seed: rapid.Int64().Draw(t, "seed"),
			Shuffle: rapid.Bool().Draw(t, "shuffle"),
		}
		p.Sources = []*pb.Source{
			{Name: "label", Path: []string{"label"}, Type: &pb.Type{Kind: pb.Kind_INT32}},
			{Name: "text", Path: []string{"text"}, Type: &pb.Type{Kind: pb.Kind_BINARY}},
		}
		photo := step(p, "decode_png", nil, 1)
		photo = step(p, "random_resized_crop", map[string]*pb.Value{"size": num(4)}, photo)
		photo = step(p, "flip", nil, photo)
		id := step(p, "sigrid_hash", map[string]*pb.Value{"salt": num(3), "max": num(7)}, 0)
		p.Outputs = []*pb.Output{
			{
				Name: "photo", Layout: pb.Layout_IMAGE, Slots: []uint32{photo}, Shape: []int32{4, 4, 3},
				Type: &pb.Type{Kind: pb.Kind_BINARY},
			},
			{Name: "id", Layout: pb.Layout_SPARSE, Slots: []uint32{id}, Type: &pb.Type{Kind: pb.Kind_INT64}},
		}
		p.Filter = fmt.Sprintf("label in (3, 4, 77, %d)", rapid.IntRange(0, 119).Draw(t, "a row"))
		compareKept(t, &store, ticket, p)
	})
}

// TestExcerptsOfOneSourceAtATime: where another source has the long values in each window, excerpts hold about what
// those of one window do.
func TestExcerptsOfOneSourceAtATime(t *testing.T) {
	const sources, long = 20, 1 << 20
	c := &computer{engine: &engine{reads: slices.Repeat([]bool{true}, sources)}, holds: holding{results: 2 * long}}
	for window := range 2 * sources {
		w := &tensor.Window{Rows: 8, Order: []int32{3, 0}}
		for i := range sources {
			n := int32(10)
			if i == window%sources {
				n = long
			}
			w.Slots = append(w.Slots, &vector.Vector{
				Type: spec.Type{Kind: pb.Kind_BINARY}, Rows: 8, Data: make([]byte, n), Ends: []int32{
					0, n, n, n,
					n, n, n, n, n,
				},
			})
		}
		if err := c.excerpt(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		var held int64
		for i := range c.windows.excerpts {
			held += c.windows.excerpts[i].Held()
		}
		if held < long || held > 4*long {
			t.Fatalf("window %d: %d bytes are held for excerpts of %d", window, held, c.windows.excerpted)
		}
	}
}

// The memory that pictures are decoded in is the stream's before it is taken; where that grows, it grows for a picture,
// too.
func TestPicturesTakeMemory(t *testing.T) {
	const width, height = 800, 600
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", squares(t, width, height, 3)), 2)
	program := &pb.Program{
		Sources: []*pb.Source{{Name: "text", Path: []string{"text"}, Type: &pb.Type{Kind: pb.Kind_BINARY}}},
	}
	photo := step(program, "decode_png", nil, 0)
	photo = step(program, "random_resized_crop", map[string]*pb.Value{"size": num(4)}, photo)
	program.Outputs = []*pb.Output{
		{
			Name: "photo", Layout: pb.Layout_IMAGE, Slots: []uint32{photo}, Shape: []int32{4, 4, 3},
			Type: &pb.Type{Kind: pb.Kind_BINARY},
		},
	}
	run := func(total, most int64) (p *Pipeline, rows int, err error) {
		p = withMemory(newPipeline(&store, 3000), total, most)
		s, err := p.Open(t.Context(), ticket, program, Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
			defer b.Release()
			if rows += int(b.Meta.GetRows()); p.MemoryInUse() < width*height {
				t.Errorf("%d bytes are in use behind a picture of %d pixels", p.MemoryInUse(), width*height)
			}
			return nil
		})
		return p, rows, err
	}
	if p, rows, err := run(64<<20, 64<<20); err != nil || rows != 3 || p.MemoryLimit() != 64<<20 {
		t.Errorf("%d rows, %v, of %d bytes", rows, err, p.MemoryLimit())
	}
	if p, rows, err := run(1<<19, 64<<20); err != nil || rows != 3 || p.MemoryLimit() != 64<<20 {
		t.Errorf("%d rows, %v, of %d bytes", rows, err, p.MemoryLimit())
	}
	if _, rows, err := run(1<<19, 1<<19); !errors.Is(err, images.ErrMemory) || rows != 0 {
		t.Errorf("%d rows, %v; want that the picture is too large", rows, err)
	}
}

// scored writes rows of ids and as many scores, but for the rows that lack one, and each row's number.
func scored(t *testing.T, rows int, lack ...int) []byte {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "row", Type: arrow.PrimitiveTypes.Int32},
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)},
		{Name: "scores", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32)},
	}, nil))
	defer b.Release()
	ids, scores := b.Field(1).(*array.ListBuilder), b.Field(2).(*array.ListBuilder)
	for row := range rows {
		b.Field(0).(*array.Int32Builder).Append(int32(row))
		ids.Append(true)
		ids.ValueBuilder().(*array.Int64Builder).AppendValues([]int64{1, 2, 3}, nil)
		scores.Append(true)
		scores.ValueBuilder().(*array.Float32Builder).AppendValues([]float32{3, 1, 2}, nil)
		if !slices.Contains(lack, row) {
			continue
		}
		ids.ValueBuilder().(*array.Int64Builder).Append(4)
	}
	return pipelinetest.Write(t, b.Schema(), slices.Values([]arrow.Record{b.NewRecord()}))
}

// What is wrong with a row is an error where the row is kept, and nowhere else.
func TestRowsThatAreLeftOutFailNothing(t *testing.T) {
	const rows, window = 400, 100
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", scored(t, rows, 230, 271)), window)
	for _, c := range []struct {
		filter string
		rows   int
		err    string
	}{
		{"row not in (230, 271)", 398, ""},
		{"row < 231 or row in (280, 290)", 0, "row 230 has 4 ids and 3 scores"},
		{"row >= 271", 0, "row 271 has 4 ids and 3 scores"},
		{"row in (5, 290)", 2, ""},
		{"row in (5, 210, 271)", 0, "row 271 has 4 ids and 3 scores"},
	} {
		for _, shuffle := range []bool{false, true} {
			p := &pb.Program{Provenance: true, Filter: c.filter, Shuffle: shuffle}
			p.Sources = []*pb.Source{
				{Name: "row", Path: []string{"row"}, Type: &pb.Type{Kind: pb.Kind_INT32}},
				{Name: "ids", Path: []string{"ids"}, Type: &pb.Type{Kind: pb.Kind_INT64, List: true}},
				{Name: "scores", Path: []string{"scores"}, Type: &pb.Type{Kind: pb.Kind_FLOAT32, List: true}},
			}
			best := step(p, "sort_by_score", nil, 1, 2)
			p.Outputs = []*pb.Output{{
				Name: "best", Layout: pb.Layout_SPARSE, Slots: []uint32{best},
				Type: &pb.Type{Kind: pb.Kind_INT64},
			}}
			got, _, err := collect(t.Context(), newPipeline(&store, 500), ticket, p, Cursor{})
			switch {
			case c.err == "" && (err != nil || len(got) != c.rows):
				t.Errorf("%s, shuffled %v: %d rows, want %d; %v", c.filter, shuffle, len(got), c.rows, err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("%s, shuffled %v: %v, want %s", c.filter, shuffle, err, c.err)
			}
		}
	}
}

// A row has its own weight, whatever number of them a row has that is left out.
func TestWeightsBesideRowsThatAreLeftOut(t *testing.T) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)},
		{Name: "scores", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true},
		{Name: "row", Type: arrow.PrimitiveTypes.Int32},
	}, nil))
	defer b.Release()
	for row, scores := range []string{"null", "[1]", "[2]", "[3]"} {
		if err := b.UnmarshalJSON(fmt.Appendf(nil, `{"ids": [1%d], "scores": %s, "row": %d}`, row, scores,
			row)); err != nil {
			t.Fatal(err)
		}
	}
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &store,
		store.Put("mem://f.parquet", pipelinetest.Write(t, b.Schema(), slices.Values([]arrow.Record{b.NewRecord()}))),
		4)
	p, scores := &pb.Program{Filter: "row > 0"}, uint32(1)
	for i, kind := range []pb.Kind{pb.Kind_INT64, pb.Kind_FLOAT32, pb.Kind_INT32} {
		name := b.Schema().Field(i).Name
		p.Sources = append(p.Sources, &pb.Source{
			Name: name, Path: []string{name},
			Type: &pb.Type{Kind: kind, List: i < 2},
		})
	}
	p.Outputs = []*pb.Output{{
		Name: "ids", Layout: pb.Layout_SPARSE, Slots: []uint32{0}, Weights: &scores,
		Type: &pb.Type{Kind: pb.Kind_INT64},
	}}
	s, err := newPipeline(&store, 500).Open(t.Context(), ticket, p, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := ""
	err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
		defer b.Release()
		got += b.Record().Column(0).String()
		return nil
	})
	if want := "[{[11] [1]} {[12] [2]} {[13] [3]}]"; got != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}
