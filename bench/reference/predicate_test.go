package reference

import (
	"math"
	"testing"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

func TestPredicates(t *testing.T) {
	columns := map[string]column{}
	for name, typ := range map[string]spec.Type{
		"i": i64, "f": f32, "d": f64, "s": text, "b": truths, "n": i32,
		"l": list(i64),
	} {
		columns[name] = column{name: name, typ: typ}
	}
	row := map[string]*cell{
		"i": intsOf(1<<53 + 1), "f": floatsOf(float64(float32(0.1))), "d": floatsOf(math.NaN()),
		"s": textOf("de"), "b": intsOf(1), "n": {null: true},
	}
	for text, want := range map[string]truth{
		"i == 9007199254740993":             yes,
		"i > 9007199254740992.0":            yes,
		"i == 9007199254740992.0":           no,
		"i in (1, 2)":                       no,
		"i not in (1, 2)":                   yes,
		"f == 0.1":                          yes,
		"f < 1 and f >= 0":                  yes,
		"d == 1":                            no,
		"d != 1":                            yes,
		"d in (1)":                          no,
		"d not in (1)":                      yes,
		"d < 1 or d >= 1":                   no,
		"s == 'de'":                         yes,
		"s in ('fr', 'de')":                 yes,
		"s <= 'da'":                         no,
		"b == true":                         yes,
		"b != true":                         no,
		"n == 1":                            unknown,
		"not (n == 1)":                      unknown,
		"n == 1 or b == true":               yes,
		"n == 1 and b == false":             no,
		"n == 1 and b == true":              unknown,
		"n is null":                         yes,
		"n is not null":                     no,
		"b is null":                         no,
		"n not in (1)":                      unknown,
		"not (s == 'de' or i == 1)":         no,
		"i % 10 == 3":                       yes,
		"n % 10 < 10":                       unknown,
		"n % 10 is null":                    yes,
		"hash(s, 7) % 100 < 100":            yes,
		"hash(n, 7) == 6612919898181497795": yes,
		"hash(d, 7) == 6489124591852506485": yes,
		"hash(row(), 7) % 100 >= 0":         yes,
	} {
		r := &resolver{columns: columns, names: map[string]int{}}
		if err := r.resolveFilter(text); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		cells := make([]cell, len(r.types))
		for _, s := range r.sources {
			cells[s.slot] = *row[s.column.name]
		}
		if got := r.filter(cells, place{uri: "mem://a", row: 3}); got != want {
			t.Errorf("%s: got %d; want %d", text, got, want)
		}
	}
	for _, text := range []string{"x == 1", "l == 1", "s == 1", "i == 'a'", "b == 1", "i ==", "f % 2 == 1"} {
		r := &resolver{columns: columns, names: map[string]int{}}
		if err := r.resolveFilter(text); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

func TestPartitions(t *testing.T) {
	const uri = "s3://bucket/day=2026-01-02/hour=07/part=1/country=a%20b/none=__HIVE_DEFAULT_PARTITION__/x=1.parquet"
	for text, want := range map[string]bool{
		"day == '2026-01-02'":                  true,
		"day > '2026'":                         true,
		"hour == 7":                            true,
		"hour in (7, 8)":                       true,
		"hour == 7.5":                          false,
		"hour == '7'":                          false,
		"country == 'a b'":                     true,
		"none is null":                         true,
		"none == 1":                            false,
		"x == 1":                               false,
		"part == true":                         true,
		"hour < 7 or part == 1":                true,
		"day is null":                          false,
		"hour % 4 == 3":                        true,
		"none % 4 == 3":                        false,
		"none % 4 is null":                     true,
		"hash(none, 7) == 6612919898181497795": true,
		"hash(hour, 7) == 1380845676396635898": true,
		"not (hour == 7)":                      false,
		"missing == 1":                         false,
		"missing is null":                      true,
		"not (missing == 'abc')":               false,
	} {
		e, err := filter.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := inPartition(e, uri)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
	e, err := filter.Parse("day == 3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inPartition(e, uri); err == nil {
		t.Error("a date compared with a number: no error")
	}
}

// TestKeysAsColumns: keys of paths are columns by what their values are, unless files have such a column.
func TestKeysAsColumns(t *testing.T) {
	columns := map[string]column{"own": {name: "own"}, "s.x": {name: "s.x"}}
	files := []*pb.File{
		{Uri: "mem://b/day=2026-01-02/n=05/t=5%%2F/own=1/s=2/f"},
		{Uri: "mem://b/day=__HIVE_DEFAULT_PARTITION__/n=-6/t=7/none=__HIVE_DEFAULT_PARTITION__/f"},
	}
	addKeys(columns, files)
	for name, want := range map[string]pb.Kind{
		"day": pb.Kind_INT32, "n": pb.Kind_INT64, "t": pb.Kind_BINARY, "none": pb.Kind_BINARY,
	} {
		if c := columns[name]; !c.key || c.typ.Kind != want {
			t.Errorf("%s is %+v, want %v", name, c, want)
		}
	}
	if len(columns) != 6 || columns["own"].key {
		t.Errorf("there are %v", columns)
	}
	for _, c := range []struct {
		value string
		kind  pb.Kind
		want  int64
	}{{"1970-01-03", pb.Kind_INT32, 2}, {"1969-12-31", pb.Kind_INT32, -1}, {"05", pb.Kind_INT64, 5}} {
		if got, err := keyCell(c.value, c.kind); err != nil || got.ints[0] != c.want {
			t.Errorf("%s is %v, %v, want %d", c.value, got, err, c.want)
		}
	}
}
