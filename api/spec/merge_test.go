package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestMerge(t *testing.T) {
	deep := column("u.age", pb.Kind_INT32)
	deep.Path = []string{"u", "age"}
	files := []FileSchema{
		{"a", Schema{[]Column{
			column("x", pb.Kind_INT32), column("y", pb.Kind_FLOAT64),
			{Name: "odd", Unsupported: "a variant"},
		}}},
		{"b", Schema{append(mapColumn("m", pb.Kind_INT32, pb.Kind_FLOAT32), column("x", pb.Kind_INT64),
			column("x", pb.Kind_BINARY), deep)}},
		{"c", Schema{append(mapColumn("m", pb.Kind_INT64, pb.Kind_FLOAT64), column("y", pb.Kind_FLOAT32),
			column("odd", pb.Kind_BOOL))}},
		{"d", Schema{[]Column{column("x", pb.Kind_INT32), {Name: "u.age", Unsupported: "a list of lists"}}}},
	}
	got, err := Merge(files)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range got.Columns {
		names = append(names, c.Name)
	}
	if s := strings.Join(names, " "); s != "x y odd m m.key m.value u.age" {
		t.Errorf("got %s", s)
	}
	for name, want := range map[string]Column{
		"x":     column("x", pb.Kind_INT64),
		"y":     column("y", pb.Kind_FLOAT64),
		"odd":   {Name: "odd", Unsupported: "a variant"},
		"m":     mapColumn("m", pb.Kind_INT64, pb.Kind_FLOAT64)[0],
		"m.key": listColumn("m.key", pb.Kind_INT64),
	} {
		if c, ok := got.Find(name); !ok || !reflect.DeepEqual(c, want) {
			t.Errorf("%s: got %+v, want %+v", name, c, want)
		}
	}
	if c, _ := got.Find("u.age"); c.Unsupported != "int32 at u/age in b, but a list of lists in d" {
		t.Errorf("got %+v", c)
	}
	if _, ok := got.Find("nothing"); ok {
		t.Error("found what is not there")
	}
}

func TestMergeUntyped(t *testing.T) {
	nulls := func(name string) Column {
		return Column{Name: name, Path: []string{name}, Unsupported: "without a type", Untyped: true}
	}
	empty := nulls("x")
	empty.Type.List, empty.Unsupported = true, "a list without a type"
	odd := Column{Name: "x", Path: []string{"x"}, Unsupported: "a list of lists"}
	scalar, list, m := column("x", pb.Kind_INT32), listColumn("x", pb.Kind_BINARY), mapColumn("x", pb.Kind_INT32,
		pb.Kind_BOOL)[0]
	wide := column("x", pb.Kind_INT64)
	for _, c := range []struct {
		columns []Column
		want    Column
	}{
		{[]Column{nulls("x"), nulls("x")}, nulls("x")},
		{[]Column{nulls("x"), empty}, empty},
		{[]Column{nulls("x"), scalar}, scalar},
		{[]Column{nulls("x"), list, empty}, list},
		{[]Column{empty, list}, list},
		{[]Column{nulls("x"), m}, m},
		{[]Column{nulls("x"), odd}, odd},
		{[]Column{empty, odd}, odd},
		{[]Column{scalar, nulls("x"), wide}, wide},
	} {
		for range 2 {
			files := make([]FileSchema, len(c.columns))
			for i, column := range c.columns {
				files[i] = FileSchema{fmt.Sprint(i), Schema{[]Column{column}}}
			}
			got, err := Merge(files)
			if err != nil || !reflect.DeepEqual(got.Columns, []Column{c.want}) {
				t.Errorf("of %+v: %+v, %v", c.columns, got.Columns, err)
			}
			slices.Reverse(c.columns)
		}
	}
	_, err := Merge([]FileSchema{
		{"a", Schema{[]Column{nulls("x")}}},
		{"b", Schema{[]Column{empty}}},
		{"c", Schema{[]Column{scalar}}},
	})
	compareProblems(t, err, []string{"x: is a list without a type in b, but int32 in c"})
}

func TestMergeNamesBothFiles(t *testing.T) {
	flat := column("u.age", pb.Kind_INT32)
	deep := column("u.age", pb.Kind_INT32)
	deep.Path = []string{"u", "age"}
	files := []FileSchema{
		{"a", Schema{append(mapColumn("m", pb.Kind_INT32, pb.Kind_BOOL), column("x", pb.Kind_INT32),
			column("l", pb.Kind_BOOL), flat)}},
		{"b", Schema{[]Column{column("x", pb.Kind_INT64)}}},
		{"c", Schema{append(mapColumn("m", pb.Kind_BINARY, pb.Kind_BOOL), column("x", pb.Kind_BINARY),
			listColumn("l", pb.Kind_BOOL), deep)}},
		{"d", Schema{[]Column{column("x", pb.Kind_BOOL)}}},
	}
	_, err := Merge(files)
	compareProblems(t, err, []string{
		"m: is map<int32, bool> in a, but map<binary, bool> in c",
		"m.key: is list<int32> in a, but list<binary> in c",
		"x: is int64 in b, but binary in c",
		"l: is bool in a, but list<bool> in c",
		"u.age: is int32 in a, but int32 at u/age in c",
	})
}

// TestMergeTakesForTextWhatIsTextInAllFiles has columns that go together, as bytes.
func TestMergeTakesForTextWhatIsTextInAllFiles(t *testing.T) {
	file := func(name string, text bool) FileSchema {
		c := column("words", pb.Kind_BINARY)
		c.Text = text
		return FileSchema{name, Schema{[]Column{c}}}
	}
	untyped := FileSchema{"nulls", Schema{[]Column{{
		Name: "words", Path: []string{"words"}, Unsupported: "without a type", Untyped: true,
	}}}}
	for _, c := range []struct {
		files []FileSchema
		want  bool
	}{
		{[]FileSchema{file("a", true), file("b", true)}, true},
		{[]FileSchema{file("a", true), file("b", false)}, false},
		{[]FileSchema{file("a", false), file("b", true)}, false},
		{[]FileSchema{untyped, file("b", true)}, true},
		{[]FileSchema{file("a", true), untyped}, true},
	} {
		got, err := Merge(c.files)
		if err != nil || got.Columns[0].Text != c.want {
			t.Errorf("%v: got %+v, %v", c.files, got, err)
		}
	}
}

// TestMergeTellsApartWhatIntegersStandFor: dates and numbers, and timestamps in UTC and of a local clock. A file that
// does not say whose time it is goes with either.
func TestMergeTellsApartWhatIntegersStandFor(t *testing.T) {
	day, count, long := column("x", pb.Kind_INT32), column("x", pb.Kind_INT32), column("x", pb.Kind_INT64)
	day.Date = true
	at := func(clock string) Column {
		c := column("x", pb.Kind_INT64)
		c.Meaning, c.Clock = "timestamp[us]", clock
		return c
	}
	for _, c := range []struct {
		a, b Column
		want string // what it stands for, or the error
	}{
		{day, day, "date"},
		{count, long, "number"},
		{at("UTC"), at("UTC"), "UTC"},
		{at(""), at("local"), "local"},
		{day, count, "x: is date in a, but int32 in b"},
		{long, day, "x: is int64 in a, but date in b"},
		{at("UTC"), at("local"), "x: is timestamp[us], UTC in a, but timestamp[us], local in b"},
	} {
		got, err := Merge([]FileSchema{{"a", Schema{[]Column{c.a}}}, {"b", Schema{[]Column{c.b}}}})
		if err != nil && !strings.HasPrefix(err.Error(), c.want) || err == nil && got.Columns[0].Stands() != c.want {
			t.Errorf("got %+v, %v, want %s", got, err, c.want)
		}
	}
}

func TestMergeTellsMeaningsApart(t *testing.T) {
	ms, us := column("at", pb.Kind_INT64), column("at", pb.Kind_INT64)
	ms.Meaning, us.Meaning = "timestamp[ms]", "timestamp[us]"
	_, err := Merge([]FileSchema{{"a", Schema{[]Column{ms}}}, {"b", Schema{[]Column{us}}}})
	if err == nil || !strings.Contains(err.Error(), "timestamp[ms] in a, but timestamp[us] in b") {
		t.Errorf("got %v", err)
	}
	if _, err := Merge([]FileSchema{{"a", Schema{[]Column{ms}}}, {"b", Schema{[]Column{ms}}}}); err != nil {
		t.Error(err)
	}
}

// TestMergeMapsBesideOthers: what clashes is the map, and the message says what it is elsewhere.
func TestMergeMapsBesideOthers(t *testing.T) {
	maps := mapOfMaps("c", pb.Kind_BINARY, pb.Kind_INT64)
	field := Column{Name: "c.value", Path: []string{"c", "value"}, Type: Type{Kind: pb.Kind_INT64}}
	for want, other := range map[string][]Column{
		"c: is map<binary, int64> in b, but a map of maps in a;":    mapColumn("c", pb.Kind_BINARY, pb.Kind_INT64),
		"c: is a map of maps in a, but a struct with c.value in b;": {field},
		"c: is int64 in b, but a map of maps in a;":                 {column("c", pb.Kind_INT64)},
	} {
		files := []FileSchema{{"a", Schema{maps}}, {"b", Schema{other}}}
		for range 2 {
			_, err := Merge(files)
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s", err, want)
			}
			slices.Reverse(files)
		}
	}
}

// A struct in one file that is a number in another is a conflict, whichever comes first; beside nulls without a type it
// is none.
func TestMergeStructBesideOthers(t *testing.T) {
	field := Column{Name: "x.a", Path: []string{"x", "a"}, Type: Type{Kind: pb.Kind_INT64}}
	nulls := Column{Name: "x", Path: []string{"x"}, Unsupported: "without a type", Untyped: true}
	odd := Column{Name: "x", Path: []string{"x"}, Unsupported: "a list of lists"}
	for _, c := range []struct {
		other Column
		want  string // of the problem; "" for none
	}{
		{column("x", pb.Kind_INT64), "x: is int64 in b, but a struct with x.a in a"},
		{listColumn("x", pb.Kind_FLOAT32), "x: is list<float32> in b, but a struct with x.a in a"},
		{mapColumn("x", pb.Kind_INT64, pb.Kind_INT64)[0], "x: is map<int64, int64> in b, but a struct with x.a in a"},
		{nulls, ""},
		{odd, ""},
		{column("y", pb.Kind_INT64), ""},
	} {
		files := []FileSchema{{"a", Schema{[]Column{field}}}, {"b", Schema{[]Column{c.other}}}}
		for range 2 {
			got, err := Merge(files)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
				t.Errorf("%s: %v, want %q", describe(c.other), err, c.want)
			}
			if x, ok := got.Find("x.a"); err == nil &&
				(!ok || (x.Unsupported != "") != (c.other.Unsupported == odd.Unsupported)) {
				t.Errorf("%s: x.a is %+v", describe(c.other), x)
			}
			slices.Reverse(files)
		}
	}
}

// TestMergeInferred: types that values at files' fronts show go together where numbers do; what does not is told how to
// declare.
func TestMergeInferred(t *testing.T) {
	inferred := func(kind pb.Kind) Column {
		c := column("x", kind)
		c.Inferred = true
		return c
	}
	merge := func(a, b Column) (Schema, error) {
		return Merge([]FileSchema{{"a", Schema{[]Column{a}}}, {"b", Schema{[]Column{b}}}})
	}
	for _, kinds := range [][2]pb.Kind{{pb.Kind_INT64, pb.Kind_FLOAT64}, {pb.Kind_FLOAT64, pb.Kind_INT64}} {
		got, err := merge(inferred(kinds[0]), inferred(kinds[1]))
		if err != nil || got.Columns[0].Type.Kind != pb.Kind_FLOAT64 {
			t.Errorf("%v: %+v, %v", kinds, got, err)
		}
	}
	if _, err := merge(inferred(pb.Kind_INT64), column("x", pb.Kind_FLOAT64)); err == nil {
		t.Error("an inferred int64 goes with a float64 that a file says it has")
	}
	_, err := merge(inferred(pb.Kind_INT64), inferred(pb.Kind_BINARY))
	compareProblems(t, err, []string{"x: is int64 in a, but binary in b; one dataset takes one type (declare it, as in " +
		"dataset.format.columns: {x: float64}"})
}
