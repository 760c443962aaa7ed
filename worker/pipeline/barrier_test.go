package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// some chooses rows whose numbers, and repeats makes each row as many as becomes says.
func keeps(row int64) bool { return row%4 != 2 }

func becomes(row int64) int { return int(row % 3) }

func some(_ context.Context, c *transform.Call) error {
	c.Parents = []int32{}
	for i := range c.N {
		if keeps(c.Rows.Row(i)) {
			c.Parents = append(c.Parents, int32(i))
		}
	}
	return nil
}

func repeats(_ context.Context, c *transform.Call) error {
	c.Parents = []int32{}
	for i := range c.N {
		for part := range becomes(c.Rows.Row(i)) {
			c.Parents = append(c.Parents, int32(i))
			c.Out[0].I64 = append(c.Out[0].I64, int64(part))
		}
	}
	c.Out[0].Rows = len(c.Parents)
	return c.Room(8 * int64(len(c.Parents)))
}

var barriers = map[string]func(context.Context, *transform.Call) error{"same": same, "some": some, "repeats": repeats}

// anyBarriers is a program whose functions, of which it returns the names, choose and make rows. It shows sources, the
// parts that the last of them made, and what an op makes somewhere between them.
func anyBarriers(t *rapid.T) (p *pb.Program, names []string) {
	drawn := anyProgram(t)
	p = pipelinetest.Program()
	p.Seed, p.Shuffle, p.Filter = drawn.Seed, drawn.Shuffle, drawn.Filter
	for _, s := range drawn.Steps {
		if s.Outs == 0 {
			p.Steps = append(p.Steps, s)
		}
	}
	names = rapid.SliceOfN(rapid.SampledFrom([]string{"same", "some", "repeats"}), 0, 3).Draw(t, "functions")
	names = append(names, "repeats")
	names = rapid.Permutation(names).Draw(t, "their order")
	label, number := pipelinetest.Label, &pb.Type{Kind: pb.Kind_INT64}
	var part, cast uint32
	casts := rapid.IntRange(0, len(names)).Draw(t, "where an op is")
	for i := range len(names) + 1 {
		if i == casts {
			cast = step(p, "cast", map[string]*pb.Value{"to": {Kind: &pb.Value_Text{Text: "int64"}}}, label)
		}
		if i == len(names) {
			break
		}
		switch names[i] {
		case "same":
			label = call(p, "same", []uint32{label}, &pb.Type{Kind: pb.Kind_INT32})
		case "some":
			p.Steps = append(p.Steps, &pb.Step{
				Op: "python", Version: 1, In: []uint32{label}, At: fmt.Sprintf("transforms[%d]", len(p.Steps)),
				Python: &pb.Function{Name: "some", Kind: pb.FunctionKind_FILTER},
			})
		case "repeats":
			part = call(p, "repeats", []uint32{label, pipelinetest.IDs}, number)
			p.Steps[len(p.Steps)-1].Python.Kind = pb.FunctionKind_FLAT_MAP
		}
	}
	p.Outputs = []*pb.Output{
		{Name: "label", Layout: pb.Layout_LABEL, Slots: []uint32{label}, Type: &pb.Type{Kind: pb.Kind_INT32}},
		{Name: "ids", Layout: pb.Layout_SPARSE, Slots: []uint32{pipelinetest.IDs}, Type: number},
		{Name: "text", Layout: pb.Layout_BYTES, Slots: []uint32{pipelinetest.Text}, Type: &pb.Type{Kind: pb.Kind_BINARY}},
		{Name: "part", Layout: pb.Layout_LABEL, Slots: []uint32{part}, Type: number},
		{Name: "cast", Layout: pb.Layout_LABEL, Slots: []uint32{cast}, Type: number},
	}
	return p, names
}

// behind is what functions make of the rows of a window, in the file's order, with the calls.
func behind(rows []shown, names []string) (out []shown, calls []fakeCall) {
	for _, name := range names {
		if len(rows) == 0 {
			break
		}
		made := fakeCall{name: name}
		var next []shown
		for _, r := range rows {
			made.rows = append(made.rows, r.source)
			switch {
			case name == "same", name == "some" && keeps(r.source):
				next = append(next, r)
			case name == "repeats":
				for part := range becomes(r.source) {
					r.row = int64(part)
					next = append(next, r)
				}
			}
		}
		rows, calls = next, append(calls, made)
	}
	return rows, calls
}

// TestFunctionsThatChooseAndMakeRows compares streams whose functions do with the same by hand, from every row of a
// window on, and with counts. Each function is called once for each window, on the rows that are there.
func TestFunctionsThatChooseAndMakeRows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		groups := rapid.SliceOfN(rapid.IntRange(1, 60), 1, 3).Draw(rt, "row groups")
		var store pipelinetest.Store
		f := store.Put("mem://f.parquet", pipelinetest.Parquet(t, rapid.Uint64().Draw(rt, "file"), groups...))
		ticket := pipelinetest.Ticket(t, &store, f, rapid.Int64Range(1, 40).Draw(rt, "window"))
		ticket.Code = &pb.StoredCode{Sha256: []byte("code")}
		program, names := anyBarriers(rt)
		python := &fakePython{functions: barriers}
		p := withPython(newPipeline(&store, rapid.Int64Range(1, 4000).Draw(rt, "batch")), python)
		want, calls := byHand(rt, p, ticket, program, names)
		checkBehind(rt, p, python, ticket, program, want, calls, Cursor{})
		counted, err := p.Count(t.Context(), ticket, program)
		if err != nil {
			rt.Fatal(err)
		}
		checkCounts(rt, counted, want)
		if len(want) > 0 {
			resumed := rapid.SampledFrom(want).Draw(rt, "a row of the window that is resumed").window
			for _, r := range want {
				if r.window == resumed {
					checkBehind(rt, p, python, ticket, program, want, calls, Cursor{r.window, r.k})
					checkBehind(rt, p, python, ticket, program, want, calls, Cursor{r.window, r.k + 1})
				}
			}
		}
		if p.Close(); python.open(t) > 0 || p.MemoryInUse() > 0 {
			rt.Fatalf("%d functions are open, %d bytes are in use", python.open(t), p.MemoryInUse())
		}
	})
}

// byHand makes the rows of a program of anyBarriers of those without functions, and the calls of each window.
func byHand(
	t *rapid.T, p *Pipeline, ticket *pb.Ticket, program *pb.Program, names []string,
) (want []shown, calls map[uint32][]fakeCall) {
	plain := pipelinetest.Program()
	plain.Seed, plain.Filter, plain.Outputs = program.Seed, program.Filter, program.Outputs[:3]
	for _, s := range program.Steps {
		if s.Op == "sample" {
			plain.Steps = append(plain.Steps, s)
		}
	}
	row := step(plain, "cast", map[string]*pb.Value{"to": {Kind: &pb.Value_Text{Text: "int64"}}}, pipelinetest.Label)
	plain.Outputs = slices.Clone(plain.Outputs)
	plain.Outputs[0] = &pb.Output{
		Name: "label", Layout: pb.Layout_LABEL, Slots: []uint32{pipelinetest.Label}, Type: program.Outputs[0].Type,
	}
	plain.Outputs = append(plain.Outputs, &pb.Output{
		Name: "row", Layout: pb.Layout_LABEL, Slots: []uint32{row}, Type: &pb.Type{Kind: pb.Kind_INT64},
	})
	all, err := show(t.Context(), p, ticket, plain, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	calls = map[uint32][]fakeCall{}
	number := uint32(0)
	for _, g := range ticket.Extents {
		for first := int64(0); first < g.Rows; first += g.WindowRows {
			var rows []shown
			for _, r := range all {
				if r.window == number {
					rows = append(rows, r)
				}
			}
			rows, calls[number] = behind(rows, names)
			places := make([]int32, len(rows))
			for i := range places {
				places[i] = int32(i)
			}
			if program.Shuffle {
				shuffle(places, transform.Rows{
					Seed: program.Seed, File: transform.Hash(ticket.File.Uri), First: g.FirstRow + first,
				})
			}
			for k, place := range places {
				r := rows[place]
				r.k = uint64(k)
				want = append(want, r)
			}
			number++
		}
	}
	return want, calls
}

// checkBehind reads from a cursor.
func checkBehind(
	t *rapid.T, p *Pipeline, python *fakePython, ticket *pb.Ticket, program *pb.Program,
	all []shown, calls map[uint32][]fakeCall, at Cursor,
) {
	python.took()
	got, err := show(t.Context(), p, ticket, program, at)
	if err != nil {
		t.Fatalf("from %v: %v", at, err)
	}
	want := slices.DeleteFunc(slices.Clone(all), func(r shown) bool {
		return r.window < at.Window || r.window == at.Window && r.k < at.K
	})
	if !slices.EqualFunc(got, want, func(a, b shown) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Fatalf("from %v: got %v, want %v", at, got, want)
	}
	var wanted []fakeCall
	for number := at.Window; int(number) < len(calls); number++ {
		wanted = append(wanted, calls[number]...)
	}
	if took := python.took(); fmt.Sprint(took) != fmt.Sprint(wanted) {
		t.Fatalf("from %v: calls %v, want %v", at, took, wanted)
	}
}

func checkCounts(t *rapid.T, counted *pb.CountReply, want []shown) {
	window := uint32(0)
	for _, g := range counted.GetExtents() {
		for _, n := range g.GetOutputs() {
			has := len(slices.DeleteFunc(slices.Clone(want), func(r shown) bool { return r.window != window }))
			if int(n) != has {
				t.Fatalf("window %d: %d rows are counted, there are %d", window, n, has)
			}
			window++
		}
	}
}

// What an op makes behind a function that makes rows is of those rows, and takes memory that is asked for.
func TestOpsBehindAFlatMap(t *testing.T) {
	const most, size = 100, 1000
	var store pipelinetest.Store
	python := &fakePython{functions: map[string]func(context.Context, *transform.Call) error{
		"many": func(_ context.Context, c *transform.Call) error {
			c.Out[0].Rows = most * c.N
			c.Out[0].I32 = make([]int32, most*c.N)
			for i := range most * c.N {
				c.Parents = append(c.Parents, int32(i/most))
			}
			return nil
		},
	}}
	program, ticket := doubles(t, &store, "many")
	many := program.Steps[0].Python
	many.Kind, many.Most = pb.FunctionKind_FLAT_MAP, most
	marks := step(program, "onehot", map[string]*pb.Value{"size": num(size)}, pipelinetest.Label)
	program.Outputs = []*pb.Output{{
		Name: "marks", Layout: pb.Layout_TENSOR, Slots: []uint32{marks}, Shape: []int32{size},
		Type: &pb.Type{Kind: pb.Kind_FLOAT32},
	}}
	p := withPython(newPipeline(&store, 5000), python)
	s, err := p.Open(t.Context(), ticket, program, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows, bytes := 0, int64(0)
	err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
		defer b.Release()
		rows, bytes = rows+int(b.Meta.GetRows()), bytes+b.Bytes
		return nil
	})
	if err != nil || rows < 100*most || bytes < 4*size*int64(rows) {
		t.Errorf("%v; %d rows, of %d bytes", err, rows, bytes)
	}
	if held := p.MemoryInUse(); held < 4*size*most*20 {
		t.Errorf("%d bytes are in use for windows of %d values", held, size*most*30)
	}
	many.Most = most - 1
	_, _, err = collect(t.Context(), p, ticket, program, Cursor{})
	if want := "transforms[0] (python many): row 0 became 100 rows"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	p = withPython(withMemory(newPipeline(&store, 5000), 8<<20, 8<<20), python)
	many.Most = most
	if _, _, err = collect(t.Context(), p, ticket, program, Cursor{}); !errors.Is(err, ErrLimit) {
		t.Errorf("with little memory: %v", err)
	}
}

// A function that makes fewer rows than it did before, or than were counted, loses none without a word.
func TestRowsThatDoNotRepeat(t *testing.T) {
	var store pipelinetest.Store
	fewer := 0
	python := &fakePython{functions: map[string]func(context.Context, *transform.Call) error{
		"forgets": func(_ context.Context, c *transform.Call) error {
			for i := range c.N - fewer {
				c.Parents = append(c.Parents, int32(i))
			}
			return nil
		},
	}}
	program, ticket := doubles(t, &store, "forgets")
	program.Steps[0] = &pb.Step{
		Op: "python", Version: 1, In: []uint32{pipelinetest.Label}, At: "transforms[0]",
		Python: &pb.Function{Name: "forgets", Kind: pb.FunctionKind_FILTER},
	}
	program.Outputs[3].Slots[0] = pipelinetest.Label
	p := withPython(newPipeline(&store, 500), python)
	defer p.Close()
	_, lasts, err := collect(t.Context(), p, ticket, program, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	counted, err := p.Count(t.Context(), ticket, program)
	if err != nil {
		t.Fatal(err)
	}
	if python.program != program {
		t.Errorf("functions are asked for by %v: what counts has other processes than what reads", python.program)
	}
	planned := proto.CloneOf(ticket)
	for i, g := range planned.GetExtents() {
		g.Outputs = counted.GetExtents()[i].GetOutputs()
	}
	if _, again, err := collect(t.Context(), p, planned, program, Cursor{}); err != nil || !slices.Equal(again, lasts) {
		t.Errorf("as was counted: %v, %v; want %v", again, err, lasts)
	}
	fewer = 2
	_, _, err = collect(t.Context(), p, planned, program, Cursor{Window: 1, K: 1})
	differs, ok := errors.AsType[*CountError](err)
	if !ok || differs.First != 50 || differs.Counted != differs.Rows+2 || !errors.Is(err, storage.ErrChanged) ||
		!strings.Contains(err.Error(), "python forgets") {
		t.Errorf("as was not counted: %v", err)
	}
	_, _, err = collect(t.Context(), p, ticket, program, Cursor{Window: 1, K: lasts[1].K - 1})
	short, ok := errors.AsType[*ShortError](err)
	if !ok || short.Window != 1 || short.Taken != short.Rows+1 || !errors.Is(err, storage.ErrChanged) ||
		!strings.Contains(err.Error(), "python forgets") {
		t.Errorf("got %v", err)
	}
}
