package transform

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/vector"
)

// program has an int64 and a list<int64>, hashes the list, joins both, and cuts the result.
func program() *pb.Program {
	value := func(n int64) *pb.Value { return protoOf(n) }
	ids := list(pb.Kind_INT64).Proto()
	return &pb.Program{
		Sources: []*pb.Source{{Name: "user", Type: scalar(pb.Kind_INT64).Proto()}, {Name: "items", Type: ids}},
		Steps: []*pb.Step{
			{
				Op: "sigrid_hash", Version: 1, Params: map[string]*pb.Value{"max": value(100)}, In: []uint32{1},
				Outs: 1,
				Name: "items", At: "transforms[0]", Type: ids,
			},
			{Op: "sample", Version: 1, Params: values{"rate": 0.5}.proto(), At: "transforms[1]"},
			{
				Op: "ngram", Version: 1, Params: map[string]*pb.Value{"n": value(1), "max": value(100)},
				In: []uint32{0, 1}, Outs: 1, Name: "both", At: "transforms[2]", Type: ids,
			},
			{
				Op: "first_x", Version: 1, Params: map[string]*pb.Value{"x": value(2)}, In: []uint32{3}, Outs: 1,
				Name: "cut", At: "transforms[3]", Type: ids,
			},
		},
	}
}

func TestChainRunsSteps(t *testing.T) {
	c, err := Compile(Builtin(), program(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Selects() {
		t.Error("the program samples, but the chain does not select")
	}
	for range 2 {
		user := vectorOf(scalar(pb.Kind_INT64), []any{int64(0), nil})
		items := vectorOf(list(pb.Kind_INT64), []any{[]any{int64(1), int64(2)}, []any{int64(3)}})
		slots, err := c.Run(t.Context(), []*vector.Vector{user, items})
		if err != nil {
			t.Fatal(err)
		}
		want := [][]any{
			{int64(0), nil},
			{[]any{int64(1), int64(2)}, []any{int64(3)}},
			{[]any{int64(60), int64(54)}, []any{int64(54)}},
			{[]any{int64(6), int64(60), int64(54)}, []any{int64(54)}},
			{[]any{int64(6), int64(60)}, []any{int64(54)}},
		}
		if len(slots) != len(want) {
			t.Fatalf("got %d slots, want %d", len(slots), len(want))
		}
		for i := range want {
			if got := rowsOf(slots[i]); !same(got, want[i]) {
				t.Errorf("slot %d: got %v, want %v", i, got, want[i])
			}
		}
	}
}

// Steps that differ in nothing but their inputs run one kernel, if it keeps nothing.
func TestStepsThatAreAlikeShareAKernel(t *testing.T) {
	made := map[string]int{}
	op := func(name string, kernel func(by float64) Kernel) Op {
		return Op{
			Name: name, Version: 1, Params: []Param{{Name: "by", Want: Number, Required: true}},
			Infer: func(_ Params, in []spec.Type) (spec.Type, error) { return in[0], nil },
			New: func(p Params, _ []spec.Type) (Kernel, error) {
				made[name]++
				return kernel(p.Number("by")), nil
			},
		}
	}
	plus := func(by float64) func(dst, src []float64) {
		return func(dst, src []float64) {
			for i, x := range src {
				dst[i] = x + by
			}
		}
	}
	r, err := Builtin().With(
		op("plus", func(by float64) Kernel { return Elementwise(plus(by)) }),
		op("keeping", func(by float64) Kernel { return &keeping{Elementwise(plus(by))} }),
	)
	if err != nil {
		t.Fatal(err)
	}
	number := scalar(pb.Kind_FLOAT64).Proto()
	p := &pb.Program{Sources: []*pb.Source{{Name: "a", Type: number}, {Name: "b", Type: number}}}
	for _, op := range []string{"plus", "keeping"} {
		for _, by := range []float64{1, 2} {
			for in := range uint32(2) {
				p.Steps = append(p.Steps, &pb.Step{
					Op: op, Version: 1, Params: values{"by": by}.proto(),
					In: []uint32{in}, Outs: 1, Type: number,
				})
			}
		}
	}
	c, err := Compile(r, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if made["plus"] != 2 || made["keeping"] != 4 {
		t.Errorf("made %v kernels, want 2 and 4", made)
	}
	slots, err := c.Run(t.Context(), []*vector.Vector{
		vectorOf(scalar(pb.Kind_FLOAT64), []any{10.0}),
		vectorOf(scalar(pb.Kind_FLOAT64), []any{20.0}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{11, 21, 12, 22, 11, 21, 12, 22} {
		if got := rowsOf(slots[2+i]); !same(got, []any{want}) {
			t.Errorf("step %d: got %v, want %v", i, got, want)
		}
	}
}

// keeping is a kernel that may keep what it likes.
type keeping struct{ of Kernel }

func (k *keeping) Run(out *vector.Vector, in []*vector.Vector) error { return k.of.Run(out, in) }

func TestCompileSaysWhatIsWrong(t *testing.T) {
	cases := []struct {
		want    string
		unknown bool
		spoil   func(p *pb.Program)
	}{
		{
			"transforms[0]: unknown op sigird_hash; nearest: sigrid_hash",
			true, func(p *pb.Program) { p.Steps[0].Op = "sigird_hash" },
		},
		{
			"transforms[0]: unknown op sigrid_hash of version 2: this worker has version 1",
			true, func(p *pb.Program) { p.Steps[0].Version = 2 },
		},
		{
			"transforms[2]: ngram reads slot 7, but only 3 come before it",
			false, func(p *pb.Program) { p.Steps[2].In[0] = 7 },
		},
		{
			"transforms[3]: first_x makes list<int64> of its inputs, but the program says int64",
			false, func(p *pb.Program) { p.Steps[3].Type = scalar(pb.Kind_INT64).Proto() },
		},
		{
			"transforms[1]: sample makes 0 features, but the program counts 1",
			false, func(p *pb.Program) { p.Steps[1].Outs = 1 },
		},
		{
			"transforms[2]: ngram makes 1 features, but the program counts 0",
			false, func(p *pb.Program) { p.Steps[2].Outs = 0 },
		},
		{"transforms[0]: max: missing", false, func(p *pb.Program) { p.Steps[0].Params = nil }},
		{"transforms[3]: in: want a list, found int64", false, func(p *pb.Program) { p.Steps[3].In[0] = 0 }},
	}
	for _, c := range cases {
		p := program()
		c.spoil(p)
		_, err := Compile(Builtin(), p, nil)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || errors.Is(err, ErrUnknownOp) != c.unknown {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
}

func TestRunRefusesOtherSources(t *testing.T) {
	c, err := Compile(Builtin(), program(), nil)
	if err != nil {
		t.Fatal(err)
	}
	user := vectorOf(scalar(pb.Kind_INT64), []any{nil})
	for want, in := range map[string][]*vector.Vector{
		"found 1 sources, the program has 2": {user},
		"source items is 1 rows of int64":    {user, user},
		"source items is 0 rows of list":     {user, vectorOf(list(pb.Kind_INT64), nil)},
	} {
		if _, err := c.Run(t.Context(), in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// kernelFunc lets tests misbehave.
type kernelFunc func(out *vector.Vector, in []*vector.Vector) error

func (f kernelFunc) Run(out *vector.Vector, in []*vector.Vector) error { return f(out, in) }

// TestRunSurvivesBadOps runs ops of a user's own that do what they should not.
func TestRunSurvivesBadOps(t *testing.T) {
	errOwn := errors.New("own error")
	var panicked *rescue.PanicError
	cases := []struct {
		want   string
		as     func(error) bool
		kernel kernelFunc
	}{
		{
			"own error", func(err error) bool { return errors.Is(err, errOwn) },
			func(*vector.Vector, []*vector.Vector) error { return errOwn },
		},
		{
			"the op panicked, which is a bug of it; please report it with what the worker's log says: oh",
			func(err error) bool { return errors.As(err, &panicked) && len(panicked.Stack) > 0 }, func(*vector.Vector,
				[]*vector.Vector,
			) error {
				panic("oh")
			},
		},
		{"the op made 0 offsets for 2 rows", nil, func(*vector.Vector, []*vector.Vector) error { return nil }},
		{
			"the op made 1 rows of list<int64>, not 2",
			nil, func(out *vector.Vector, _ []*vector.Vector) error { out.Rows = 1; return nil },
		},
		{
			"the op made 0 values where there should be 5",
			nil, func(out *vector.Vector, _ []*vector.Vector) error { out.Offsets = []int32{0, 1, 5}; return nil },
		},
		{"the op made a validity bitmap that is too short", nil, func(out *vector.Vector, _ []*vector.Vector) error {
			out.Offsets, out.I64, out.ElemValid = []int32{0, 1, 5}, make([]int64, 5), []uint64{}
			return nil
		}},
	}
	for _, c := range cases {
		op := Op{
			Name: "bad", Version: 1,
			Infer: func(Params, []spec.Type) (spec.Type, error) { return list(pb.Kind_INT64), nil },
			New:   func(Params, []spec.Type) (Kernel, error) { return c.kernel, nil },
		}
		in := vectorOf(scalar(pb.Kind_INT64), []any{nil, nil})
		_, err := chainOf(t, op, nil, in.Type).Run(t.Context(), []*vector.Vector{in})
		if err == nil || !strings.HasPrefix(err.Error(), "transforms[0] (bad making out): "+c.want) || c.as != nil &&
			!c.as(err) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// TestSteadyStateAllocatesNothing runs every op over every type that it takes, with nulls and without.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	params := map[string]values{
		"bucketize": {"borders": []float64{0.5, 1}}, "clamp": {"min": 0}, "first_x": {"x": 2}, "last_x": {"x": 2}, "ngram": {
			"n":   2,
			"max": 10,
		},
		"normalize": {"mean": 1, "std": 2}, "sigrid_hash": {"max": 10}, "log1p": nil,
		"box_cox": {"lambda": 0.5}, "scale_to_0_1": {"min": 0, "max": 1}, "scale_to_z_score": {"mean": 1, "std": 2},
		"positive_modulus": {"modulus": 3},
		"onehot":           {"size": 4}, "map_id": {"keys": []any{1, 2}}, "local_hour": {"timezone": "Asia/Tokyo"},
	}
	fillers := map[pb.Kind]any{pb.Kind_BOOL: true, pb.Kind_BINARY: "filler"}
	ran := 0
	for _, op := range slices.DeleteFunc(Builtin().Ops(), func(op Op) bool { return op.Select != nil }) {
		for _, in := range exampleVectors() {
			variants := []values{params[op.Name]}
			switch op.Name {
			case "cast":
				variants = []values{
					{"to": "bool"},
					{"to": "int32"},
					{"to": "int64"},
					{"to": "float32"},
					{"to": "float64"},
				}
			case "fill_null":
				variants = []values{{"value": orElse(fillers[in.Type.Kind], any(1))}}
			}
			for _, p := range variants {
				if _, err := Builtin().Check(op.Name, p.proto(), []spec.Type{in.Type}); err != nil {
					continue
				}
				chain := chainOf(t, op, p, in.Type)
				ran++
				if n := testing.AllocsPerRun(5, func() { run(t, chain, in) }); n > 0 {
					t.Errorf("%s %v of %v: %v allocations a run", op.Name, p, in.Type, n)
				}
			}
		}
	}
	if want := 24 + 5*24 + 8*16 + 3*12 + 12 + 6*8 + 3*2; ran != want {
		t.Errorf("ran %d combinations, want %d", ran, want)
	}
	sampling, rows := sampleChain(t, values{"rate": 0.5}), Rows{N: 1000}
	sel := copyValid(nil, nil, rows.N)
	if n := testing.AllocsPerRun(5, func() { sampling.Select(rows, nil, sel) }); n > 0 {
		t.Errorf("sample: %v allocations a run", n)
	}
}

// exampleVectors has a scalar and a list of each kind, with nulls and without.
func exampleVectors() []*vector.Vector {
	examples := map[pb.Kind][]any{
		pb.Kind_BOOL: {true, false}, pb.Kind_INT32: {int32(1), int32(-2)}, pb.Kind_INT64: {int64(1), int64(1 << 40)},
		pb.Kind_FLOAT32: {float32(1), float32(-2.5)}, pb.Kind_FLOAT64: {1.5, 1e300},
		pb.Kind_BINARY: {[]byte("1.5"), []byte("no number at all"), []byte("-1e9")},
	}
	var all []*vector.Vector
	for kind, some := range examples {
		rows, lists := []any{}, []any{}
		for i := range 300 {
			rows = append(rows, some[i%len(some)])
			lists = append(lists, slices.Repeat(some, i%3))
		}
		all = append(all, vectorOf(scalar(kind), rows), vectorOf(list(kind), lists))
		all = append(all, vectorOf(scalar(kind), append(rows, nil)),
			vectorOf(list(kind), append(lists, nil, []any{nil})))
	}
	return all
}
