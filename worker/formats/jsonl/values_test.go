package jsonl_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

func lines(text string, columns ...string) formattest.File {
	f := formattest.File{Name: "file.jsonl", Data: []byte(text)}
	for i := 0; i < len(columns); i += 2 {
		if f.How == nil {
			f.How = &pb.Format{Columns: map[string]string{}}
		}
		f.How.Columns[columns[i]] = columns[i+1]
	}
	return f
}

// f64 is a float as formattest.Values has it.
func f64(x float64) uint64 { return math.Float64bits(x) }

// TestColumns: what a file's front shows are its columns.
func TestColumns(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1}`:                      "a int64",
		`{"a": 1}{"a": 2.5}`:            "a float64",
		`{"a": NaN}{"a": -Infinity}`:    "a float64",
		`{"a": true}{"a": null}{}`:      "a bool",
		`{"a": "x"}`:                    "a binary",
		`{"a": null}`:                   "a without a type: whoever wrote it saw only nulls",
		`{"a": []}`:                     "a a list without a type: whoever wrote it saw no element",
		`{"a": [null, []]}{"a": [[1]]}`: "a list<list<int64>>",
		`{"a": [1]}{"a": 1}`: "a of several types, numbers and lists: dataset.format.columns may declare the one of " +
			"those records that are to be read",
		`{"a": {"b": 1, "c": {"d": "x"}}, "e": {}}`:  "a.b int64, a.c.d binary",
		`{"a": [{"b": 1}, {"c": {"d": 2.5}}, null]}`: "a.b list<int64>, a.c.d list<float64>",
		`{"a": [{"b": [1]}]}`:                        "a.b lists, within objects in lists",
		`{"a": [[{"b": 1}]]}`:                        "a lists of objects, within lists",
		`{"a": [[[[[[[[[1]]]]]]]]]}`:                 "a lists within lists, more than 7 of them",
		`{"a": 18446744073709551615}`:                "a integers that int64 does not have: dataset.format.columns may declare it float64, which rounds them",
		`{"a.b": 1, "a": {"b": 2}}`:                  "a.b one of several columns of this name, a.b one of several columns of this name",
		`{"b": 1}{"a": 1, "b":`:                      "b int64",
		`nonsense{"a": 1}`:                           "a int64",
		`{"a": {"b": 1}, "x": 1} declared a:string`:  "x int64, a binary",
		`{"x": 1} declared u.v:list<float32>`:        "x int64, u.v list<float32>",
		`{"x": 1, "y": 2} declared x:int8`:           "x int32, y int64",
	} {
		text, declared, _ := strings.Cut(text, " declared ")
		name, typ, ok := strings.Cut(declared, ":")
		file := lines(strings.ReplaceAll(strings.ReplaceAll(text, "}{", "}\n{"), "sense{", "sense\n{"))
		if ok {
			file = lines(text, name, typ)
		}
		f, err := file.Load(t.Context())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, c := range f.Columns().Schema.Columns {
			what := c.Unsupported
			if what == "" {
				what = c.Type.String()
			}
			got = append(got, c.Name+" "+what)
		}
		if have := strings.Join(got, ", "); have != want {
			t.Errorf("%s: %s, want %s", text, have, want)
		}
	}
}

// TestValues: what records hold of their columns.
func TestValues(t *testing.T) {
	for text, want := range map[string][][]any{
		"{\"a\": -0, \"b\": 9007199254740993}\n{\"a\": -0.0, \"b\": 1e2}\n":                                {{f64(0), f64(9007199254740992)}, {f64(math.Copysign(0, -1)), f64(100)}},
		"{\"a\": [{\"b\": 1}, {}, null, {\"b\": null}]}\n{\"a\": []}\n{\"a\": null}\n{}":                   {{[]any{int64(1), nil, nil, nil}}, {[]any{}}, {nil}, {nil}},
		"{\"a\": {\"b\": 1}}\n{\"a\": null}\n{\"a\": {}}\n\n \t\r\n{\"x\": {\"b\": 2}, \"a\": {\"b\": 3}}": {{int64(1), nil}, {nil, nil}, {nil, nil}, {int64(3), int64(2)}},
		"{\"a\": \"\\ud83d\\udc1f\\n\"}\r\n{\"\\u0061\": \"\"}":                                            {{"🐟\n"}, {""}},
		"{\"a\": [[1, null], null, []]}":                                                                   {{[]any{[]any{int64(1), nil}, nil, []any{}}}},
		"\ufeff{\"a\": NaN}":                                                                               {{f64(math.NaN())}},
	} {
		if _, got := formattest.Values(t, lines(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestFloat32: numbers of a column of float32 are rounded once.
func TestFloat32(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		x := rapid.Float64Range(-1e30, 1e30).Draw(r, "x")
		text := fmt.Sprintf(rapid.SampledFrom([]string{"%v", "%e", "%.3f", "%.20f", "%.0f"}).Draw(r, "form"), x)
		var wide float64
		var narrow float32
		if json.Unmarshal([]byte(text), &wide) != nil || json.Unmarshal([]byte(text), &narrow) != nil {
			t.Fatal(text)
		}
		_, got := formattest.Values(t, lines(`{"a": `+text+`, "b": `+text+"}\n", "a", "float32", "b", "float64"))
		if text == "-0" {
			wide, narrow = 0, 0
		}
		if want := []any{math.Float32bits(narrow), math.Float64bits(wide)}; !reflect.DeepEqual(got[0], want) {
			t.Fatalf("%s: %x, want %x", text, got[0], want)
		}
	})
}

// TestErrors: what does not fit says where it is.
func TestErrors(t *testing.T) {
	const good = `{"a": 1, "b": "x", "c": [1], "d": {"e": true}}` + "\n"
	for record, want := range map[string]string{
		`{"a": 9223372036854775808}`:    "column a: byte 6 of it: 9223372036854775808, which int64 does not have",
		`{"a": 1.0}`:                    "1.0 where a whole number is wanted: declare the column float64 in dataset.format.columns",
		`{"a": "1"}`:                    `column a: byte 6 of it: the text "1" where int64 is wanted`,
		`{"a": true}`:                   "column a: byte 10 of it: true where int64 is wanted",
		`{"a": [1]}`:                    "column a: byte 6 of it: '[' where int64, not a list, is wanted",
		`{"a": {}}`:                     "column a: byte 6 of it: '{' where int64, not an object, is wanted",
		`{"b": 1}`:                      "column b: byte 6 of it: the number 1 where binary is wanted",
		"{\"b\": \"\xff\"}":             "column b: byte 7 of it: it is not UTF-8",
		`{"b": "\ud83d"}`:               "column b: byte 7 of it: an escape that is no character, or half of one",
		`{"b": "\x"}`:                   `column b: byte 7 of it: the escape \x, which JSON does not have`,
		"{\"b\": \"\t\"}":               "column b: byte 7 of it: a string has the control character '\\t', which must be escaped",
		`{"b": "`:                       "column b: byte 7 of it: it ends inside of a string",
		`{"c": 1}`:                      "column c: byte 6 of it: '1' where a list is wanted",
		`{"c": [[1]]}`:                  "column c: byte 7 of it: '[' where int64, not a list, is wanted",
		`{"c": [1`:                      "column c: byte 8 of it: it ends where ',' or ']' is wanted",
		`{"d": 1}`:                      "column d: byte 6 of it: '1' where an object is wanted",
		`{"d": [{"e": true}]}`:          "column d: byte 6 of it: a list where one value is wanted",
		`{"d": {"e": true, "e": true}}`: "column d.e: byte 22 of it: the name stands in its object twice",
		`{"a": 1, "a": null}`:           "column a: byte 13 of it: the name stands in its object twice",
		`{"a": 01}`:                     "column a: byte 6 of it: a number that begins with 0",
		`{"a": 1`:                       "byte 7 of it: it ends where ',' or '}' is wanted",
		`{"a": 1} {}`:                   "byte 9 of it: '{' where the end of the line is wanted",
		`{"x": [}], "a": 1}`:            "byte 7 of it: '}' closes what something else opened",
		`{"x": tru}`:                    "byte 6 of it: 't' where a value is wanted",
		`[1]`:                           "byte 0 of it: '[' where an object is wanted",
		`{a: 1}`:                        "byte 1 of it: 'a' where a name is wanted",
		"\x00":                          "byte 0 of it: '\\x00' where an object is wanted",
		`{"x": ` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`: "lists and objects within each other are deeper than 1024",
		`{"d": {"e": 1` + strings.Repeat("0", 400) + `}}`:                      "column d.e: byte 12 of it: the number 1000",
	} {
		file := lines(strings.Repeat(good, 3)+record+"\n"+good, "a", "int64", "b", "string", "c", "list<int64>", "d.e",
			"bool")
		formattest.Fails(t, file, fmt.Sprintf("row 3: record at byte %d: ", 3*len(good)), want)
	}
	formattest.Fails(t, lines(`{"a": 300}`, "a", "int8"), "300, which the type that the column is declared to have does not have")
	formattest.Fails(t, lines(`{"a": 1e400}`), "1e400, which float64 does not have")
	formattest.Fails(t, lines(`{"a": 1e39}`, "a", "float32"), "1e39, which float32 does not have")
}

// TestRefused: files that are JSON, but not of lines, say what to do.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		`[{"a": 1}, {"a": 2}]`:                   "it is one list of JSON, not JSON lines: write each of its elements on a line",
		"[\n{\"a\": 1},\n{\"a\": 2}\n]":          "it is one list of JSON, not JSON lines",
		"{\n  \"a\": 1\n}":                       "its first line is not a whole object of JSON, as if one were written over many lines",
		`{"a" 1}`:                                "its first record: byte 5 of it: '1' where ':' is wanted",
		"[" + strings.Repeat(`{"a": 1},`, 1<<16): "it is one list of JSON",
	} {
		formattest.Fails(t, lines(text), want)
		file := lines(text)
		file.Name = "file.json"
		if !strings.Contains(text, `"a" 1`) {
			formattest.Fails(t, file, want)
		}
	}
	for typ, want := range map[string]string{
		"uint128": "\"uint128\" is no type", "float16": "JSON has no float16; declare it float32",
		"tensor<2x2xint64>": "declare it list<int64>",
	} {
		formattest.Fails(t, lines(`{"a": 1}`, "a", typ), "dataset.format.columns.a: ", want)
	}
}

// FuzzParse: whatever a record is, encoding/json and this parser agree on it, where it is one that both take.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"a": 1, "b": [1.5, null], "c": {"d": "x\u00e9\ud83d\udc1f"}}`, `{"c": {"d": "` + strings.Repeat("é ", 30) + `"}}`,
		`{"b": [-1e3, 0.1, 5e-324, 123456789012345678901234567890], "x": {"y": ["}", {}]}}`, ` { "a" : -5 } `, `{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		if bytes.ContainsAny(record, "\n") || !bytes.Contains(record, []byte("{")) {
			return
		}
		file := lines(string(record), "a", "int64", "b", "list<float64>", "c.d", "string")
		if file.Read(t.Context()) != nil || !json.Valid(record) {
			return
		}
		var want map[string]any
		d := json.NewDecoder(bytes.NewReader(record))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("%q: %v", record, err)
		}
		columns, got := formattest.Values(t, file)
		for i, c := range columns {
			value := want[c.Path[0]]
			if of, ok := value.(map[string]any); ok && len(c.Path) > 1 {
				value = of[c.Path[1]]
			}
			if slices.Contains([]string{"a", "b", "c.d"}, c.Name) && !reflect.DeepEqual(got[0][i], plain(value, c.Name)) {
				t.Fatalf("%q: %s is %v, want %v", record, c.Name, got[0][i], value)
			}
		}
	})
}

// plain is a value of encoding/json as formattest.Values has it.
func plain(v any, column string) any {
	switch v := v.(type) {
	case []any:
		out := []any{}
		for _, item := range v {
			out = append(out, plain(item, column))
		}
		return out
	case json.Number:
		if column == "a" {
			n, _ := v.Int64()
			return n
		}
		x, _ := v.Float64()
		if x == 0 && !strings.ContainsAny(v.String(), ".eE") {
			x = math.Abs(x)
		}
		return f64(x)
	}
	return v
}
