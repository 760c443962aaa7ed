package transform

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/vector"
)

// i64s is a list of int64, a nil of which is null; f32s one of float32.
func i64s(x ...any) []any {
	l := []any{}
	for _, v := range x {
		if n, ok := v.(int); ok {
			v = int64(n)
		}
		l = append(l, v)
	}
	return l
}

func f32s(x ...any) []any {
	l := []any{}
	for _, v := range x {
		switch n := v.(type) {
		case int:
			v = float32(n)
		case float64:
			v = float32(n)
		}
		l = append(l, v)
	}
	return l
}

// feature is an input: its type and its rows.
type feature struct {
	typ  spec.Type
	rows []any
}

func (f feature) vector() *vector.Vector { return vectorOf(f.typ, f.rows) }

func idLists(rows ...any) feature { return feature{list(pb.Kind_INT64), rows} }

func scoreLists(rows ...any) feature { return feature{list(pb.Kind_FLOAT32), rows} }

// checkRows runs an op twice on one chain, with a window between that has no nulls.
func checkRows(t failer, op Op, params values, want []any, in ...feature) {
	t.Helper()
	types := make([]spec.Type, len(in))
	for i, f := range in {
		types[i] = f.typ
	}
	chain := chainOf(t, op, params, types...)
	for range 2 {
		vectors, others := make([]*vector.Vector, len(in)), make([]*vector.Vector, len(in))
		for i, f := range in {
			vectors[i], others[i] = f.vector(), vectorOf(f.typ, plainRows(f.typ))
		}
		if got := rowsOf(run(t, chain, vectors...)); !same(got, want) {
			t.Fatalf("%s %v of %v\ngot  %v\nwant %v", op.Name, params, in, got, want)
		}
		for i, v := range vectors {
			if back := rowsOf(v); !same(back, in[i].rows) {
				t.Fatalf("%s changed its input from %v to %v", op.Name, in[i].rows, back)
			}
		}
		run(t, chain, others...)
	}
}

// plainRows is a window of a type without nulls.
func plainRows(typ spec.Type) []any {
	value := map[pb.Kind]any{
		pb.Kind_INT32: int32(7), pb.Kind_INT64: int64(7), pb.Kind_FLOAT32: float32(7),
		pb.Kind_FLOAT64: 7., pb.Kind_BINARY: []byte("7"),
	}[typ.Kind]
	if typ.List {
		return []any{[]any{value, value}, []any{value, value}, []any{value, value}}
	}
	return []any{value, value, value}
}

func TestOnehotGolden(t *testing.T) {
	checkRows(t, onehot(), values{"size": 3},
		[]any{f32s(0, 1, 0), f32s(0, 0, 0), f32s(0, 0, 0), f32s(0, 0, 0), f32s(0, 0, 1)},
		feature{scalar(pb.Kind_INT32), []any{int32(1), nil, int32(3), int32(-1), int32(2)}})
	checkRows(t, onehot(), values{"size": 4},
		[]any{f32s(1, 0, 1, 0), f32s(0, 0, 0, 0), f32s(0, 0, 0, 0), f32s(0, 0, 0, 1)},
		idLists(i64s(2, 0, 2, nil), nil, i64s(), i64s(int64(math.MinInt64), 3, 4)))
}

func TestEnumerateGolden(t *testing.T) {
	checkRows(t, enumerate(), nil, []any{i64s(0, 1, 2), nil, i64s(), i64s(0)},
		scoreLists(f32s(0.5, nil, 1), nil, f32s(), f32s(nil)))
	checkRows(t, enumerate(), values{"start": -1}, []any{i64s(-1, 0)},
		feature{list(pb.Kind_BINARY), []any{[]any{[]byte("a"), nil}}})
}

func TestSortByScoreGolden(t *testing.T) {
	ids := idLists(i64s(1, 2, 3, 4, 5, 6), i64s(7, nil, 9), nil, i64s(1), i64s())
	ranks := scoreLists(f32s(0.5, nil, 2, 0.5, math.NaN(), -1), f32s(1, 2, 3), f32s(1), nil, f32s())
	checkRows(t, sortByScore(), nil, []any{i64s(3, 1, 4, 6, 2, 5), i64s(9, nil, 7), nil, nil, i64s()}, ids, ranks)
	checkRows(t, sortByScore(), values{"ascending": true}, []any{
		i64s(6, 1, 4, 3, 2, 5), i64s(7, nil, 9), nil, nil,
		i64s(),
	}, ids, ranks)
	checkRows(t, sortByScore(), nil, []any{f32s(2, 0.5, 0.5, -1, nil, math.NaN()), f32s(3, 2, 1), f32s(1), nil, f32s()},
		ranks)
	zeros := scoreLists(f32s(math.Copysign(0, -1), 0, math.Inf(-1), math.Inf(1), nil))
	checkRows(t, sortByScore(), nil, []any{i64s(4, 1, 2, 3, 5)}, idLists(i64s(1, 2, 3, 4, 5)), zeros)
	extremes := idLists(i64s(int64(math.MinInt64), nil, int64(math.MaxInt64)))
	checkRows(t, sortByScore(), nil, []any{i64s(int64(math.MaxInt64), int64(math.MinInt64), nil)}, extremes)
	checkRows(t, sortByScore(), values{"ascending": true}, []any{i64s(int64(math.MinInt64), int64(math.MaxInt64), nil)},
		extremes)
}

func TestSortByScoreProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ, by := list(drawNumberKind(t)), list(drawNumberKind(t))
		ascending := rapid.Bool().Draw(t, "ascending")
		items, ranks := drawRows(t, typ, "in"), []any{}
		score := rapid.OneOf(rapid.Just[any](nil), drawValue(by.Kind))
		if len(items) > 0 && items[0] != nil { // a list too long to sort by inserting
			items[0] = slices.Repeat(items[0].([]any), 12)
		}
		var want []any
		for _, row := range items {
			l, ok := row.([]any)
			if !ok || rapid.IntRange(0, 9).Draw(t, "null") == 0 {
				ranks, want = append(ranks, nil), append(want, nil)
				continue
			}
			of := make([]any, len(l))
			order := make([]int, len(l))
			for i := range l {
				of[i], order[i] = score.Draw(t, "score"), i
			}
			ranks = append(ranks, of)
			slices.SortStableFunc(order, func(a, b int) int { return compareScores(of[a], of[b], ascending) })
			sorted := []any{}
			for _, i := range order {
				sorted = append(sorted, l[i])
			}
			want = append(want, sorted)
		}
		checkRows(t, sortByScore(), values{"ascending": ascending}, want, feature{typ, items}, feature{by, ranks})
	})
}

// compareScores orders scores as sort_by_score says.
func compareScores(a, b any, ascending bool) int {
	hasA, hasB := a != nil && a == a, b != nil && b == b //nolint:gocritic,staticcheck // NaN does not equal itself
	switch {
	case !hasA && !hasB:
		return 0
	case !hasA:
		return 1
	case !hasB:
		return -1
	}
	less := func(a, b any) bool {
		switch x := a.(type) {
		case int32:
			return x < b.(int32)
		case int64:
			return x < b.(int64)
		case float32:
			return x < b.(float32)
		}
		return a.(float64) < b.(float64)
	}
	if !ascending {
		a, b = b, a
	}
	switch {
	case less(a, b):
		return -1
	case less(b, a):
		return 1
	}
	return 0
}

func TestCartesianGolden(t *testing.T) {
	left, right := idLists(i64s(1, 2, nil), nil, i64s(), i64s(3)), idLists(i64s(5, 6), i64s(1), i64s(1), i64s(nil))
	pair := func(salt uint64, a, b int64) any {
		return int64(combine(salt, mixID(uint64(a))*golden+mixID(uint64(b))))
	}
	checkRows(t, cartesian(), values{"salt": 9}, []any{
		i64s(pair(9, 1, 5), pair(9, 1, 6), pair(9, 2, 5), pair(9, 2, 6)),
		i64s(), i64s(), i64s(),
	}, left, right)
	many, none := idLists(slices.Repeat(i64s(1), 1<<14)), idLists(i64s(nil))
	checkRows(t, cartesian(), nil, []any{i64s()}, many, many, none)
}

// TestCartesianAgreesWithNgram holds that a combination of n ids is what ngram makes of them.
func TestCartesianAgreesWithNgram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(t, "features")
		params := values{"salt": rapid.Int64().Draw(t, "salt"), "max": rapid.Int64Range(1, 1000).Draw(t, "max")}
		in, rows := make([]feature, n), rapid.IntRange(1, 3).Draw(t, "rows")
		for i := range in {
			in[i].typ = spec.Type{
				Kind: rapid.SampledFrom([]pb.Kind{pb.Kind_INT32, pb.Kind_INT64}).Draw(t, "kind"),
				List: rapid.Bool().Draw(t, "list"),
			}
			in[i].rows = rowsOfLength(t, in[i].typ, rows)
		}
		want := make([]any, rows)
		for row := range rows {
			tuples := [][]any{{}}
			for _, f := range in {
				var longer [][]any
				for _, tuple := range tuples {
					for _, id := range idsOf(f.rows[row]) {
						longer = append(longer, append(slices.Clone(tuple), id))
					}
				}
				tuples = longer
			}
			made := []any{}
			for _, tuple := range tuples {
				gram := values{"n": n, "salt": params["salt"], "max": params["max"]}
				out := run(t, chainOf(t, ngram(), gram, list(pb.Kind_INT64)), idLists(tuple).vector())
				made = append(made, out.I64[0])
			}
			want[row] = made
		}
		checkRows(t, cartesian(), params, want, in...)
	})
}

// rowsOfLength draws a given number of rows.
func rowsOfLength(t *rapid.T, typ spec.Type, n int) []any {
	var rows []any
	for len(rows) < n {
		rows = append(rows, drawRows(t, typ, "rows")...)
	}
	return rows[:n]
}

func TestListOpsSayWhatIsWrong(t *testing.T) {
	ids, floats, number := list(pb.Kind_INT64), list(pb.Kind_FLOAT32), scalar(pb.Kind_INT64)
	checkMistakes(t, []mistake{
		{
			"onehot",
			values{"size": 1 << 20},
			[]spec.Type{ids},
			"size: want at most 65536, found 1048576; longer rows are cheaper as ids",
		},
		{
			"onehot",
			values{"size": 9},
			[]spec.Type{floats},
			"in: want a scalar or list of ints, found list<float32>; bucketize makes ints of numbers",
		},
		{"enumerate", nil, []spec.Type{number}, "in: want a list, found int64"},
		{
			"sort_by_score", nil,
			[]spec.Type{ids, floats, ids},
			"in: want a list and its scores, or one list to sort by itself, found 3 features",
		},
		{"sort_by_score", nil, []spec.Type{ids, number}, "in: want lists of numbers, found int64"},
		{"cartesian", nil, []spec.Type{ids}, "in: want two or more features of ints, found 1"},
		{
			"cartesian", nil,
			[]spec.Type{ids, floats},
			"in: want scalars or lists of ints, found list<float32>; sigrid_hash makes ids of text",
		},
		{"union", nil, []spec.Type{ids}, "in: want 2 features [ids ids], found 1"},
		{
			"intersect", nil,
			[]spec.Type{ids, floats},
			"in: want ids as feature 2, a scalar or list of ints, found list<float32>; sigrid_hash makes ids of text",
		},
		{
			"score_sum", nil,
			[]spec.Type{ids, ids, list(pb.Kind_BINARY)},
			"in: want scores as feature 3, a scalar or list of numbers, found list<binary>; cast turns it into one",
		},
		{
			"cosine_similarity", nil,
			[]spec.Type{number, floats, ids, floats},
			"in: want a score for each id, found list<float32> as scores of int64",
		},
	})
}

// TestRowsThatNoOpTakes are mistakes of the data.
func TestRowsThatNoOpTakes(t *testing.T) {
	three, two := idLists(i64s(), i64s(1, 2, 3)), scoreLists(f32s(), f32s(1, 2))
	many := idLists(slices.Repeat(i64s(1), 1<<14))
	for _, c := range []struct {
		op     Op
		params values
		in     []feature
		want   string
	}{
		{sortByScore(), nil, []feature{three, two}, "row 701 has 3 ids and 2 scores; they must be as many"},
		{cosineSimilarity(), nil, []feature{three, two, three, two}, "row 701 has 3 ids and 2 scores"},
		{cosineSimilarity(), nil, []feature{two.asIDs(), two, three, two}, "row 701 has 3 ids and 2 scores"},
		{scoreMax(), nil, []feature{two.asIDs(), three, two}, "row 701 has 3 ids and 2 scores"},
		{
			cartesian(), nil,
			[]feature{many, many},
			"row 700 has 16384 x 16384 combinations of its ids, and the rows of a window may have 67108864 " +
				"together; shorten the lists before, with first_x",
		},
		{
			onehot(),
			values{"size": 1 << 16},
			[]feature{{scalar(pb.Kind_INT32), slices.Repeat([]any{int32(1)}, 1025)}},
			"row 1724 makes 65536 values, as each before it, and the rows of a window may have 67108864 together; " +
				"choose a smaller size, or write row groups of fewer rows",
		},
	} {
		var types []spec.Type
		var in []*vector.Vector
		for _, f := range c.in {
			types, in = append(types, f.typ), append(in, f.vector())
		}
		chain := chainOf(t, c.op, c.params, types...)
		chain.Place(Rows{First: 700}, images.Room{})
		if _, err := chain.Run(t.Context(), in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.op.Name, err, c.want)
		}
	}
}

// asIDs has ids for scores.
func (f feature) asIDs() feature {
	made := feature{typ: list(pb.Kind_INT64)}
	for _, row := range f.rows {
		ids := []any{}
		for _, x := range row.([]any) {
			ids = append(ids, int64(x.(float32)))
		}
		made.rows = append(made.rows, ids)
	}
	return made
}

// TestListOpsAllocateNothing runs ops of several inputs in the steady state.
func TestListOpsAllocateNothing(t *testing.T) {
	for name, f := range listOps() {
		var types []spec.Type
		var in []*vector.Vector
		for _, typ := range f.in {
			types, in = append(types, typ), append(in, vectorOf(typ, manyRows(typ)))
		}
		chain := chainOf(t, f.op, f.params, types...)
		if n := testing.AllocsPerRun(5, func() { run(t, chain, in...) }); n > 0 {
			t.Errorf("%s: %v allocations a run", name, n)
		}
	}
}

// listOp is an op of several inputs with types that it takes.
type listOp struct {
	op     Op
	params values
	in     []spec.Type
}

func listOps() map[string]listOp {
	all := map[string]listOp{}
	for _, kind := range []pb.Kind{pb.Kind_INT32, pb.Kind_INT64} {
		ids, scores := list(kind), list(pb.Kind_FLOAT32)
		if kind == pb.Kind_INT32 {
			scores = list(pb.Kind_INT32)
		}
		for _, op := range []Op{
			cartesian(), intersect(), union(), hasOverlap(), idOverlapCount(),
			jaccardSimilarity(),
		} {
			all[fmt.Sprint(op.Name, " of ", ids)] = listOp{op, nil, []spec.Type{ids, ids}}
		}
		for _, op := range []Op{scoreSum(), scoreMin(), scoreMax()} {
			all[fmt.Sprint(op.Name, " of ", ids)] = listOp{op, nil, []spec.Type{ids, ids, scores}}
		}
		all[fmt.Sprint("sort_by_score of ", ids)] = listOp{sortByScore(), nil, []spec.Type{ids, scores}}
		all[fmt.Sprint("cosine_similarity of ", ids)] = listOp{
			cosineSimilarity(), nil,
			[]spec.Type{ids, scores, ids, scores},
		}
		all[fmt.Sprint("has_overlap of ", scalar(kind), " and ", ids)] = listOp{
			hasOverlap(), nil,
			[]spec.Type{scalar(kind), ids},
		}
	}
	return all
}

// manyRows are lists of up to 40 values, with nulls.
func manyRows(typ spec.Type) []any {
	rows := make([]any, 100)
	for i := range rows {
		l := []any{}
		for j := range i % 40 {
			var x any = int64(mix(uint64(i+j)) % 50)
			switch typ.Kind {
			case pb.Kind_INT32:
				x = int32(x.(int64))
			case pb.Kind_FLOAT32:
				x = float32(x.(int64))
			}
			if i%10 == 1 && j == 0 {
				x = nil
			}
			l = append(l, x)
		}
		switch {
		case i%9 == 8:
		case typ.List:
			rows[i] = l
		case len(l) > 0:
			rows[i] = l[0]
		}
	}
	return rows
}

// TestIDsThatWouldFallOnOnePlace: ids that would, were they multiplied by a number that whoever writes a file may know,
// do not.
func TestIDsThatWouldFallOnOnePlace(t *testing.T) {
	const n = 1 << 18
	inverse := uint64(1) // of golden, modulo 2^64
	for range 6 {
		inverse *= 2 - golden*inverse
	}
	var table idTable
	table.reset(n)
	for k := range n {
		table.number(int64(uint64(k) * inverse))
	}
	far := 0
	for at, s := range table.used {
		if s.round == table.round {
			far += (at - int(uint64(s.id)*spread>>table.shift)) & (len(table.used) - 1)
		}
	}
	if golden*inverse != 1 || far/n > n/8 {
		t.Errorf("on average ids lie %d places behind their own", far/n)
	}
}
