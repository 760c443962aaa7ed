package transform_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform"
)

// resolveLookup resolves transforms over a dataset of users and times, and a side table beside it.
func resolveLookup(t *testing.T, features, transforms string) (*pb.Program, error) {
	t.Helper()
	return spec.Resolve(lookupSpec(t, features, transforms))
}

func lookupSpec(t *testing.T, features, transforms string) (*pb.Spec, spec.Given) {
	t.Helper()
	s, err := spec.Parse([]byte("dataset: {uri: 'file:///data/'}\nbatch_size: 1\nfeatures: " + features +
		"\ntransforms:\n" + transforms))
	if err != nil {
		t.Fatal(err)
	}
	column := func(name string, kind pb.Kind, meaning string) spec.Column {
		return spec.Column{
			Name: name, Path: []string{name}, Type: spec.Type{Kind: kind}, Meaning: meaning,
			Text: name == "name",
		}
	}
	lists := column("vector", pb.Kind_FLOAT32, "")
	lists.Type.List, lists.Shape = true, []int32{3}
	ids := column("ids", pb.Kind_INT64, "")
	ids.Type.List = true
	given := spec.Given{Catalog: transform.Builtin(), Tables: map[spec.TableName]*spec.SideTable{}}
	given.Schema.Columns = []spec.Column{
		column("user", pb.Kind_INT32, ""), column("name", pb.Kind_BINARY, ""), ids,
		column("at", pb.Kind_INT64, "timestamp[ms]"), column("seconds", pb.Kind_INT64, ""),
		column("x", pb.Kind_FLOAT64, ""), column("day", pb.Kind_INT32, ""),
	}
	given.Tables[spec.TableName{URI: "side"}] = &spec.SideTable{
		File: &pb.File{Uri: "file:///side", Etag: "1", Size: 9}, Rows: 5,
		Schema: spec.Schema{Columns: []spec.Column{
			column("user", pb.Kind_INT64, ""), column("name", pb.Kind_BINARY, ""), column("age", pb.Kind_INT32, ""),
			column("since", pb.Kind_INT64, "timestamp[us]"), lists, column("date", pb.Kind_INT32, ""),
		}},
	}
	return s, given
}

// TestLookupsShareTables: lookups with the same key find rows once, in one table, which has the columns that are needed.
func TestLookupsShareTables(t *testing.T) {
	_, err := resolveLookup(t, "[{dense: [age, age_too]}, {tensor: vector}, {sparse: [then_age]}]", `
  - {op: lookup, in: user, table: side, columns: [age, name, vector], out: "{}"}
  - {op: lookup, in: user, table: side, columns: age, default: 3, out: age_too}
  - {op: lookup, in: [user, at], table: side, key: user, columns: age, as_of: since, max_age: 2h, out: then_age}
`)
	if err == nil || !strings.Contains(err.Error(), "name is a column of the dataset already") {
		t.Errorf("a result with a column's name: %v", err)
	}
	p, err := resolveLookup(t, "[{dense: [age, age_too]}, {tensor: vector}, {sparse: [then_age]}]", `
  - {op: lookup, in: user, table: side, columns: [age, vector, since]}
  - {op: lookup, in: user, table: side, columns: age, default: 3, out: age_too}
  - {op: lookup, in: [user, at], table: side, key: user, columns: age, as_of: since, max_age: 2h, out: then_age}
`)
	if err != nil {
		t.Fatal(err)
	}
	var ops, columns []string
	for _, s := range p.GetSteps() {
		ops = append(ops, s.GetOp()+" "+string('0'+rune(s.GetTable())))
	}
	for _, table := range p.GetTables() {
		for _, c := range table.GetColumns() {
			columns = append(columns, c.GetName())
		}
		columns = append(columns, table.GetFile().GetEtag())
	}
	wantOps := []string{
		"lookup_row 0", "lookup_column 0", "lookup_column 0", "lookup_column 0", "lookup_row 1", "lookup_column 1",
	}
	wantColumns := []string{"user", "age", "vector", "1", "user", "since", "age", "1"}
	if !slices.Equal(ops, wantOps) || !slices.Equal(columns, wantColumns) {
		t.Errorf("steps %v, want %v; columns %v, want %v", ops, wantOps, columns, wantColumns)
	}
	rows := p.GetSteps()[4].GetParams()
	if rows["times"].GetInt() != 1000 || rows["max_age"].GetInt() != 7_200_000 {
		t.Errorf("a time in ms and one in us: %v", rows)
	}
	if o := p.GetOutputs()[1]; !slices.Equal(o.GetShape(), []int32{3}) {
		t.Errorf("a tensor of rows of 3 values: %v", o)
	}
}

// TestLookupOfNothingServed: where rows are served that lack the key, what is looked up by it is missed, but for labels.
func TestLookupOfNothingServed(t *testing.T) {
	const transforms = "  - {op: lookup, in: user, table: side, columns: age}\n"
	s, given := lookupSpec(t, "[{dense: age}, {sparse: seconds}]", transforms)
	_, _, err := spec.ResolveServed(s, given, spec.Served{Absent: []string{"user"}})
	if err == nil || !strings.Contains(err.Error(), "age is made of user, and the rows have no such column") {
		t.Errorf("error %v", err)
	}
	s, given = lookupSpec(t, "[{label: age}, {sparse: seconds}]", transforms)
	p, _, err := spec.ResolveServed(s, given, spec.Served{Absent: []string{"user"}})
	if err != nil || len(p.GetOutputs()) != 1 || len(p.GetTables()) != 0 {
		t.Errorf("error %v; %v", err, p)
	}
}

// TestLookupUnits: times of dates count days, and ages are whole units of the example's time.
func TestLookupUnits(t *testing.T) {
	for of, want := range map[string][3]int64{
		"in: [user, at], as_of: date, unit: d, max_age: 1500ms": {0, 86_400_000, 1500},
		"in: [user, day], as_of: since, unit: d, max_age: 7d":   {86_400_000_000, 0, 7},
		"in: [user, day], as_of: date, max_age: 7":              {0, 0, 7},
		"in: [user, day], as_of: date, unit: d, max_age: 48h":   {0, 0, 2},
		"in: [user, seconds], as_of: since, unit: s":            {1_000_000, 0, 0},
	} {
		p, err := resolveLookup(t, "[{sparse: age}]", "  - {op: lookup, "+of+", table: side, key: user, columns: age}\n")
		if err != nil {
			t.Errorf("%s: %v", of, err)
			continue
		}
		params := p.GetSteps()[0].GetParams()
		got := [3]int64{params["times"].GetInt(), params["per"].GetInt(), params["max_age"].GetInt()}
		for i := range 2 {
			got[i] *= min(1, got[i]-1) // 1 is the default
		}
		if got != want {
			t.Errorf("%s: times, per and max_age are %v, want %v", of, got, want)
		}
	}
}

func TestLookupMistakes(t *testing.T) {
	for transform, words := range map[string]string{
		"in: user, table: side, columns: ages":                                                      "transforms[0].columns: the table file:///side has no column ages; nearest: age",
		"in: user, table: other, columns: age":                                                      "transforms[0].table: other has not been looked at",
		"in: user, columns: age":                                                                    "table: missing; want a text",
		"in: user, table: side":                                                                     "columns: missing; want a list of texts",
		"in: [user, name], table: side, key: user, columns: age":                                    "transforms[0].in: found user, name for the key user; want one",
		"in: x, table: side, key: user, columns: age":                                               "x is float64; want ints or text to look up in user",
		"in: name, table: side, key: user, columns: age":                                            "want both to be ints, or both to be text",
		"in: user, table: side, key: vector, columns: age":                                          "vector of the table is list<float32>; want a column of ints or text",
		"in: at, table: side, key: since, columns: age":                                             "at counts as timestamp[ms], and since of the table as timestamp[us]",
		"in: ids, table: side, key: user, columns: vector":                                          "a list of keys makes a list of values, and this column has lists",
		"in: user, table: side, columns: age, default: x":                                           "default: want a value for a column of int32, found 'x'",
		"in: user, table: side, columns: age, default: 3000000000":                                  "default: want a value for a column of int32",
		"in: user, table: side, columns: age, duplicates: last":                                     "duplicates: want one of error, first",
		"in: user, table: side, columns: age, unit: s":                                              "transforms[0].unit: found it without as_of",
		"in: [user, at], table: side, key: user, columns: age, as_of: since, duplicates: first":     "duplicates: found first with as_of",
		"in: [user, seconds], table: side, key: user, columns: age, as_of: since":                   "unit: missing: seconds is plain ints",
		"in: [user, at], table: side, key: user, columns: age, as_of: since, unit: s":               "unit: found s, though at counts ms",
		"in: [user, at], table: side, key: user, columns: age, as_of: since, max_age: -1":           "max_age: want an int from 0 on",
		"in: [user, at], table: side, key: user, columns: age, as_of: date":                         "say what the plain ints count: d (as dates do)",
		"in: [user, day], table: side, key: user, columns: age, as_of: date, unit: d, max_age: 12h": "the time counts whole d",
		"in: [user, x], table: side, key: user, columns: age, as_of: since, unit: s":                "want a time, an int or a timestamp",
		"in: [user, x], table: side, key: user, columns: age, as_of: since":                         "transforms[0].in: x is float64; want a time",
		"in: user, table: side, columns: vector, default: 0":                                        "transforms[0].default: vector of the table has lists",
		"in: user, table: side, columns: [age, since], out: both":                                   "out: found both for several columns; want {}",
		"in: user, table: side, columns: age, speed: 3":                                             "speed: no such parameter of lookup",
	} {
		_, err := resolveLookup(t, "[{sparse: age}]", "  - {op: lookup, "+transform+"}\n")
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v\nwant %s", transform, err, words)
		} else if strings.Contains(transform, "columns: age,") && strings.Contains(err.Error(), "features[0]") {
			t.Errorf("%s: what follows from it is said, too: %v", transform, err)
		} else if strings.Count(err.Error(), "want ints or text") > 1 || strings.Count(err.Error(), "found both") > 1 {
			t.Errorf("%s: it is said twice: %v", transform, err)
		}
	}
}
