package transform

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

func TestCheckFillsInDefaults(t *testing.T) {
	sig, err := Builtin().Check("sigrid_hash", values{"max": 1e6}.proto(), []spec.Type{list(pb.Kind_BINARY)})
	if err != nil {
		t.Fatal(err)
	}
	if sig.Version != 1 || sig.Out != list(pb.Kind_INT64) || sig.SelectsRows {
		t.Errorf("got %+v", sig)
	}
	if salt, ok := sig.Params["salt"].GetKind().(*pb.Value_Int); !ok || salt.Int != 0 {
		t.Errorf("salt: got %v, want 0", sig.Params["salt"])
	}
	if limit, ok := sig.Params["max"].GetKind().(*pb.Value_Int); !ok || limit.Int != 1e6 {
		t.Errorf("max: got %v, want the int 1000000", sig.Params["max"])
	}
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	ints, floats, text := scalar(pb.Kind_INT32), scalar(pb.Kind_FLOAT32), scalar(pb.Kind_BINARY)
	cases := []struct {
		op     string
		params values
		in     []spec.Type
		want   string
	}{
		{"clmp", nil, nil, "unknown op clmp; nearest: clamp"},
		{"newer", nil, nil, "unknown op newer; `penstock ops` lists those there are"},
		{
			"sigrid_hash",
			values{"max": 9, "columns": 1},
			[]spec.Type{ints},
			"columns: no such parameter of sigrid_hash; it has salt, max",
		},
		{"sigrid_hash", values{"max": "abc"}, []spec.Type{ints}, "max: want a positive int, found 'abc'"},
		{"sigrid_hash", values{"max": 0}, []spec.Type{ints}, "max: want a positive int, found 0"},
		{"sigrid_hash", values{"max": 1.5}, []spec.Type{ints}, "max: want a positive int, found 1.5"},
		{
			"sigrid_hash",
			values{"slat": 1},
			[]spec.Type{ints},
			"slat: no such parameter of sigrid_hash; nearest: salt; max: missing; want a positive int",
		},
		{
			"sigrid_hash",
			values{"max": 9},
			[]spec.Type{floats},
			"in: want a scalar or list of ints or text, found float32",
		},
		{"log1p", values{"base": 2}, []spec.Type{floats}, "base: log1p has no parameters"},
		{"log1p", nil, []spec.Type{text}, "in: want a scalar or list of numbers, found binary; cast turns it into one"},
		{"log1p", nil, []spec.Type{floats, floats}, "in: log1p takes one feature at a time, found 2"},
		{
			"cast",
			values{"to": "int16"},
			[]spec.Type{text},
			"to: want one of bool, int32, int64, float32, float64, found 'int16'",
		},
		{"clamp", nil, []spec.Type{floats}, "min, max: missing; want one of them, or both"},
		{
			"clamp",
			values{"min": 0.5},
			[]spec.Type{ints},
			"min: want an int from -2147483648 to 2147483647 to clamp int32, found 0.5",
		},
		{
			"clamp",
			values{"min": 2, "max": 1},
			[]spec.Type{floats},
			"min: want one that is not above max, found 2 and 1",
		},
		{"clamp", values{"min": 2, "max": 1}, []spec.Type{ints}, "min: want one that is not above max, found 2 and 1"},
		{"clamp", values{"min": 1e39}, []spec.Type{floats}, "min: want a finite float32, found 1e+39"},
		{
			"clamp",
			values{"min": 0, "max": 1e39},
			[]spec.Type{list(pb.Kind_FLOAT32)},
			"max: want a finite float32, found 1e+39",
		},
		{
			"fill_null",
			values{"value": -1e39},
			[]spec.Type{floats},
			"value: want a finite float32 to fill float32, found -1e+39",
		},
		{"fill_null", values{"value": "x"}, []spec.Type{floats}, "value: want a number to fill float32, found 'x'"},
		{
			"fill_null",
			values{"value": 1 << 40},
			[]spec.Type{ints},
			"value: want an int of 32 bits to fill int32, found 1099511627776",
		},
		{
			"fill_null",
			values{"value": 1},
			[]spec.Type{list(pb.Kind_BOOL)},
			"value: want true or false to fill list<bool>, found 1",
		},
		{
			"fill_null",
			values{"value": []float64{1}},
			[]spec.Type{ints},
			"value: want a number, text or bool, found [1]",
		},
		{"normalize", values{"mean": 1, "std": 0}, []spec.Type{floats}, "std: want a finite float32 above 0, found 0"},
		{
			"normalize",
			values{"mean": 1e300, "std": 1},
			[]spec.Type{floats},
			"mean: want a finite float32, found 1e+300",
		},
		{
			"bucketize",
			values{"borders": []float64{2, 1}},
			[]spec.Type{floats},
			"borders: want ascending order, found 2 before 1",
		},
		{"bucketize", values{"borders": []any{}}, []spec.Type{floats}, "borders: want at least one"},
		{
			"bucketize",
			values{"borders": []any{1, "a"}},
			[]spec.Type{floats},
			"borders: want a list of numbers, found [1, 'a']",
		},
		{
			"bucketize",
			values{"borders": []any{int64(1<<60 + 1), int64(1 << 60)}},
			[]spec.Type{ints},
			"borders: want ascending order, found 1152921504606846977 before 1152921504606846976",
		},
		{"first_x", values{"x": 3}, []spec.Type{ints}, "in: want a list, found int32"},
		{"ngram", values{"n": 2}, nil, "in: missing; want features of ints"},
		{
			"ngram",
			values{"n": 2},
			[]spec.Type{ints, text},
			"in: want scalars or lists of ints, found binary; sigrid_hash makes ids of text",
		},
		{"sample", values{"rate": 1.5}, nil, "rate: want a number from 0 to 1, found 1.5"},
		{"sample", values{"rate": 1}, []spec.Type{ints}, "in: sample selects rows and takes no features, found 1"},
	}
	for _, c := range cases {
		_, err := Builtin().Check(c.op, c.params.proto(), c.in)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s %v of %v\ngot  %v\nwant %s", c.op, c.params, c.in, err, c.want)
		}
	}
}

func TestMaps(t *testing.T) {
	for op, want := range map[string][2]bool{
		"clamp": {true, true}, "ngram": {false, true}, "sample": {false, true},
		"clmp": {},
	} {
		if maps, ok := Builtin().Maps(op); maps != want[0] || ok != want[1] {
			t.Errorf("%s: got %v, %v, want %v", op, maps, ok, want)
		}
	}
}

func TestWithRefusesIncompleteOps(t *testing.T) {
	good := normalize()
	cases := map[string]func(op *Op){
		"it has no name":                         func(op *Op) { op.Name = "" },
		"its version is 0":                       func(op *Op) { op.Version = 0 },
		"exactly one of New and Select":          func(op *Op) { op.New = nil },
		"it has New but not Infer":               func(op *Op) { op.Infer = nil },
		"no inputs to map":                       func(op *Op) { *op = sample(); op.Maps = true },
		`may not be named "in"`:                  func(op *Op) { op.Params = []Param{{Name: "in", Want: Int}} },
		"parameter a does not say what it takes": func(op *Op) { op.Params = []Param{{Name: "a"}} },
		"parameter a is declared twice": func(op *Op) {
			op.Params = []Param{
				{Name: "a", Want: Int},
				{Name: "a", Want: Int},
			}
		},
		"parameter a: 0.5 cannot be its default": func(op *Op) {
			op.Params = []Param{
				{Name: "a", Want: Int, Default: 0.5},
			}
		},
		"parameter a: 1 cannot be its default": func(op *Op) {
			op.Params = []Param{
				{Name: "a", Want: Int, Default: 1, Required: true},
			}
		},
		"there is one of that name and version already": func(op *Op) { op.Name = "clamp" },
		"parameter a: [1] cannot be its default": func(op *Op) {
			op.Params = []Param{
				{Name: "a", Want: Numbers, Default: []int{1}},
			}
		},
		"parameter a: nothing cannot be its default": func(op *Op) {
			op.Params = []Param{
				{Name: "a", Want: Text, OneOf: []string{"x"}, Default: "nothing"},
			}
		},
		"parameter a: -1 cannot be its default": func(op *Op) {
			op.Params = []Param{
				{Name: "a", Want: PositiveInt, Default: -1},
			}
		},
		"parameter a: true cannot be its default": func(op *Op) {
			op.Params = []Param{
				{Name: "a", Want: Number, Default: true},
			}
		},
		"parameter a: yes cannot be its default": func(op *Op) {
			op.Params = []Param{
				{Name: "a", Want: Bool, Default: "yes"},
			}
		},
		"parameter a: 1.5 cannot be its default": func(op *Op) {
			op.Params = []Param{
				{Name: "a", Want: Share, Default: 1.5},
			}
		},
		`add op "standardize" to the registry: param`: func(op *Op) {
			op.Name = "standardize"
			op.Params = []Param{
				{},
			}
		},
	}
	for want, spoil := range cases {
		op := good
		op.Name = "own"
		spoil(&op)
		if _, err := Builtin().With(op); err == nil ||
			!strings.Contains(err.Error(), strings.Replace(want, ": param", ": a param", 1)) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestWithLeavesTheOldRegistryAlone(t *testing.T) {
	old := Builtin()
	op := clamp()
	op.Name = "own"
	grown, err := old.With(op)
	if err != nil {
		t.Fatal(err)
	}
	if n, m := len(old.Names()), len(grown.Names()); m != n+1 {
		t.Errorf("got %d and %d ops", n, m)
	}
	if _, err := old.Check("own", nil, nil); !errors.Is(err, ErrUnknownOp) {
		t.Errorf("the old registry: got %v, want ErrUnknownOp", err)
	}
}

// TestVersions holds that specs get an op's newest version, and sessions theirs.
func TestVersions(t *testing.T) {
	op := func(version uint32) Op {
		return Op{
			Name: "own", Version: version, Summary: "s", Inputs: "i", Output: "o", Example: "{op: own}",
			Select: func(Params, []spec.Type) (Selector, error) { return nil, fmt.Errorf("version %d", version) },
		}
	}
	r, err := Builtin().With(op(2), op(1), op(3))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Check("own", nil, nil); err == nil || !strings.Contains(err.Error(), "version 3") {
		t.Errorf("a spec gets %v", err)
	}
	for version, want := range map[uint32]string{
		1: "version 1", 2: "version 2", 3: "version 3",
		4: "this worker has version 1 and 2 and 3",
	} {
		_, err := Compile(r, &pb.Program{Steps: []*pb.Step{{Op: "own", Version: version, At: "transforms[0]"}}}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, ErrUnknownOp) != (version == 4) {
			t.Errorf("a session that pinned version %d gets %v", version, err)
		}
	}
	if n := len(r.Names()); n != len(Builtin().Names())+1 || len(r.Ops()) != n {
		t.Errorf("%d names, %d ops", n, len(r.Ops()))
	}
}

func TestCatalogue(t *testing.T) {
	var table strings.Builder
	if err := Builtin().WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(Builtin().Describe())
	if err != nil {
		t.Fatal(err)
	}
	var back []Description
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	for i, op := range Builtin().Ops() {
		if op.Summary == "" || op.Inputs == "" || op.Output == "" || !strings.Contains(op.Example, "op: "+op.Name) {
			t.Errorf("%s is not documented in full", op.Name)
		}
		if back[i].Name != op.Name || len(back[i].Parameters) != len(op.Params) {
			t.Errorf("%s: JSON has %+v", op.Name, back[i])
		}
		for _, want := range []string{op.Name, op.Summary, op.Example, op.Inputs, op.Output} {
			if !strings.Contains(table.String(), want) {
				t.Errorf("%s: the table lacks %q", op.Name, want)
			}
		}
		for _, p := range op.Params {
			if !strings.Contains(table.String(), p.Name+": "+p.want()) {
				t.Errorf("%s: the table lacks parameter %s", op.Name, p.Name)
			}
		}
	}
}
