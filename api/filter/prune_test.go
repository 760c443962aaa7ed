package filter

import (
	"encoding/binary"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
)

func TestMayMatch(t *testing.T) {
	stats := map[string]Stats{
		"i":    {Min: expr.Int(3), Max: expr.Int(7), HasMinMax: true, Nulls: 0, Rows: 10},
		"five": {Min: expr.Int(5), Max: expr.Int(5), HasMinMax: true, Nulls: 2, Rows: 10},
		"f":    {Min: expr.Float64(1), Max: expr.Float64(1), HasMinMax: true, Nulls: 0, Rows: 10},
		"null": {Nulls: 10, Rows: 10},
		"dark": {Nulls: -1, Rows: 10},
		"s":    {Min: expr.Text("b"), Max: expr.Text("d"), HasMinMax: true, Nulls: -1, Rows: 10},
		"bad":  {Min: expr.Int(9), Max: expr.Int(1), HasMinMax: true, Nulls: 0, Rows: 10},
		"nan":  {Min: expr.Float64(math.NaN()), Max: expr.Float64(1), HasMinMax: true, Nulls: 0, Rows: 10},
	}
	lookup := func(name string) (Stats, bool) {
		s, ok := stats[name]
		return s, ok
	}
	for text, want := range map[string]bool{
		"i == 2": false, "i == 3": true, "i in (1, 2, 8)": false, "i in (1, 5)": true, "i < 3": false, "i <= 3": true,
		"i > 7": false, "i >= 7": true, "i > 6.5": true, "i != 5": true, "i is null": false, "not i is null": true,
		"five == 5": true, "five != 5": false, "not five == 5": false, "five not in (4, 5)": false,
		"five is null": true,
		// A NaN may hide behind the bounds of a float column.
		"f == 2": false, "f != 1": true, "f not in (1)": true, "not f < 5": true, "f >= 5": false,
		"`null` == 1": false, "`null` != 1": false, "not `null` == 1": false, "`null` is null": true,
		"`null` is not null": false,
		"dark == 1":          true, "dark is null": true, "dark is not null": true,
		"unknown == 1": true, "unknown is null": true,
		"s == 'a'": false, "s == 'c'": true, "s > 'd'": false, "s is null": true,
		"s == 1": true, "bad == 20": true, "nan == 20": true,
		"i == 2 or five == 5": true, "i == 2 or five == 6": false, "i == 3 and five == 6": false,
		"not (i == 3 or i > 2)": false, "not (i == 3 and five == 5)": true,
	} {
		if got := mustParse(t, text).MayMatch(lookup); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	empty := func(string) (Stats, bool) { return Stats{}, true }
	if mustParse(t, "i is null or not i == 3").MayMatch(empty) {
		t.Error("no rows can match among none")
	}
}

// TestMayMatchNeverPrunesAMatch draws rows, derives sound statistics from them, and compares with the rows.
func TestMayMatchNeverPrunesAMatch(t *testing.T) {
	columns := []string{intColumn, floatColumn, float32Column, boolColumn, textColumn}
	rapid.Check(t, func(t *rapid.T) {
		e := anyExpr(t, 3)
		rows := make([]map[string]expr.Value, rapid.IntRange(1, 4).Draw(t, "rows"))
		stats := map[string]Stats{}
		for i := range rows {
			rows[i] = map[string]expr.Value{"": expr.Int(rapid.Int64().Draw(t, "row"))}
		}
		for _, c := range columns {
			s := Stats{Rows: int64(len(rows)), Min: expr.Value{}, Max: expr.Value{}}
			for i := range rows {
				if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
					s.Nulls++
					continue
				}
				rows[i][c] = anyValue(t, c)
				s.widen(rows[i][c])
			}
			if rapid.IntRange(0, 5).Draw(t, "nulls unknown") == 0 {
				s.Nulls = -1
			}
			stats[c] = s
		}
		may := e.MayMatch(func(c string) (Stats, bool) {
			s, ok := stats[c]
			return s, ok
		})
		for _, row := range rows {
			got, err := e.Eval(rowOf(row))
			if err != nil {
				t.Fatal(err)
			}
			if got == True && !may {
				t.Fatalf("%s is true for %v, but was pruned by %v", e, row, stats)
			}
		}
	})
}

func anyValue(t *rapid.T, column string) expr.Value {
	switch column {
	case intColumn:
		return expr.Int(rapid.SampledFrom(edgeInts).Draw(t, "int"))
	case floatColumn:
		return expr.Float64(rapid.SampledFrom(append(edgeFloats, math.NaN())).Draw(t, "float"))
	case float32Column:
		return expr.Float32(float32(rapid.SampledFrom(append(edgeFloats, math.NaN())).Draw(t, "float")))
	}
	return anyLiteral(t, column)
}

func (s *Stats) widen(v expr.Value) {
	if v.Float != v.Float {
		return
	}
	if !s.HasMinMax {
		s.Min, s.Max, s.HasMinMax = v, v, true
	}
	less := func(a, b expr.Value) bool {
		return a.Float < b.Float || a.Int < b.Int || a.Text < b.Text || !a.Bool && b.Bool
	}
	if less(v, s.Min) {
		s.Min = v
	}
	if less(s.Max, v) {
		s.Max = v
	}
}

func TestFromBytes(t *testing.T) {
	i32 := binary.LittleEndian.AppendUint32(nil, ^uint32(4))
	f32 := binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.1))
	for _, c := range []struct {
		kind pb.Kind
		b    []byte
		want expr.Value
	}{
		{pb.Kind_BOOL, []byte{1}, expr.Bool(true)},
		{pb.Kind_INT32, i32, expr.Int(-5)},
		{pb.Kind_INT64, binary.LittleEndian.AppendUint64(nil, 1<<40), expr.Int(1 << 40)},
		{pb.Kind_FLOAT32, f32, expr.Float32(0.1)},
		{pb.Kind_FLOAT64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(0.1)), expr.Float64(0.1)},
		{pb.Kind_BINARY, []byte("x"), expr.Text("x")},
		{pb.Kind_BINARY, nil, expr.Text("")},
	} {
		if got, err := expr.FromBytes(c.kind, c.b); err != nil || got != c.want {
			t.Errorf("%v %x: got %v, %v", c.kind, c.b, got, err)
		}
	}
	for _, kind := range []pb.Kind{pb.Kind_BOOL, pb.Kind_INT32, pb.Kind_FLOAT64, pb.Kind_KIND_UNSPECIFIED} {
		if v, err := expr.FromBytes(kind, []byte{1, 2, 3}); err == nil {
			t.Errorf("%v of three bytes is %v", kind, v)
		}
	}
}
