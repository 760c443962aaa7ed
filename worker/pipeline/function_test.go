package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/tensors"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// mixes makes twice the label, the ids that are not null the other way round, the text with its length, and the row's number of each row.
func mixes(_ context.Context, c *transform.Call) error {
	label, ids, text := c.In[0], c.In[1], c.In[2]
	twice, turned, texts, numbers := c.Out[0], c.Out[1], c.Out[2], c.Out[3]
	for _, v := range c.Out {
		v.Rows = c.N
	}
	turned.Offsets, texts.Ends = []int32{0}, []int32{0}
	for row := range c.N {
		twice.I32 = append(twice.I32, 2*label.I32[row])
		numbers.I64 = append(numbers.I64, c.Rows.Row(row))
		for j := ids.Offsets[row+1] - 1; j >= ids.Offsets[row]; j-- {
			switch {
			case !ids.ElemIsNull(int(j)):
				turned.I64 = append(turned.I64, ids.I64[j])
			case ids.I64[j] != 0:
				return errors.New("a null is not zero")
			}
		}
		turned.Offsets = append(turned.Offsets, int32(len(turned.I64)))
		value := text.Data[text.Ends[row]:text.Ends[row+1]]
		texts.Data = fmt.Appendf(append(texts.Data, value...), "/%d", len(value))
		texts.Ends = append(texts.Ends, int32(len(texts.Data)))
	}
	return c.Room(int64(8*len(turned.I64) + len(texts.Data)))
}

// anyMix is a program that chooses and shuffles rows, and shows some columns, and one that shows what mixes makes of
// these in their place.
func anyMix(t *rapid.T) (plain, mixed *pb.Program) {
	of := func(p *pb.Program, label, ids, text, row uint32) *pb.Program {
		p.Outputs = []*pb.Output{
			{Name: "label", Layout: pb.Layout_LABEL, Slots: []uint32{label}, Type: &pb.Type{Kind: pb.Kind_INT32}},
			{Name: "ids", Layout: pb.Layout_SPARSE, Slots: []uint32{ids}, Type: &pb.Type{Kind: pb.Kind_INT64}},
			{Name: "text", Layout: pb.Layout_BYTES, Slots: []uint32{text}, Type: &pb.Type{Kind: pb.Kind_BINARY}},
			{Name: "row", Layout: pb.Layout_LABEL, Slots: []uint32{row}, Type: &pb.Type{Kind: pb.Kind_INT64}},
		}
		return p
	}
	drawn := anyProgram(t)
	var programs [2]*pb.Program
	for i := range programs {
		p := pipelinetest.Program()
		p.Seed, p.Shuffle, p.Filter = drawn.Seed, drawn.Shuffle, drawn.Filter
		for _, s := range drawn.Steps {
			if s.Outs == 0 {
				p.Steps = append(p.Steps, s)
			}
		}
		programs[i] = p
	}
	plain, mixed = programs[0], programs[1]
	filled := step(plain, "cast", map[string]*pb.Value{"to": {Kind: &pb.Value_Text{Text: "int64"}}}, pipelinetest.Label)
	of(plain, pipelinetest.Label, pipelinetest.IDs, pipelinetest.Text, filled)
	number := &pb.Type{Kind: pb.Kind_INT32}
	label := call(mixed, "same", []uint32{pipelinetest.Label}, number)
	twice := call(mixed, "mixes", []uint32{label, pipelinetest.IDs, pipelinetest.Text},
		number, &pb.Type{Kind: pb.Kind_INT64, List: true}, &pb.Type{Kind: pb.Kind_BINARY}, &pb.Type{Kind: pb.Kind_INT64})
	of(mixed, twice, twice+1, twice+2, twice+3)
	return plain, mixed
}

func same(_ context.Context, c *transform.Call) error {
	*c.Out[0] = *c.In[0]
	return nil
}

// shown is a row of such a program.
type shown struct {
	window      uint32
	k           uint64
	source, row int64
	label       int32
	ids         []int64
	text        string
}

func show(ctx context.Context, p *Pipeline, t *pb.Ticket, program *pb.Program, at Cursor) (rows []shown, err error) {
	s, err := p.Open(ctx, t, program, at)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	err = s.Run(ctx, func(_ context.Context, b Batch) error {
		defer b.Release()
		rec := b.Record()
		for i := range int(rec.NumRows()) {
			rows = append(rows, shownRow(rec, i, b.Meta))
		}
		return nil
	})
	return rows, err
}

func shownRow(rec arrow.Record, i int, m *pb.BatchMeta) shown {
	r := shown{window: m.GetWindow(), k: m.GetK() + uint64(i)}
	r.label = rec.Column(0).(*array.Int32).Value(i)
	ids := rec.Column(1).(array.ListLike)
	from, to := ids.ValueOffsets(i)
	r.ids = append(r.ids, ids.ListValues().(*array.Int64).Int64Values()[from:to]...)
	r.text = string(rec.Column(2).(*array.Binary).Value(i))
	r.row = rec.Column(3).(*array.Int64).Value(i)
	r.source = rec.Column(rec.Schema().FieldIndices(tensors.RowColumn)[0]).(*array.Int64).Value(i)
	return r
}

// TestFunctionsGetTheRowsThatPassed compares what comes of functions with what comes without, and the same by hand:
// rows and their order are the same, and each function was called once for each window that has rows, on these, in the
// file's order. So it is from every cursor of a window.
func TestFunctionsGetTheRowsThatPassed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		groups := rapid.SliceOfN(rapid.IntRange(1, 60), 1, 3).Draw(rt, "row groups")
		var store pipelinetest.Store
		f := store.Put("mem://f.parquet", pipelinetest.Parquet(t, rapid.Uint64().Draw(rt, "file"), groups...))
		ticket := pipelinetest.Ticket(t, &store, f, rapid.Int64Range(1, 40).Draw(rt, "window"))
		ticket.Epoch, ticket.Code = rapid.Uint32Range(0, 2).Draw(rt, "epoch"), &pb.StoredCode{Sha256: []byte("code")}
		plain, mixed := anyMix(rt)
		batch := rapid.Int64Range(1, 4000).Draw(rt, "batch")
		python := &fakePython{functions: map[string]func(context.Context, *transform.Call) error{
			"mixes": mixes, "same": same,
		}}
		p := withPython(newPipeline(&store, batch), python)
		defer p.Close()
		all, err := show(t.Context(), p, ticket, plain, Cursor{})
		if err != nil {
			rt.Fatal(err)
		}
		checkMix(rt, p, python, ticket, mixed, all, Cursor{})
		if len(all) == 0 {
			return
		}
		resumed := rapid.SampledFrom(all).Draw(rt, "a row of the window that is resumed").window
		for _, r := range all {
			if r.window == resumed {
				checkMix(rt, p, python, ticket, mixed, all, Cursor{Window: r.window, K: r.k})
				checkMix(rt, p, python, ticket, mixed, all, Cursor{Window: r.window, K: r.k + 1})
			}
		}
		if p.Close(); python.open(t) > 0 || p.MemoryInUse() > 0 {
			rt.Fatalf("%d functions are open, %d bytes are in use", python.open(t), p.MemoryInUse())
		}
	})
}

// checkMix reads from a cursor, and compares with all rows of the plain program.
func checkMix(
	t *rapid.T, p *Pipeline, python *fakePython, ticket *pb.Ticket, mixed *pb.Program, all []shown, at Cursor,
) {
	python.took()
	got, err := show(t.Context(), p, ticket, mixed, at)
	if err != nil {
		t.Fatalf("from %v: %v", at, err)
	}
	var want []shown
	var calls []fakeCall
	for _, r := range all {
		if r.window < at.Window {
			continue
		}
		if r.k == 0 {
			calls = append(calls, fakeCall{name: "same"}, fakeCall{name: "mixes"})
		}
		for i := len(calls) - 2; i < len(calls); i++ {
			calls[i].rows = append(calls[i].rows, r.source)
		}
		if r.window == at.Window && r.k < at.K {
			continue
		}
		r.label, r.row = 2*r.label, r.source
		r.text = fmt.Sprintf("%s/%d", r.text, len(r.text))
		r.ids = slices.Clone(r.ids)
		slices.Reverse(r.ids)
		want = append(want, r)
	}
	for _, c := range calls {
		slices.Sort(c.rows)
	}
	if !slices.EqualFunc(got, want, func(a, b shown) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Fatalf("from %v: got %v, want %v", at, got, want)
	}
	if took := python.took(); fmt.Sprint(took) != fmt.Sprint(calls) {
		t.Fatalf("from %v: calls %v, want %v", at, took, calls)
	}
}

// doubles is a program whose function doubles labels, and a ticket for it.
func doubles(t testing.TB, store *pipelinetest.Store, name string) (*pb.Program, *pb.Ticket) {
	t.Helper()
	program := pipelinetest.Program()
	program.Filter = "label > 0"
	slot := call(program, name, []uint32{pipelinetest.Label}, &pb.Type{Kind: pb.Kind_INT32})
	program.Outputs[3].Slots[0] = slot
	ticket := shard(t, store, 50, 100, 100)
	ticket.ProgramDigest, ticket.Code = []byte("digest"), &pb.StoredCode{Sha256: []byte("code")}
	return program, ticket
}

// Errors of functions say where: file, row group and rows, and the row where it is about one.
func TestErrorsOfFunctions(t *testing.T) {
	var store pipelinetest.Store
	broken := errors.New("ValueError: bad text")
	python := &fakePython{functions: map[string]func(context.Context, *transform.Call) error{
		"fails": func(ctx context.Context, c *transform.Call) error {
			if c.Rows.First >= 150 {
				return broken
			}
			return same(ctx, c)
		},
		"minds a row": func(context.Context, *transform.Call) error {
			return &transform.RowError{Row: 2, What: "has a bad text"}
		},
		"makes too few": func(_ context.Context, c *transform.Call) error {
			*c.Out[0] = *c.In[0]
			c.Out[0].Rows--
			return nil
		},
	}}
	for name, want := range map[string]string{
		"fails":         "mem://f.parquet row group 1, rows 150 to 199: transforms[0] (python fails): ValueError: bad text",
		"minds a row":   "mem://f.parquet row group 0, rows 0 to 49: transforms[0] (python minds a row): row",
		"makes too few": "transforms[0] (python makes too few): result out: the function made",
	} {
		p := withPython(newPipeline(&store, 500), python)
		program, ticket := doubles(t, &store, name)
		_, _, err := collect(t.Context(), p, ticket, program, Cursor{})
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, ErrProgram) ||
			name == "fails" && !errors.Is(err, broken) {
			t.Errorf("got %v, want %s", err, want)
		}
		calls := python.took()
		if name != "fails" && len(calls) != 1 {
			t.Errorf("%s: called %d times", name, len(calls))
		}
		if row := fmt.Sprintf("row %d has", calls[0].rows[2]); name == "minds a row" && (calls[0].rows[2] == 2 ||
			!strings.Contains(err.Error(), row)) {
			t.Errorf("got %v, want %s", err, row)
		}
		if n, _ := kept(p); python.open(t) != 0 || n != 0 || p.MemoryInUse() != 0 {
			t.Errorf("%s: %d functions are open, %d kits", name, python.open(t), n)
		}
	}
}

// A worker that cannot run a program's functions says why: who lacks Python lacks an op.
func TestFunctionsThatCannotBeHad(t *testing.T) {
	var store pipelinetest.Store
	needCode := errors.New("need code")
	for _, c := range []struct {
		python  Python
		is      error
		program bool
		want    string
	}{
		{nil, ErrProgram, true, "this worker runs no Python functions"},
		{&fakePython{err: needCode}, needCode, false, "the session's code: need code"},
		{&fakePython{}, errNoModule, false, "transforms[0] (python f): no module named torch"},
	} {
		program, ticket := doubles(t, &store, "f")
		p := withPython(newPipeline(&store, 500), c.python)
		_, err := p.Open(t.Context(), ticket, program, Cursor{})
		if !errors.Is(err, c.is) || errors.Is(err, ErrProgram) != c.program || !strings.Contains(err.Error(), c.want) ||
			p.MemoryInUse() != 0 {
			t.Errorf("got %v, want %s; %d bytes are in use", err, c.want, p.MemoryInUse())
		}
		if _, err := p.Count(t.Context(), ticket, program); err != nil {
			t.Errorf("counting: %v", err)
		}
	}
}

// A kit keeps the functions, with the memory that these took, and closes them in the end.
func TestKitsKeepFunctions(t *testing.T) {
	const takes = 1 << 20
	var store pipelinetest.Store
	first := true
	var sessions []string // that it was called for
	python := &fakePython{functions: map[string]func(context.Context, *transform.Call) error{
		"takes": func(ctx context.Context, c *transform.Call) error {
			sessions = append(sessions, c.Session)
			if first {
				first = false
				return errors.Join(same(ctx, c), c.Room(takes))
			}
			return same(ctx, c)
		},
	}}
	program, ticket := doubles(t, &store, "takes")
	p := withPython(newPipeline(&store, 500), python)
	for i := range 3 {
		ticket.Session, sessions = fmt.Sprint("run ", i), nil
		if err := run(t, p, ticket, program); err != nil {
			t.Fatal(err)
		}
		if n, bytes := kept(p); n != 1 || bytes < takes || bytes > 2*takes || python.open(t) != 1 {
			t.Errorf("%d kits of %d bytes, %d functions", n, bytes, python.open(t))
		}
		if slices.Sort(sessions); len(sessions) == 0 || sessions[0] != ticket.Session || len(slices.Compact(sessions)) != 1 {
			t.Errorf("%s: it is called for %q", ticket.Session, sessions)
		}
	}
	other := proto.Clone(ticket).(*pb.Ticket)
	other.Code.Sha256 = []byte("other code")
	if err := run(t, p, other, program); err != nil {
		t.Fatal(err)
	}
	if n, _ := kept(p); n != 2 || python.open(t) != 2 {
		t.Errorf("%d kits, %d functions, of two sessions' code", n, python.open(t))
	}
	if !slices.ContainsFunc(p.Counters().GetOps(), func(o *pb.OpTime) bool { return o.GetOp() == "python takes" }) {
		t.Errorf("the time of the function is not told: %v", p.Counters().GetOps())
	}
	expire(p, 0)
	if n := python.open(t); n != 0 {
		t.Errorf("%d functions are open without a kit", n)
	}
	first = true
	ticket.ProgramDigest = nil
	p = withPython(withMemory(newPipeline(&store, 500), takes, takes), python)
	if err := run(t, p, ticket, program); !errors.Is(err, ErrLimit) || python.open(t) != 0 {
		t.Errorf("a function that takes all memory: %v; %d are open", err, python.open(t))
	}
}

// While a function runs, its trainer hears of the stream, and takes nothing from that; what it does not take stops
// nobody.
func TestWaitingForAFunction(t *testing.T) {
	var store pipelinetest.Store
	var heard chan struct{}
	python := &fakePython{functions: map[string]func(context.Context, *transform.Call) error{
		"slow": func(ctx context.Context, c *transform.Call) error {
			for {
				if err := c.Wait(); err != nil {
					return err
				}
				select {
				case <-heard:
					return same(ctx, c)
				case <-ctx.Done():
					return ctx.Err()
				default:
					runtime.Gosched()
				}
			}
		},
	}}
	program, ticket := doubles(t, &store, "slow")
	p := withPython(newPipeline(&store, 1<<20), python)
	for _, at := range []Cursor{{}, {Window: 1, K: 3}, {Window: 2}} {
		heard = make(chan struct{}, 1)
		s, err := p.Open(t.Context(), ticket, program, at)
		if err != nil {
			t.Fatal(err)
		}
		next, empty, rows := at, 0, 0
		err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
			defer b.Release()
			m := b.Meta
			if m.GetRows() > 0 {
				rows, next = rows+int(m.GetRows()), Cursor{Window: m.GetWindow() + 1}
				return nil
			}
			if empty++; m.GetWindow() != next.Window || m.GetK() != next.K || m.GetLast() || b.Record().NumRows() != 0 {
				t.Errorf("an empty batch says %v at %v", m, next)
			}
			select {
			case heard <- struct{}{}:
			default:
			}
			return nil
		})
		s.Close()
		if err != nil || empty == 0 || rows == 0 {
			t.Errorf("from %v: %v; %d empty batches, %d rows", at, err, empty, rows)
		}
	}
	p.Close()
}

// Pictures of what a function makes are those of what it was called with, drawn by the rows of the file.
func TestPicturesOfFunctions(t *testing.T) {
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", squares(t, 12, 9, 120)), 50)
	ticket.Code = &pb.StoredCode{Sha256: []byte("code")}
	python := &fakePython{functions: map[string]func(context.Context, *transform.Call) error{
		"twice": func(_ context.Context, c *transform.Call) error {
			*c.Out[0], *c.Out[1] = *c.In[0], *c.In[0]
			return nil
		},
	}}
	photos := func(filter string, function bool) []row {
		p := &pb.Program{Provenance: true, Seed: 7, Shuffle: true, Filter: filter}
		p.Sources = []*pb.Source{
			{Name: "label", Path: []string{"label"}, Type: &pb.Type{Kind: pb.Kind_INT32}},
			{Name: "text", Path: []string{"text"}, Type: &pb.Type{Kind: pb.Kind_BINARY}},
		}
		text, binary := uint32(1), &pb.Type{Kind: pb.Kind_BINARY}
		if function {
			text = 1 + call(p, "twice", []uint32{1}, binary, binary)
		}
		photo := step(p, "decode_png", nil, text)
		photo = step(p, "random_resized_crop", map[string]*pb.Value{"size": num(4)}, photo)
		photo = step(p, "flip", nil, photo)
		p.Outputs = []*pb.Output{{
			Name: "photo", Layout: pb.Layout_IMAGE, Slots: []uint32{photo}, Shape: []int32{4, 4, 3}, Type: binary,
		}}
		rows, _, err := collect(t.Context(), withPython(newPipeline(&store, 3000), python), ticket, p, Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	for _, filter := range []string{"", "label % 3 == 1", "label in (4, 77)"} {
		if got, want := photos(filter, true), photos(filter, false); !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%q: %d photos, which are not the %d without a function", filter, len(got), len(want))
		}
	}
}
