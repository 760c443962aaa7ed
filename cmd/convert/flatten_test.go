package convert

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	pq "github.com/apache/arrow/go/v15/parquet"
	parquetfile "github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

// features are a map of each shape, structs, and a list of structs.
func features() []arrow.Field {
	number, text := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	return []arrow.Field{
		nullable("label", number),
		nullable("scores", arrow.MapOf(number, arrow.PrimitiveTypes.Float32)),
		nullable("ids", arrow.MapOf(text, arrow.ListOf(number))),
		nullable("ranked", arrow.MapOf(text, arrow.MapOf(number, text))),
		nullable("s", arrow.StructOf(nullable("x", number), nullable("m", arrow.MapOf(number, number)),
			nullable("none", arrow.Null))),
		nullable("l", arrow.ListOf(arrow.StructOf(nullable("x", number), nullable("y", text)))),
	}
}

// featureRows are rows of them, of which the last may be another one.
func featureRows(changed ...string) string {
	rows := []string{
		`{"label": 1, "scores": [{"key": 1, "value": 0.5}, {"key": -7, "value": 1.5}, {"key": 1, "value": 2}],
			"ids": [{"key": "a", "value": [1, 2]}, {"key": "b.c", "value": null}, {"key": "", "value": [3]}],
			"ranked": [{"key": "k", "value": [{"key": 1, "value": "u"}, {"key": 2, "value": null}]}],
			"s": {"x": 1, "m": [{"key": 3, "value": 4}]}, "l": [{"x": 1, "y": "a"}, null]}`,
		`{"label": 2, "scores": null, "ids": [], "ranked": [{"key": "k", "value": null}], "s": null, "l": null}`,
		`{"label": 3, "scores": [{"key": 2, "value": 1}], "ids": [{"key": "a", "value": []}],
			"ranked": [{"key": "k", "value": [{"key": 5, "value": "v"}]}], "s": {"x": null, "m": []},
			"l": [{"x": null, "y": "b"}]}`,
	}
	if len(changed) > 0 {
		pairs := strings.NewReplacer(changed...)
		other := pairs.Replace(rows[2])
		if other == rows[2] {
			panic("nothing is changed by " + changed[0])
		}
		rows[2] = other
	}
	return "[" + strings.Join(rows, ",") + "]"
}

// featureChanges are what may differ in the last row: what it has, another value, and the column that differs.
func featureChanges() [][3]string {
	return [][3]string{
		{`{"key": 2, "value": 1}`, `{"key": 2, "value": 1.25}`, "scores.2"},
		{`{"key": 2, "value": 1}`, `{"key": 2, "value": null}`, "scores.2"},
		{`{"key": 2, "value": 1}`, `{"key": 1, "value": 1}`, "scores.1"},
		{`{"key": 2, "value": 1}`, `{"key": 2, "value": 1}, {"key": 9, "value": 1}`, "scores.9"},
		{`"scores": [{"key": 2, "value": 1}]`, `"scores": null`, "scores"},
		{`{"key": "a", "value": []}`, `{"key": "a", "value": null}`, "ids.a"},
		{`{"key": "a", "value": []}`, `{"key": "a", "value": [null]}`, "ids.a"},
		{`{"key": "a", "value": []}`, `{"key": "a", "value": []}, {"key": "", "value": [1]}`, "ids."},
		{`{"key": 5, "value": "v"}`, `{"key": 6, "value": "v"}`, "ranked.k.key"},
		{`{"key": 5, "value": "v"}`, `{"key": 5, "value": null}`, "ranked.k.value"},
		{`"m": []`, `"m": [{"key": 3, "value": 1}]`, "s"},
		{`"x": null, "m"`, `"x": 0, "m"`, "s"},
		{`"y": "b"`, `"y": "c"`, "l"},
		{`{"x": null, "y": "b"}`, ``, "l"},
	}
}

func flatten(columns ...string) []Flattening { return []Flattening{{Columns: columns}} }

// Keys and fields are columns, in their order, and what remains stays in the maps.
func TestFlatten(t *testing.T) {
	in := parquetFile(t, featureRows(), features()...)
	r := run(t, Options{Inputs: []string{in}, Flatten: flatten("scores", "ids", "ranked", "s.m", "l"), Verify: true})
	got := table(t, r.Files...)
	want := "label scores.-7 scores.1 scores.2 scores ids.a ids.b.c ids ranked.k.key ranked.k.value ranked s.m.3 s l.x l.y"
	if s := strings.Join(r.Columns, " "); !r.Verified || len(r.Columns) != 15 {
		t.Errorf("columns %s", s)
	}
	for i, c := range r.Columns {
		if name, _, _ := strings.Cut(c, ":"); name != strings.Fields(want)[i] {
			t.Errorf("column %d is %s; want %s", i, c, strings.Fields(want)[i])
		}
	}
	for i, row := range []string{
		`1|1.5|2|(null)|[]|[1,2]|(null)|[{"key":"","value":[3]}]|[1,2]|["u",null]|[]|4|{"m":[],"none":null,"x":1}|[1,null]|["a",null]`,
		`2|(null)|(null)|(null)|(null)|(null)|(null)|[]|(null)|(null)|[]|(null)|(null)|(null)|(null)`,
		`3|(null)|(null)|1|[]|[]|(null)|[]|[5]|["v"]|[]|(null)|{"m":[],"none":null,"x":null}|[null]|["b"]`,
	} {
		if got[i+1] != row {
			t.Errorf("row %d is %s\nwant %s", i, got[i+1], row)
		}
	}
	listed := write(t, "keys", "scores.2\nids.b.c\r\n\nother.1\nscores.2\nranked.k.value\n")
	for _, tt := range []struct {
		text  string
		below float64
		want  []string
	}{
		{"scores=2,99", 0, []string{"scores.2", "scores.99"}},
		{"scores=2,-7", 0.5, nil},
		{"ranked", 0.5, []string{"ranked.k.key", "ranked.k.value"}},
		{"ids", 0.5, []string{"ids.a"}},
		{"scores,ids,ranked=@" + listed, 0, []string{"scores.2", "ids.b.c", "ranked.k.key", "ranked.k.value"}},
	} {
		f, err := ParseFlattening(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, Options{Inputs: []string{in}, Flatten: []Flattening{f}, RestBelow: tt.below, Verify: true})
		var got []string
		for _, c := range r.Columns {
			if name, _, _ := strings.Cut(c, ":"); strings.Contains(name, ".") {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s, below %v: %v, want %v", tt.text, tt.below, got, tt.want)
		}
	}
}

// Whatever differs between a table and a flattened one is found, and between two that are flattened differently.
func TestFlattenedDiffers(t *testing.T) {
	file := func(f []Flattening, changed ...string) string {
		in := parquetFile(t, featureRows(changed...), features()...)
		return run(t, Options{Inputs: []string{in}, Flatten: f}).Files[0]
	}
	layouts := map[string][]Flattening{
		"as it is":    nil,
		"all":         flatten("scores", "ids", "ranked", "s", "s.m", "l"),
		"one key":     {{Columns: []string{"scores"}, Keys: []string{"2"}}, {Columns: []string{"ranked"}, Keys: []string{"j"}}},
		"the structs": flatten("s", "l"),
	}
	store := newStore(t)
	compare := func(a, b string) (Comparison, error) {
		return Compare(t.Context(), Options{Store: store, Inputs: []string{a}}, Options{Store: store, Inputs: []string{b}})
	}
	base := map[string]string{}
	for name, f := range layouts {
		base[name] = file(f)
	}
	for _, tt := range featureChanges() {
		other := map[string]string{}
		for name, f := range layouts {
			other[name] = file(f, tt[0], tt[1])
		}
		for a := range layouts {
			for b := range layouts {
				c, err := compare(base[a], other[b])
				if a == "all" && b == "as it is" && !strings.Contains(strings.Join(c.First, " "), "column "+tt[2]) {
					t.Errorf("%s for %s: %v", tt[1], tt[0], c.First)
				}
				column, _, _ := strings.Cut(tt[2], ".") // as a whole, where neither side has its keys
				if err != nil || c.Different != 1 || len(c.First) == 0 || !strings.Contains(c.First[0], "column "+column) {
					t.Errorf("%s for %s, %s and %s: %+v, %v", tt[1], tt[0], a, b, c, err)
				}
			}
		}
	}
	for a := range layouts {
		for b := range layouts {
			if c, err := compare(base[a], base[b]); err != nil || c.Different != 0 || c.Rows != 3 {
				t.Errorf("%s and %s: %+v, %v", a, b, c, err)
			}
		}
	}
}

// Of repeated keys the last one counts, also where it is null, and a swapped row is found.
func TestFlattenedRows(t *testing.T) {
	m := nullable("m", arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64))
	entry := func(key, value string) string { return fmt.Sprintf(`{"key": %q, "value": %s}`, key, value) }
	row := func(entries ...string) string { return `{"m": [` + strings.Join(entries, ",") + `]}` }
	store := newStore(t)
	differ := func(a, b string) int64 {
		t.Helper()
		plain := parquetFile(t, "["+a+"]", m)
		flat := run(t, Options{Inputs: []string{parquetFile(t, "["+b+"]", m)}, Flatten: flatten("m")})
		c, err := Compare(t.Context(), Options{Store: store, Inputs: []string{plain}},
			Options{Store: store, Inputs: flat.Files})
		if err != nil {
			t.Fatal(err)
		}
		return c.Different
	}
	one, two := row(entry("a", "1"), entry("b", "3")), row(entry("a", "2"), entry("b", "3"))
	for _, tt := range []struct {
		a, b string
		want int64
	}{
		{row(entry("a", "1"), entry("a", "2")), row(entry("a", "2")), 0},
		{row(entry("a", "1"), entry("a", "null")), row(entry("a", "null")), 0},
		{row(entry("a", "1"), entry("a", "2")), row(entry("a", "2"), entry("a", "1")), 1},
		{one + "," + two, one + "," + two, 0},
		{one + "," + two, two + "," + one, 2},
		{row(entry("key", "1")), row(entry("key", "1")), 0}, // a clash: it stays in the map
		{row(entry("key", "1")), row(entry("key", "2")), 1},
	} {
		if got := differ(tt.a, tt.b); got != tt.want {
			t.Errorf("%s and %s: %d rows differ, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestFlattenErrors(t *testing.T) {
	number, word := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	in := parquetFile(t, `[]`,
		nullable("scores", arrow.MapOf(number, number)), nullable("texts", arrow.MapOf(word, number)),
		nullable("label", number), nullable("lists", arrow.ListOf(number)),
		nullable("odd", arrow.MapOf(number, arrow.StructOf(nullable("x", number)))),
		nullable("s", arrow.StructOf(nullable("t", arrow.StructOf(nullable("x", number))))),
		nullable("deep", arrow.ListOf(arrow.StructOf(nullable("y", arrow.ListOf(number))))),
		nullable("a", arrow.StructOf(nullable("b.c", number), nullable("b", arrow.StructOf(nullable("c", number))))))
	for text, want := range map[string]string{
		"score":         "a.parquet: --flatten score: there is no such column; nearest: scores",
		"label":         "--flatten label: the column is int64, and only maps, structs and lists of structs",
		"lists":         "--flatten lists: the column is list<",
		"odd":           "--flatten odd: its keys cannot be columns: it is a map whose values are structs",
		"s.t":           "--flatten s.t: it is a part of column s: flatten that",
		"deep":          "--flatten deep: deep.y can be no column: it is a list of lists",
		"a":             "--flatten a: a.b.c can be no column: it is one of several columns of this name",
		"s=1":           "column s is of structs, of which --flatten takes all fields",
		"scores=x":      "--flatten scores=x: scores.x: the keys of map scores are int64, and \"x\" is none",
		"scores=01":     "\"01\" is none",
		"texts=key":     "--flatten texts=key: texts.key: another column has that name",
		"scores,scores": "--flatten names column scores twice",
	} {
		f, err := ParseFlattening(text)
		if err != nil {
			t.Fatal(err)
		}
		fails(t, Options{Inputs: []string{in}, Flatten: []Flattening{f}}, want)
	}
	for text, want := range map[string]string{
		"":            "names no column",
		"a,":          "names no column",
		"a=":          "names an empty key, or none",
		"a=1,,2":      "names an empty key, or none",
		"a=@/no/file": "no such file",
	} {
		if _, err := ParseFlattening(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--flatten %s: %v", text, err)
		}
	}
	fails(t, Options{Inputs: []string{in}, RestBelow: 0.5}, "--rest-below is for keys of maps")
	fails(t, Options{Inputs: []string{in}, RestBelow: 1, Flatten: flatten("scores")}, "--rest-below 1 is no share of rows")
	fails(t, Options{Inputs: []string{write(t, "a.csv", "x\n1\n")}, Flatten: flatten("x")}, "the column is int64")
}

// Too many keys are refused, with the share that would leave those that are too rare.
func TestTooManyKeys(t *testing.T) {
	m := nullable("m", arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int64))
	row := func(from, to int) string {
		var all []string
		for key := from; key < to; key++ {
			all = append(all, fmt.Sprintf(`{"key": %d, "value": 1}`, key))
		}
		return `{"m": [` + strings.Join(all, ",") + `]}`
	}
	in := parquetFile(t, "["+row(0, mostFlat)+","+row(0, mostFlat)+","+row(mostFlat, mostFlat+1)+",{},{},{}]", m)
	o := Options{Inputs: []string{in}, Flatten: flatten("m")}
	fails(t, o, "keys of m would become 10,001 columns, and a file has at most 10,000 of them: --rest-below 0.34 leaves")
	f := newKeyCount(&flatMap{spot: spot{path: []string{"m"}, typ: m.Type}})
	f.counts = make([]int64, mostKeys)
	if err := f.addInt(1, 0); err == nil || !strings.Contains(err.Error(), "column m has more than 1000000 keys") {
		t.Errorf("too many to count: %v", err)
	}
}

// manyMaps are files of maps, and how many rows they have.
func manyMaps(t *testing.T) []string {
	t.Helper()
	var files []string
	for i := range 3 {
		var rows []string
		for row := range 10_000 {
			rows = append(rows, fmt.Sprintf(`{"x": %d, "m": [{"key": %d, "value": %d}]}`, row, row%(10*(i+1)), row))
		}
		files = append(files, parquetFile(t, "["+strings.Join(rows, ",")+"]", nullable("x", arrow.PrimitiveTypes.Int64),
			nullable("m", arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int64))))
	}
	return files
}

// TestKilledFlattening kills a process that flattens, which is this test in another process. What goes on makes the
// same columns, though the rest of the rows has other keys.
func TestKilledFlattening(t *testing.T) {
	const variable = "PENSTOCK_TEST_KILLED_FLATTENING"
	o := Options{FileRows: 4000, Flatten: flatten("m"), RestBelow: 0.01}
	if given := os.Getenv(variable); given != "" {
		o.Inputs = strings.Split(given, ",")
		o.Output = filepath.Join(filepath.Dir(o.Inputs[0]), "outputs")
		o.Progress = func(p Progress) {
			if !p.Counting && p.Rows > 20_000 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		run(t, o)
	}
	o.Inputs = manyMaps(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledFlattening$")
	cmd.Env = append(os.Environ(), variable+"="+strings.Join(o.Inputs, ","))
	if err := cmd.Run(); err == nil {
		t.Fatal("it was not killed")
	}
	o.Output = filepath.Join(filepath.Dir(o.Inputs[0]), "outputs")
	if _, err := os.Stat(o.Output); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is an output: %v", err)
	}
	o.Verify = true
	r := run(t, o)
	if r.Rows != 30_000 || len(r.Notes) != 2 || !strings.Contains(strings.Join(r.Notes, " "), "went on behind") {
		t.Errorf("result %+v", r)
	}
	if len(r.Columns) != 32 { // 20 keys of two files, 10 more of one, x and m
		t.Errorf("%d columns", len(r.Columns))
	}
}

// Maps in the shape of Hive, whose entries are named map and annotated as MAP_KEY_VALUE, are flattened, too.
func TestFlattenHive(t *testing.T) {
	node := func(n schema.Node, err error) schema.Node {
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	once, many := pq.Repetitions.Optional, pq.Repetitions.Repeated
	key := node(schema.NewPrimitiveNodeConverted("key", pq.Repetitions.Required, pq.Types.ByteArray,
		schema.ConvertedTypes.UTF8, -1, -1, -1, -1))
	entries := node(schema.NewGroupNodeConverted("map", many, schema.FieldList{key, schema.NewInt64Node("value", once, -1)},
		schema.ConvertedTypes.MapKeyValue, -1))
	maps := node(schema.NewGroupNodeConverted("m", once, schema.FieldList{entries}, schema.ConvertedTypes.Map, -1))
	root := node(schema.NewGroupNode("hive_schema", pq.Repetitions.Required, schema.FieldList{maps}, -1))
	var out bytes.Buffer
	w := parquetfile.NewParquetWriter(&out, root.(*schema.GroupNode))
	group := w.AppendRowGroup()
	column := func(write func(parquetfile.ColumnChunkWriter) (int64, error)) {
		c, err := group.NextColumn()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := write(c); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	reps := []int16{0, 1, 0, 0}
	column(func(c parquetfile.ColumnChunkWriter) (int64, error) {
		return c.(*parquetfile.ByteArrayColumnChunkWriter).WriteBatch(
			[]pq.ByteArray{[]byte("a"), []byte("b"), []byte("a")}, []int16{2, 2, 0, 2}, reps)
	})
	column(func(c parquetfile.ColumnChunkWriter) (int64, error) {
		return c.(*parquetfile.Int64ColumnChunkWriter).WriteBatch([]int64{1, 3}, []int16{3, 2, 0, 3}, reps)
	})
	if err := errors.Join(group.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	r := run(t, Options{
		Inputs: []string{write(t, "a.parquet", out.String())}, Flatten: flatten("m"), Verify: true,
	})
	expect(t, table(t, r.Files...)[1:], "1|(null)|[]", "(null)|(null)|(null)", "3|(null)|[]")
}

// Keys that are uint64 are named by their numbers, also from 2^63 on.
func TestFlattenUnsigned(t *testing.T) {
	in := parquetFile(t, `[
		{"far": [{"key": "18446744073709551615", "value": 1}, {"key": 0, "value": 2}]},
		{"far": [{"key": "9223372036854775808", "value": 3}, {"key": 7, "value": 4}]}]`,
		nullable("far", arrow.MapOf(arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Int64)))
	r := run(t, Options{Inputs: []string{in}, Flatten: flatten("far"), Verify: true})
	expect(t, table(t, r.Files...), "far.0 int64, far.7 int64, far.9223372036854775808 int64, "+
		"far.18446744073709551615 int64, far map<uint64, int64, items_nullable>",
		"2|(null)|(null)|1|[]", "(null)|4|3|(null)|[]")
	f, err := ParseFlattening("far=18446744073709551615,7")
	if err != nil {
		t.Fatal(err)
	}
	named := run(t, Options{Inputs: []string{in}, Flatten: []Flattening{f}, Verify: true})
	expect(t, table(t, named.Files...), "far.18446744073709551615 int64, far.7 int64, far map<uint64, int64, items_nullable>",
		`1|(null)|[{"key":0,"value":2}]`, `(null)|4|[{"key":9223372036854775808,"value":3}]`)
	store := newStore(t)
	other := parquetFile(t, `[{"far": [{"key": "18446744073709551615", "value": 1}, {"key": 0, "value": 2}]},
		{"far": [{"key": "9223372036854775808", "value": 5}, {"key": 7, "value": 4}]}]`,
		nullable("far", arrow.MapOf(arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Int64)))
	c, err := Compare(t.Context(), Options{Store: store, Inputs: []string{other}}, Options{Store: store, Inputs: r.Files})
	if err != nil || c.Different != 1 || !strings.Contains(c.First[0], "column far.9223372036854775808: 5 in") {
		t.Errorf("%+v, %v", c, err)
	}
	f.Keys = []string{"-1"}
	fails(t, Options{Inputs: []string{in}, Flatten: []Flattening{f}}, `far.-1: the keys of map far are uint64, and "-1" is none`)
}
