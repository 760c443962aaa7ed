package transform

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform/zoneinfo"
)

func TestLocalHourGolden(t *testing.T) {
	at := func(text string) any {
		when, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return when.Unix()
	}
	hours := func(all ...int) (rows []any) {
		for _, h := range all {
			rows = append(rows, int32(h))
		}
		return rows
	}
	berlin := []any{
		at("2026-01-01T22:59:59Z"), at("2026-01-01T23:00:00Z"), // winter
		at("2026-03-29T00:59:59Z"), at("2026-03-29T01:00:00Z"), // the clocks go from 2 to 3
		at("2026-10-25T00:59:59Z"), at("2026-10-25T01:00:00Z"), // and back
		at("2426-03-29T00:59:59Z"), at("2426-03-29T01:00:00Z"), at("4026-03-29T01:00:00Z"), // by the rule, ever after
		at("1880-01-01T00:00:00Z"), // 53 minutes and 28 seconds ahead
		at("1880-01-01T00:06:32Z"),
	}
	runGolden(t, localHour(), []golden1{
		{
			"Berlin", scalar(pb.Kind_INT64),
			values{"timezone": "Europe/Berlin"},
			berlin,
			hours(23, 0, 1, 3, 2, 2, 1, 3, 3, 0, 1),
		},
		{
			"half an hour", scalar(pb.Kind_INT32),
			values{"timezone": "Asia/Kolkata"},
			[]any{int32(0), int32(1800), int32(-1), nil},
			[]any{int32(5), int32(6), int32(5), nil},
		},
		{
			"across the date line", scalar(pb.Kind_INT64),
			values{"timezone": "Pacific/Apia"},
			[]any{at("2011-12-30T09:59:59Z"), at("2011-12-30T10:00:00Z")},
			hours(23, 0),
		},
		{
			"the ends of time", scalar(pb.Kind_INT64),
			values{"timezone": "UTC"},
			[]any{int64(math.MaxInt64), int64(math.MinInt64), int64(-1)},
			hours(15, 8, 23),
		},
		{
			"milliseconds", list(pb.Kind_INT64),
			values{"timezone": "UTC", "unit": "ms"},
			[]any{[]any{int64(3_600_000), int64(3_599_999), int64(-1), nil}, nil},
			[]any{[]any{int32(1), int32(0), int32(23), nil}, nil},
		},
		{
			"microseconds", scalar(pb.Kind_INT64),
			values{"timezone": "UTC", "unit": "us"},
			[]any{int64(3_600_000_000), int64(-1)},
			hours(1, 23),
		},
		{
			"nanoseconds", scalar(pb.Kind_INT64),
			values{"timezone": "UTC", "unit": "ns"},
			[]any{int64(3_600_000_000_000), int64(-1), int64(math.MinInt64)},
			hours(1, 23, 0),
		},
	})
}

// TestLocalHourProperty compares with the time package, on the same data.
func TestLocalHourProperty(t *testing.T) {
	names, err := zoneinfo.Names()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "zone")
		data, _, err := zoneinfo.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		place, err := time.LoadLocationFromTZData(name, data)
		if err != nil {
			t.Fatal(err)
		}
		z, err := newZone(name)
		if err != nil {
			t.Fatal(err)
		}
		seconds := rapid.OneOf(rapid.Int64Range(-1<<33, 1<<34), rapid.Int64Range(-1<<40, 1<<40),
			rapid.Int64Range(1e9, 2e9))
		if len(z.Starts) > 1 { // near a change
			change := rapid.SampledFrom(z.Starts[1:]).Draw(t, "change")
			seconds = rapid.OneOf(seconds, rapid.Int64Range(change-2, change+2),
				rapid.Int64Range(change-2+cycle, change+2+cycle))
		}
		times := rapid.SliceOfN(seconds, 1, 40).Draw(t, "times")
		out := run(t, chainOf(t, localHour(), values{"timezone": name}, scalar(pb.Kind_INT64)),
			vectorOf(scalar(pb.Kind_INT64), wideRows(times)))
		for i, at := range times {
			want := time.Unix(at, 0).In(place)
			if at > 1<<37 { // far off, the time package is no longer exact about rules
				continue
			}
			if got := out.I32[i]; int(got) != want.Hour() {
				t.Fatalf("%s at %d: got %d, want %v", name, at, got, want)
			}
		}
	})
}

func wideRows[T any](all []T) (rows []any) {
	for _, x := range all {
		rows = append(rows, x)
	}
	return rows
}

func TestLocalHourSaysWhatIsWrong(t *testing.T) {
	ids := []spec.Type{scalar(pb.Kind_INT64)}
	checkMistakes(t, []mistake{
		{"local_hour", nil, ids, "timezone: missing; want a text"},
		{
			"local_hour",
			values{"timezone": "Europe/Berln"},
			ids,
			"timezone: release 2025c of the IANA database has no Europe/Berln; nearest: Europe/Berlin",
		},
		{
			"local_hour",
			values{"timezone": "Local"},
			ids,
			"timezone: release 2025c of the IANA database has no Local; names are as Europe/Berlin, or UTC",
		},
		{"local_hour", values{"timezone": "UTC", "unit": "h"}, ids, "unit: want one of s, ms, us, ns, found 'h'"},
		{
			"local_hour",
			values{"timezone": "UTC"},
			[]spec.Type{scalar(pb.Kind_FLOAT64)},
			"in: want a scalar or list of ints, found float64",
		},
	})
}

// TestLocalHourKnowsTheUnit resolves local_hour behind an op on a column of timestamps.
func TestLocalHourKnowsTheUnit(t *testing.T) {
	times := spec.Type{Kind: pb.Kind_INT64, List: true}
	schema := spec.Schema{Columns: []spec.Column{
		{Name: "at", Path: []string{"at"}, Type: times, Meaning: "timestamp[us]"},
		{Name: "other", Path: []string{"other"}, Type: times},
	}}
	const refused = "transforms[1]: it counts us, and unit is s; want unit: us (x)"
	for op, want := range map[string]string{
		"{op: fill_null, in: at, out: x, value: 0}":           refused,
		"{op: clamp, in: at, out: x, min: 0}":                 refused,
		"{op: first_x, in: at, out: x, x: 3}":                 refused,
		"{op: last_x, in: at, out: x, x: 3}":                  refused,
		"{op: cast, in: at, out: x, to: int64}":               refused,
		"{op: sort_by_score, in: [at, other], out: x}":        refused,
		"{op: sort_by_score, in: [other, at], out: x}":        "",
		"{op: intersect, in: [at, other], out: x}":            refused,
		"{op: union, in: [at, other], out: x}":                refused,
		"{op: enumerate, in: at, out: x}":                     "",
		"{op: positive_modulus, in: at, out: x, modulus: 60}": "",
	} {
		s, err := spec.Parse(
			[]byte("dataset: {uri: 'file:///data/'}\nbatch_size: 1\nfeatures: {sparse: x}\ntransforms: [" + op +
				", {op: local_hour, in: x, timezone: UTC}]"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = spec.Resolve(s, spec.Given{Schema: schema, Catalog: Builtin()}); (err == nil) != (want == "") || err != nil &&
			err.Error() != want {
			t.Errorf("%s: got %v, want %q", op, err, want)
		}
	}
}
