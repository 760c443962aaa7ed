package transform

import (
	"math"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

func TestMapIDGolden(t *testing.T) {
	i64 := func(x int64) any { return x }
	ints := []any{i64(17), i64(4), i64(99), i64(5), nil, i64(-1)}
	runGolden(t, mapID(), []golden1{
		{
			"places", scalar(pb.Kind_INT64),
			values{"keys": []any{17, 4, 99}},
			ints,
			[]any{i64(0), i64(1), i64(2), nil, nil, nil},
		},
		{"values", scalar(pb.Kind_INT64), values{
			"keys": []any{17, 4, -1}, "values": []any{-7, 0, 1 << 40},
			"default": 9,
		}, ints, []any{i64(-7), i64(0), i64(9), i64(9), nil, i64(1 << 40)}},
		{
			"one key", scalar(pb.Kind_INT64),
			values{"keys": 17, "values": 3},
			ints,
			[]any{i64(3), nil, nil, nil, nil, nil},
		},
		{
			"range", list(pb.Kind_INT32),
			values{"first": -2, "count": 3},
			[]any{[]any{int32(-3), int32(-2), nil, int32(0), int32(1)}, nil, []any{}},
			[]any{[]any{nil, i64(0), nil, i64(2), nil}, nil, []any{}},
		},
		{
			"range with values", list(pb.Kind_INT32),
			values{
				"first": 1, "count": 2, "values": []any{50, 60},
				"default": 0,
			},
			[]any{[]any{int32(0), int32(1), int32(2), int32(3)}},
			[]any{[]any{i64(0), i64(50), i64(60), i64(0)}},
		},
		{
			"range at the end", scalar(pb.Kind_INT64),
			values{"first": int64(math.MaxInt64 - 1), "count": 2},
			[]any{i64(math.MaxInt64), i64(math.MinInt64), i64(0)},
			[]any{i64(1), nil, nil},
		},
		{"weights", scalar(pb.Kind_INT64), values{
			"keys": []any{17, 4, 99}, "values": []any{0.1, 2, 1e30},
			"default": 1,
		}, ints, []any{float32(0.1), float32(2), float32(1e30), float32(1), nil, float32(1)}},
		{
			"whole floats", list(pb.Kind_INT32),
			values{"first": 1, "count": 2, "values": []any{50.0, 60.0}},
			[]any{[]any{int32(0), int32(1), int32(2), nil}},
			[]any{[]any{nil, float32(50), float32(60), nil}},
		},
		{
			"text of weights", scalar(pb.Kind_BINARY),
			values{"keys": []any{"de", "fr"}, "values": []any{0.5, -2.5}},
			[]any{[]byte("fr"), nil, []byte("it"), []byte("de")},
			[]any{float32(-2.5), nil, nil, float32(0.5)},
		},
		{
			"a default that is a float", scalar(pb.Kind_INT64),
			values{"keys": []any{17, 4}, "default": 0.5},
			ints,
			[]any{float32(0), float32(1), float32(0.5), float32(0.5), nil, float32(0.5)},
		},
		{
			"text", list(pb.Kind_BINARY),
			values{"keys": []any{"de", "", "fr"}, "default": 3},
			[]any{[]any{[]byte("fr"), nil, []byte("it"), []byte("")}, nil},
			[]any{
				[]any{i64(2), nil, i64(3), i64(1)},
				nil,
			},
		},
	})
}

// Sessions of version 1 know no floats.
func TestMapIDOfInts(t *testing.T) {
	runGolden(t, mapIDOfInts(), []golden1{
		{
			"whole floats", scalar(pb.Kind_INT64),
			values{"keys": []any{5, 6}, "values": []any{1.0, 1e6}, "default": 3.0},
			[]any{int64(6), int64(7)},
			[]any{int64(1000000), int64(3)},
		},
	})
	op := mapIDOfInts()
	_, err := op.bind(values{"keys": 1, "values": 0.5}.proto(), []spec.Type{scalar(pb.Kind_INT64)})
	if err == nil || err.Error() != "values: want ints, found 0.5" {
		t.Errorf("got %v", err)
	}
}

func TestMapIDProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]pb.Kind{pb.Kind_INT32, pb.Kind_INT64}).Draw(t, "kind")
		keys := rapid.SliceOfNDistinct(rapid.OneOf(rapid.Int64Range(-6, 6), rapid.Int64()), 1, 20,
			rapid.ID[int64]).Draw(t, "keys")
		params, want := values{"keys": []any{}, "values": []any{}}, map[int64]int64{}
		for _, key := range keys {
			value := rapid.Int64().Draw(t, "value")
			params["keys"], params["values"] = append(params["keys"].([]any), key), append(params["values"].([]any),
				value)
			want[key] = value
		}
		otherwise := any(nil)
		if rapid.Bool().Draw(t, "default") {
			otherwise, params["default"] = int64(-1), -1
		}
		checkElementwise(t, mapID(), params, kind, pb.Kind_INT64, func(x any) any {
			if value, ok := want[asInt64(x)]; ok {
				return value
			}
			return otherwise
		})
	})
}

func TestMapIDSaysWhatIsWrong(t *testing.T) {
	ids, text := []spec.Type{list(pb.Kind_INT64)}, []spec.Type{scalar(pb.Kind_BINARY)}
	checkMistakes(t, []mistake{
		{"map_id", nil, ids, "keys: want a list of keys, or else both first and count"},
		{"map_id", values{"keys": 1, "first": 1}, ids, "keys: want a list of keys, or else both first and count"},
		{"map_id", values{"first": 1}, ids, "first, count: want both of them, or else keys"},
		{"map_id", values{"keys": []any{}}, ids, "keys: want at least one"},
		{
			"map_id",
			values{"keys": []any{1, []any{2}}},
			ids,
			"keys: want a list of numbers, texts or bools, found [1, [2]]",
		},
		{"map_id", values{"keys": []any{1, "a"}}, ids, "keys: want ints to look ids up, found 'a'"},
		{"map_id", values{"keys": []any{"a", 1}}, text, "keys: want texts to look text up, found 1"},
		{"map_id", values{"keys": []any{1, 2, 1}}, ids, "keys: want no key twice, found 1 again"},
		{"map_id", values{"keys": []any{"a", "a"}}, text, "keys: want no key twice, found 'a' again"},
		{
			"map_id",
			values{"first": int64(math.MaxInt64), "count": 2},
			ids,
			"first, count: want a range that ends at 9223372036854775807 or before, found 2 ids from " +
				"9223372036854775807 on",
		},
		{
			"map_id",
			values{"first": 2, "count": int64(math.MaxInt64)},
			ids,
			"first, count: want a range that ends at 9223372036854775807 or before, found 9223372036854775807 ids " +
				"from 2 on",
		},
		{"map_id", values{"first": 1, "count": 3}, text, "first, count: want keys for text"},
		{
			"map_id",
			values{"keys": []any{1, 2}, "values": []any{1}},
			ids,
			"values: want one for each of the 2 keys, found 1",
		},
		{
			"map_id",
			values{"keys": []any{1, 2}, "values": []any{1, 1e39}},
			ids,
			"values: want finite float32s, found 1e+39",
		},
		{
			"map_id",
			values{"keys": []any{1, 2}, "values": []any{1, 0.5}, "default": math.Inf(1)},
			ids,
			"default: want finite float32s, found +Inf",
		},
		{
			"map_id",
			values{"keys": []any{1}},
			[]spec.Type{scalar(pb.Kind_FLOAT32)},
			"in: want a scalar or list of ints or text, found float32",
		},
	})
}

// TestPackedNumbersStayPacked compiles ops with long lists of numbers, for which no messages are made.
func TestPackedNumbersStayPacked(t *testing.T) {
	const n = 20_000
	ints, floats := make([]int64, n), make([]float64, n)
	for i := range ints {
		ints[i], floats[i] = int64(i)*3, float64(i)/2
	}
	packed := &pb.Value{Kind: &pb.Value_Ints{Ints: &pb.Ints{Values: ints}}}
	for _, c := range []struct {
		op     Op
		params map[string]*pb.Value
	}{
		{mapID(), map[string]*pb.Value{"keys": packed, "values": packed}},
		{bucketize(), map[string]*pb.Value{"borders": packed}},
		{bucketize(), map[string]*pb.Value{"borders": spec.FloatsOf(floats)}},
	} {
		for _, kind := range []pb.Kind{pb.Kind_INT32, pb.Kind_INT64} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := c.op.bind(c.params, []spec.Type{scalar(kind)}); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			if size := after.TotalAlloc - before.TotalAlloc; size > 100*n { // tables take 40 to 80
				t.Errorf("%s of %v with %d numbers allocates %d bytes", c.op.Name, kind, n, size)
			}
		}
	}
}
