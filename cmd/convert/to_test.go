package convert

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// numbers is a file with a row for each number, of some types.
func numbers(t *testing.T, rows int) []string {
	var text strings.Builder
	text.WriteString("n,half,name,even\n")
	for i := range rows {
		fmt.Fprintf(&text, "%d,%g,\"a <%d> é\",%v\n", i, float64(i)/2, i, i%2 == 0)
	}
	return []string{write(t, "numbers.csv", text.String())}
}

func TestToArrow(t *testing.T) {
	in := numbers(t, 9000)
	r := run(t, Options{Inputs: in, To: "arrow", FileRows: 5000, Verify: true})
	if !r.Verified || len(r.Files) != 2 || filepath.Ext(r.Files[1]) != ".arrow" {
		t.Errorf("%+v", r)
	}
	if r := run(t, Options{Inputs: in, Output: filepath.Join(t.TempDir(), "x.feather"), Verify: true}); r.Rows != 9000 {
		t.Errorf("%+v", r)
	}
}

func TestToLines(t *testing.T) {
	type row struct {
		N    *int64   `json:"n"`
		Half *float64 `json:"half"`
		Name *string  `json:"name"`
		Even *bool    `json:"even"`
	}
	r := run(t, Options{Inputs: numbers(t, 1000), To: "jsonl", FileRows: 600})
	var got []row
	for _, name := range r.Files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			got = append(got, row{})
			if err := json.Unmarshal(lines.Bytes(), &got[len(got)-1]); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		want := row{new(int64(i)), new(float64(i) / 2), new(fmt.Sprintf("a <%d> é", i)), new(i%2 == 0)}
		if !reflect.DeepEqual(got[i], want) {
			t.Fatalf("row %d is %+v", i, got[i])
		}
	}
	if len(r.Files) != 2 || len(got) != 1000 {
		t.Errorf("%d rows in %v", len(got), r.Files)
	}
}

// TestJSONOf: values are as JSON has them, at any depth, and what it has not is an error.
func TestJSONOf(t *testing.T) {
	list := func(t arrow.DataType) arrow.DataType { return arrow.ListOf(t) }
	for _, tt := range []struct {
		typ        arrow.DataType
		in, out    string // as Arrow's reader of JSON takes it; as it is written
		fails      string
		invalidate bool // text is no UTF-8
	}{
		{typ: list(arrow.PrimitiveTypes.Float64), in: "[1.5, null, -2]", out: "[1.5,null,-2.0]"},
		{typ: list(arrow.PrimitiveTypes.Float64), in: "[1.5, \"NaN\"]", fails: "it is NaN, which JSON has not"},
		{typ: list(arrow.PrimitiveTypes.Uint64), in: `["9223372036854775807", 0]`, out: "[9223372036854775807,0]"},
		{
			typ: list(arrow.PrimitiveTypes.Uint64), in: `["9223372036854775808"]`,
			fails: "9223372036854775808 is beyond int64, which readers take",
		},
		{typ: list(list(arrow.PrimitiveTypes.Int64)), in: "[[1], [], null]", out: "[[1],[],null]"},
		{typ: list(arrow.BinaryTypes.String), in: `["a\"<é"]`, out: `["a\"\u003cé"]`},
		{typ: list(arrow.BinaryTypes.String), in: `["abc"]`, fails: "is no UTF-8", invalidate: true},
		{
			typ: arrow.StructOf(
				arrow.Field{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
				arrow.Field{Name: "a", Type: list(arrow.PrimitiveTypes.Int8), Nullable: true},
			),
			in: `{"b": true, "a": [7]}`, out: `{"b":true,"a":[7]}`,
		},
		{
			typ: list(arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64)),
			in:  `[[{"key": "x", "value": 1}, {"key": "y", "value": null}]]`, out: `[{"x":1,"y":null}]`,
		},
		{typ: &arrow.Decimal128Type{Precision: 38, Scale: 2}, in: `"0.10"`, out: `"0.10"`},
		{typ: arrow.FixedWidthTypes.Timestamp_us, in: `"2024-01-02T03:04:05.5Z"`, out: `"2024-01-02T03:04:05.5Z"`},
		{typ: arrow.FixedWidthTypes.Date32, in: `"2024-01-02"`, out: `"2024-01-02"`},
	} {
		a, _, err := array.FromJSON(memory.DefaultAllocator, tt.typ, strings.NewReader("["+tt.in+"]"))
		if err != nil {
			t.Fatal(tt.typ, err)
		}
		if tt.invalidate {
			a.(*array.List).ListValues().(*array.String).ValueBytes()[1] = 0xff
		}
		got, err := jsonOf(a, 0)
		if fails := err != nil; fails != (tt.fails != "") || fails && !strings.Contains(err.Error(), tt.fails) ||
			string(got) != tt.out {
			t.Errorf("%v %s: %s, %v", tt.typ, tt.in, got, err)
		}
	}
}

// TestToTar: rows are numbered over all files, also of a run that goes on.
func TestToTar(t *testing.T) {
	o := Options{Inputs: numbers(t, 9000), To: "tar", FileRows: 4500, Output: filepath.Join(t.TempDir(), "out")}
	_ = stopAfter(t, o, 5000)
	r := run(t, o)
	row, members := 0, 0
	for _, name := range r.Files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		in := tar.NewReader(f)
		for {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			row = members / 4
			data, err := io.ReadAll(in)
			want := map[string]string{
				"n.cls": fmt.Sprint(row), "half.json": fmt.Sprintf("%.1f", float64(row)/2),
				"name.txt": fmt.Sprintf("a <%d> é", row), "even.json": fmt.Sprint(row%2 == 0),
			}[strings.TrimPrefix(h.Name, fmt.Sprintf("%09d.", row))]
			if err != nil || string(data) != want || want == "" {
				t.Fatalf("member %d is %s: %q, %v", members, h.Name, data, err)
			}
			members++
		}
		_ = f.Close()
	}
	if members != 4*9000 || len(r.Files) != 2 || filepath.Base(r.Files[1]) != "part-00001.tar" {
		t.Errorf("%d members in %v", members, r.Files)
	}
}

func TestToErrors(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{To: "orc"}, "parquet, arrow, jsonl, tar"},
		{Options{To: "tar", Output: "x.parquet"}, "x.parquet has the name of a file of parquet"},
		{Options{To: "mds", Output: "x.mds"}, "MDS is a directory of shards with an index.json"},
		{Options{To: "mds", Inputs: []string{write(t, "d.csv", "a,b\n1,2\n,3\n")}}, "d.csv row 1: column a: it is null"},
		{
			Options{To: "mds", Nulls: []string{"NA"}, Inputs: []string{write(t, "a.csv", "a\n5\n"), write(t, "b.csv", "a\n1\nNA\n")}},
			"b.csv row 1: column a",
		},
		{
			Options{To: "mds", Inputs: []string{write(t, "a.csv", "a,b\n1,5\n,3\n7,4\n")}, SortBy: []string{"b"}},
			": row 0 of the output: column a",
		},
		{Options{To: "jsonl", Inputs: []string{write(t, "k.csv", "a\n1\nNaN\n")}}, "k.csv row 1: column a: "},
		{Options{To: "tar", Compression: "zstd"}, "--compression is for MDS, not for tar"},
		{Options{To: "mds", Compression: "gzip"}, `--compression "gzip"`},
		{Options{To: "jsonl", Order: &Order{}}, "--order is for Parquet"},
		{Options{To: "tar", Inputs: []string{write(t, "a.csv", "A\n1\n")}}, `column "A"`},
		{Options{To: "tar", Inputs: []string{write(t, "c.csv", "a,b\n1,2\n,\n")}}, "c.csv row 1: it is null in all columns"},
		{Options{To: "tar", Inputs: []string{write(t, "e.csv", "a,a.cls\n1,2\n")}}, `columns "a" and "a.cls"`},
		{Options{To: "tar", Inputs: []string{write(t, "f.csv", "json\nx\n")}}, "as json.txt it would be a field of JSON"},
		{Options{To: "tar", Inputs: []string{write(t, "g.csv", "__key__,a\nx,1\nx,2\n")}}, `row 1: its __key__, "x"`},
		{Options{To: "tar", Inputs: []string{write(t, "h.csv", "__key__,a\nx.y,1\n")}}, `row 0: its __key__, "x.y"`},
		{Options{To: "tar", Inputs: []string{write(t, "k.csv", "__key__,a\nx/y,1\n./z,1\n/b,1\n")}}, `row 2: its __key__, "/b"`},
		{Options{To: "tar", Inputs: []string{write(t, "l.csv", "__key__,a\n.../x,1\n../a,1\n")}}, `row 1: its __key__, "../a"`},
		{Options{To: "tar", Inputs: []string{write(t, "m.csv", "__key__,a\nx/../../a,1\n")}}, "outside of its folder"},
		{Options{To: "tar", Inputs: []string{write(t, "n.csv", "__key__,a\nx/./a,1\n")}}, `row 0: its __key__, "x/./a"`},
		{Options{To: "tar", Inputs: []string{write(t, "i.csv", "json.a,json.a.b\n1,1\n")}}, `column "json.a.b"`},
		{Options{To: "tar", Inputs: []string{write(t, "j.csv", "x.txt\na\n")}, Columns: []string{"x.txt:binary"}}, "it has bytes"},
		{Options{To: "jsonl", Inputs: []string{write(t, "b.csv", "b\nx\n")}, Columns: []string{"b:binary"}}, "column b: it has bytes"},
	} {
		if tt.o.Inputs == nil {
			tt.o.Inputs = []string{"x.csv"}
		}
		if tt.o.Output == "" {
			tt.o.Output = filepath.Join(t.TempDir(), "out")
		}
		if _, err := Run(t.Context(), tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.o, err)
		}
	}
}
