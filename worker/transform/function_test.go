package transform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/vector"
)

// functions are those of a test: all are one.
type functions func(ctx context.Context, c *Call) error

func (f functions) Function(*pb.Step, []spec.Type) (Function, error) { return &function{call: f}, nil }

type function struct {
	call   functions
	closed int
}

func (f *function) Call(ctx context.Context, c *Call) error { return f.call(ctx, c) }

func (f *function) Close() { f.closed++ }

// calls is a step that calls a function with slots, and makes results of types.
func calls(in []uint32, out ...spec.Type) *pb.Step {
	s := &pb.Step{
		Op: python, Version: 1, In: in, Outs: uint32(len(out)), At: "transforms[0]", Type: out[0].Proto(),
		Python: &pb.Function{Name: "f"},
	}
	var names []string
	for i, t := range out {
		if names = append(names, fmt.Sprint("out", i)); i > 0 {
			s.More = append(s.More, t.Proto())
		}
	}
	s.Name = strings.Join(names, ", ")
	return s
}

// A function gets the values of its inputs, and its results are slots as those of ops are.
func TestFunctionsAreSteps(t *testing.T) {
	ids, small := list(pb.Kind_INT64), spec.Type{Kind: pb.Kind_UINT16, List: true, Nested: 1}
	program := &pb.Program{
		Sources: []*pb.Source{
			{Name: "ids", Type: ids.Proto()},
			{Name: "text", Type: scalar(pb.Kind_BINARY).Proto()},
			{Name: "small", Type: small.Proto()},
		},
		Steps: []*pb.Step{
			calls([]uint32{0, 1, 2}, scalar(pb.Kind_INT64), scalar(pb.Kind_BINARY), small),
			{
				Op: "fill_null", Version: 1, Params: values{"value": 7}.proto(), In: []uint32{3}, Outs: 1,
				Name: "filled", At: "transforms[1]", Type: scalar(pb.Kind_INT64).Proto(),
			},
		},
	}
	sum := functions(func(_ context.Context, c *Call) error {
		if c.N != 3 || c.Rows.First != 5 || c.Wait() != nil {
			t.Errorf("a call of %d rows, of %+v", c.N, c.Rows)
		}
		ids, text, small := c.In[0], c.In[1], c.In[2]
		sums := c.Out[0]
		sums.Rows, sums.I64, sums.Valid = 3, make([]int64, 3), []uint64{0b011}
		for row := range 3 {
			for j := ids.Offsets[row]; j < ids.Offsets[row+1]; j++ {
				if !ids.ElemIsNull(int(j)) {
					sums.I64[row] += ids.I64[j]
				}
			}
		}
		*c.Out[1] = *text
		*c.Out[2] = *small
		return c.Room(100)
	})
	c, err := Compile(Builtin(), program, sum)
	if err != nil {
		t.Fatal(err)
	}
	asked := int64(0)
	c.Ask(Ask{Scratch: func(n int64) error { asked += n; return nil }})
	for range 3 {
		c.Place(Rows{First: 5, N: 3}, images.Room{})
		slots, err := c.Run(t.Context(), []*vector.Vector{
			vectorOf(ids, []any{[]any{int64(1), nil}, []any{int64(3)}, nil}),
			vectorOf(scalar(pb.Kind_BINARY), []any{[]byte("a"), nil, []byte("c")}),
			{
				Type: small, Rows: 3, Offsets: []int32{0, 1, 1, 1}, Nested: []vector.Level{{Offsets: []int32{0, 2}}},
				Small: []byte{1, 0, 9, 9}, ElemValid: []uint64{1},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := rowsOf(slots[6]); len(slots) != 7 || !same(got, []any{int64(1), int64(3), int64(7)}) {
			t.Errorf("%d slots; filled sums %v", len(slots), got)
		}
		if got := rowsOf(slots[4]); !same(got, []any{[]byte("a"), nil, []byte("c")}) || slots[5].Small[0] != 1 {
			t.Errorf("texts %v, small %v", got, slots[5].Small)
		}
	}
	if own := slices.Collect(c.Results()); !c.Calls() || len(own) != 1 || own[0].Type != scalar(pb.Kind_INT64) {
		t.Errorf("%d results are of steps that call no function", len(own))
	}
	if asked != 300 || c.Kept() != asked { // 100 each time
		t.Errorf("asked for %d bytes, %d are kept", asked, c.Kept())
	}
	if want := []string{"python f", "fill_null"}; !slices.Equal(c.Ops(), want) {
		t.Errorf("the steps are %v, want %v", c.Ops(), want)
	}
}

// Whatever a function makes, an error says what is wrong with it.
func TestRunSurvivesBadFunctions(t *testing.T) {
	own := errors.New("own error")
	lists := func(c *Call, offsets ...int32) { c.Out[1].Offsets = offsets }
	for want, spoil := range map[string]func(c *Call) error{
		"own error": func(*Call) error { return own },
		"no room":   func(c *Call) error { return c.Room(1 << 30) },
		"row 12 has no words": func(*Call) error {
			return &RowError{Row: 2, What: "has no words"}
		},
		"the op panicked":                                     func(*Call) error { panic("oh") },
		"says which rows they are of":                         func(c *Call) error { c.Parents = []int32{0}; return nil },
		"result out0: the function made 2 rows of int64":      func(c *Call) error { c.Out[0].Rows = 2; return nil },
		"result out0: the function made 3 rows of float64":    func(c *Call) error { c.Out[0].Type.Kind = 5; return nil },
		"result out0: the function made 2 values where":       func(c *Call) error { c.Out[0].I64 = make([]int64, 2); return nil },
		"result out0: the function made no plain values":      func(c *Call) error { c.Out[0].U32 = make([]uint32, 3); return nil },
		"result out0: the function made a validity bitmap":    func(c *Call) error { c.Out[0].Valid = []uint64{}; return nil },
		"result out1: the function made 3 offsets":            func(c *Call) error { lists(c, 0, 1, 2); return nil },
		"result out1: the function made 0 offsets":            func(c *Call) error { lists(c); return nil },
		"result out1: the function made list 1 end at 0":      func(c *Call) error { lists(c, 0, 1, 0, 2); return nil },
		"result out1: the function made 2 ends for 2 values":  func(c *Call) error { lists(c, 0, 1, 1, 2); c.Out[1].Ends = []int32{0, 1}; return nil },
		"result out1: the function made value 0 lie":          func(c *Call) error { c.Out[1].Ends = []int32{2, 1, 3}; return nil },
		"result out1: the function made value 1 lie":          func(c *Call) error { c.Out[1].Ends = []int32{0, 1, 4}; return nil },
		"result out1: the function made 2 ends for 2 values,": func(c *Call) error { c.Out[1].Ends = c.Out[1].Ends[:2]; return nil },
		"result out1: the function made list 2 null, with 1":  func(c *Call) error { c.Out[1].Valid = []uint64{3}; return nil },
		"result out1: the function made lists of 2 levels":    func(c *Call) error { c.Out[1].Nested = make([]vector.Level, 1); return nil },
		"result out2: the function made 1 values where":       func(c *Call) error { c.Out[2].Small = make([]byte, 3); return nil },
	} {
		bad := functions(func(_ context.Context, c *Call) error {
			c.Out[0].Rows, c.Out[0].I64 = 3, make([]int64, 3)
			c.Out[1].Rows, c.Out[1].Offsets, c.Out[1].Ends, c.Out[1].Data = 3, []int32{0, 1, 1, 2}, []int32{0, 1, 3}, []byte("abc")
			c.Out[2].Rows, c.Out[2].Small = 3, make([]byte, 6)
			return spoil(c)
		})
		c, err := Compile(Builtin(), &pb.Program{
			Sources: []*pb.Source{{Name: "x", Type: scalar(pb.Kind_INT64).Proto()}},
			Steps:   []*pb.Step{calls([]uint32{0}, scalar(pb.Kind_INT64), list(pb.Kind_BINARY), scalar(pb.Kind_FLOAT16))},
		}, bad)
		if err != nil {
			t.Fatal(err)
		}
		c.Ask(Ask{Scratch: func(int64) error { return errors.New("no room") }})
		c.Place(Rows{First: 10, N: 3}, images.Room{})
		_, err = c.Run(t.Context(), []*vector.Vector{vectorOf(scalar(pb.Kind_INT64), []any{int64(1), int64(2), int64(3)})})
		if err == nil || !strings.HasPrefix(err.Error(), "transforms[0] (python f): ") ||
			!strings.Contains(err.Error(), want) || want == "own error" && !errors.Is(err, own) {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, panicked := errors.AsType[*rescue.PanicError](err); panicked != (want == "the op panicked") {
			t.Errorf("%s: panicked %v", want, panicked)
		}
	}
}

// What passes as a result can be read, whatever it is made of.
func TestSoundResultsCanBeRead(t *testing.T) {
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]pb.Kind{pb.Kind_INT32, pb.Kind_BINARY, pb.Kind_BOOL, pb.Kind_UINT16}).Draw(t, "kind")
		typ := spec.Type{Kind: kind, List: rapid.Bool().Draw(t, "list")}
		if typ.List {
			typ.Nested = uint32(rapid.IntRange(0, 1).Draw(t, "nested"))
		}
		rows := rapid.IntRange(1, 3).Draw(t, "rows")
		offsets := func(what string) []int32 { return rapid.SliceOfN(rapid.Int32Range(-1, 3), 0, 5).Draw(t, what) }
		rising := func(what string) []int32 { // else hardly any pass
			o := offsets(what)
			if len(o) > 0 && rapid.IntRange(0, 9).Draw(t, "rising") > 0 {
				slices.Sort(o)
				o[0] = 0
			}
			return o
		}
		bits := func(what string) []uint64 {
			return rapid.SampledFrom([][]uint64{nil, {}, {5}, {7, 7}}).Draw(t, what)
		}
		length := rapid.IntRange(0, 8)
		v := &vector.Vector{
			Type: typ, Rows: rows, Valid: bits("valid"), ElemValid: bits("elements valid"), Offsets: rising("offsets"),
			I32: make([]int32, length.Draw(t, "values")), Bool: make([]bool, length.Draw(t, "bools")),
			Small: make([]byte, length.Draw(t, "small")), Data: make([]byte, length.Draw(t, "bytes")),
			Ends: rising("ends"),
		}
		if rapid.IntRange(0, 9).Draw(t, "levels") < 5+5*int(typ.Nested) {
			v.Nested = []vector.Level{{Offsets: rising("level"), Valid: bits("level valid")}}
		}
		if sound(v, typ, rows) != nil {
			return
		}
		passed++
		all := make([]int32, rows)
		for row := range all {
			all[row] = int32(row)
			v.IsNull(row)
		}
		for j := range v.Len() {
			v.ElemIsNull(j)
		}
		new(vector.Excerpt).Take(v, all)
	})
	if passed == 0 {
		t.Error("no vector passed")
	}
}

// A program whose functions cannot be had is refused, and names the step.
func TestCompileRefusesFunctions(t *testing.T) {
	number := scalar(pb.Kind_INT64)
	none := errors.New("none of them")
	for _, c := range []struct {
		want    string
		unknown bool
		spoil   func(s *pb.Step)
		from    Functions
	}{
		{"unknown op python: this worker runs no Python functions", true, func(*pb.Step) {}, nil},
		{"of version 2", true, func(s *pb.Step) { s.Version = 2 }, functions(nil)},
		{"kind 9", true, func(s *pb.Step) { s.Python.Kind = 9 }, functions(nil)},
		{"makes 1 features, but the program counts 2", false, func(s *pb.Step) { s.Outs = 2 }, functions(nil)},
		{"reads slot 9, but only 1 come before it", false, func(s *pb.Step) { s.In[0] = 9 }, functions(nil)},
		{"neither which function", false, func(s *pb.Step) { s.In = nil }, functions(nil)},
		{"functions make no kind", false, func(s *pb.Step) { s.Type = &pb.Type{} }, functions(nil)},
		{"none of them", false, func(*pb.Step) {}, noFunctions{none}},
	} {
		s := calls([]uint32{0}, number)
		c.spoil(s)
		p := &pb.Program{Sources: []*pb.Source{{Name: "x", Type: number.Proto()}}, Steps: []*pb.Step{s}}
		_, err := Compile(Builtin(), p, c.from)
		if err == nil || !strings.HasPrefix(err.Error(), "transforms[0] (python f): ") ||
			!strings.Contains(err.Error(), c.want) || errors.Is(err, ErrUnknownOp) != c.unknown {
			t.Errorf("got %v, want %s", err, c.want)
		}
		if _, is := errors.AsType[*FunctionError](err); is != errors.Is(err, none) {
			t.Errorf("%v: a FunctionError: %v", err, is)
		}
	}
}

type noFunctions struct{ err error }

func (f noFunctions) Function(*pb.Step, []spec.Type) (Function, error) { return nil, f.err }

// keptFunctions gives functions, and knows them.
type keptFunctions struct{ made []*function }

func (f *keptFunctions) Function(*pb.Step, []spec.Type) (Function, error) {
	f.made = append(f.made, &function{})
	return f.made[len(f.made)-1], nil
}

// Each function is closed once, also where the program does not compile in the end.
func TestFunctionsAreClosed(t *testing.T) {
	number := scalar(pb.Kind_INT64)
	p := &pb.Program{
		Sources: []*pb.Source{{Name: "x", Type: number.Proto()}},
		Steps:   []*pb.Step{calls([]uint32{0}, number), calls([]uint32{1}, number)},
	}
	var good, bad keptFunctions
	c, err := Compile(Builtin(), p, &good)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	p.Steps = append(p.Steps, &pb.Step{Op: "no such"})
	if _, err := Compile(Builtin(), p, &bad); err == nil {
		t.Error("an unknown op compiles")
	}
	for _, f := range slices.Concat(good.made, bad.made) {
		if f.closed != 1 {
			t.Errorf("a function is closed %d times", f.closed)
		}
	}
	if len(good.made) != 2 || len(bad.made) != 2 {
		t.Errorf("%d and %d functions", len(good.made), len(bad.made))
	}
}
