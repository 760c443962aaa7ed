package csv_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// TestFilesOfOthers: files that others wrote have the rows of their twins.
func TestFilesOfOthers(t *testing.T) {
	for _, o := range filetest.Others(t, "csv") {
		t.Run(o.File, func(t *testing.T) {
			file := formattest.Of(t, o)
			if o.File == "csv/numbers.csv" { // 007 is an identifier, if nobody says otherwise
				file.How.Columns = map[string]string{"i": "int64"}
			}
			if _, headless := o.Options["header"]; headless {
				file.How.Options["names"] = texts("id", "price", "name", "count", "flag", "note")
			}
			formattest.Twin(t, file, o.TwinData(t))
		})
	}
}

// TestValues: what texts are, inferred and declared.
func TestValues(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		how  *pb.Format
		want string
	}{
		"inferred": {
			"i,f,b,s,d,t,n\n 1 ,1,true,x,1970-01-02,1970-01-01 00:00:01,\n-2,.5,FALSE,,1969-12-31,1970-01-01T00:00:00.5Z,\n",
			nil, // floats as their bits, days as both kinds that they are read as
			"[[1 4607182418800017408 true x 1 1 1000000] [-2 4602678819172646912 false <nil> -1 -1 500000]]",
		},
		"nanoseconds": {"t\n1970-01-01 00:00:00.000000001\n1970-01-02\n", nil, "[[1] [86400000000000]]"},
		"declared": {
			"i,f,s,d,t\n007,.1,7,,2026-01-02\n",
			declared("i", "int16", "f", "float32", "s", "string", "d", "date", "t", "timestamp"),
			// numbers as all kinds that they are read as
			"[[7 7 7 1036831949 4591870180174331904 7 <nil> <nil> 1767312000000000]]",
		},
		"nulls are those that are said": {
			"i,s\nNA,NA\n1,\n\"NA\",\"NA\"\n", options("nulls", texts("NA")), "[[<nil> <nil>] [1 ] [<nil> NA]]",
		},
		"an empty line of one column is a row": {"a\n1\n\n2\n", nil, "[[1] [<nil>] [2]]"},
		"lines ends of any kind":               {"a,b\r1,2\r\n\r3,4\n\n5,\"6\r\n7\"", nil, "[[1 2] [3 4] [5 6\r\n7]]"},
		"comments, and names that are none": {
			"#x\na,\n#\"\n1,2\n", options("comment", text("#")), "[[1 2]]",
		},
		"no header": {"1,x\n", options("header", boolean(false)), "[[1 x]]"},
		"bytes":     {"a\n\xff\n", nil, "[[\xff]]"},
		"no rows":   {"a,b\n", nil, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			rows := csvOf(tc.text, tc.how).Rows(t)
			if got := shown(rows); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// shown writes rows, whose texts are bytes.
func shown(rows [][]any) string {
	out := make([][]any, len(rows))
	for i, row := range rows {
		for _, v := range row {
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			out[i] = append(out[i], v)
		}
	}
	return fmt.Sprint(out)
}

// TestRefuses: what is wrong is told, with its place and what to do.
func TestRefuses(t *testing.T) {
	many := "a,b\n" + strings.Repeat("1,2\n", 20_000)
	for name, tc := range map[string]struct {
		text string
		how  *pb.Format
		want []string
	}{
		"empty":       {"", nil, []string{"x.csv", "the file is empty"}},
		"few fields":  {"a,b\n1,2\n3\n", nil, []string{"row 1", "byte 8", "1 fields", "2 columns", "delimiter"}},
		"many fields": {"a,b\n1,2\n3,4,5\n", nil, []string{"row 1", "byte 8", "3 fields", "2 columns"}},
		"late text": {
			many + "x,2\n", nil,
			[]string{"row 20000", "byte 80004", "column a", "byte 0 of the record", `"x" is no int64`, "columns.a", "nulls"},
		},
		"a float":        {"a\n0.5\n", declared("a", "int64"), []string{`"0.5" is no int64`, "declare dataset.format.columns.a: float64, add"}},
		"out of range":   {"a\n300\n", declared("a", "uint8"), []string{`"300" is no uint8`, "as declared"}},
		"not a float":    {"a\n1,5\n", declaredWith(options("delimiter", text(";")), "a", "float32"), []string{`"1,5"`}},
		"not UTF-8":      {"a\n\xff\n", declared("a", "string"), []string{"is not UTF-8", "columns.a: binary"}},
		"UTF-16":         {"\xff\xfea\x00", nil, []string{"it is UTF-16", "UTF-8"}},
		"open quote":     {"a,b\n1,\"2\n", nil, []string{"byte 4", "does not end", "dataset.format.quote"}},
		"behind a quote": {"a,b\n1,\"2\"3\n", nil, []string{"field 1", "byte 2 of the record", "closing quote"}},
		"no names":       {"1,2\n3,4\n", nil, []string{`"1,2"`, "looks like data", "header: false"}},
		"names twice": {
			"a\n1\n", options("names", texts("b")), []string{"dataset.format.names", "header: false"},
		},
		"names for others": {
			"1\n", withOption(options("names", texts("b", "c")), "header", boolean(false)), []string{"2 names", "1 fields"},
		},
		"a list":        {"a\n1\n", declared("a", "list<int64>"), []string{"columns.a", "no type"}},
		"a delimiter":   {"a\n1\n", options("delimiter", text(";;")), []string{"dataset.format.delimiter", "one ASCII"}},
		"a character":   {"a\n1\n", options("quote", text(",")), []string{"two of delimiter, quote"}},
		"an option":     {"a\n1\n", options("sep", text(",")), []string{"CSV has no option sep", "delimiter"}},
		"a null":        {"a\n1\n", options("nulls", &pb.Value{Kind: &pb.Value_Int{Int: 1}}), []string{"dataset.format.nulls"}},
		"a long record": {"a\n" + strings.Repeat("x", 99), options("max_record_bytes", &pb.Value{Kind: &pb.Value_Int{Int: 50}}), []string{"byte 2", "more than 50 bytes", "max_record_bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			formattest.Fails(t, csvOf(tc.text, tc.how), tc.want...)
		})
	}
}

// TestTwoColumnsOfAName: neither can be read.
func TestTwoColumnsOfAName(t *testing.T) {
	f, err := csvOf("a,a\n1,2\n", nil).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Bind([]*pb.Source{{Name: "a", Path: []string{"a"}, Type: &pb.Type{Kind: pb.Kind_INT64}}})
	if err == nil || !strings.Contains(err.Error(), "one of several columns of this name") {
		t.Error(err)
	}
}

// TestExtents: a file of several extents has all of its rows, once, however it is compressed: where the second member
// of a file begins, there is no header.
func TestExtents(t *testing.T) {
	data := table(150_000)
	line := bytes.LastIndexByte(data[:len(data)/2], '\n') + 1
	for name, cuts := range map[string][]int{
		"plain": nil, "members of whole records": {line, len(data)}, "members": {1000, len(data) / 2, len(data)},
	} {
		t.Run(name, func(t *testing.T) {
			file := formattest.File{Name: "x.csv", Data: data}
			if cuts != nil {
				file.Data = members(t, data, cuts)
			}
			f, err := file.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Extents()) < 2 {
				t.Fatalf("there are %d extents", len(f.Extents()))
			}
			rows := file.Rows(t, &pb.Source{Name: "id", Path: []string{"id"}, Type: &pb.Type{Kind: pb.Kind_INT64}})
			if len(rows) != 150_000 {
				t.Fatalf("there are %d rows", len(rows))
			}
			for i, row := range rows {
				if row[0] != int64(i) {
					t.Fatalf("row %d is %v", i, row)
				}
			}
		})
	}
}

// members compresses data, a member to each cut.
func members(t testing.TB, data []byte, cuts []int) []byte {
	t.Helper()
	var out bytes.Buffer
	from := 0
	for _, to := range cuts {
		w := gzip.NewWriter(&out)
		if _, err := w.Write(data[from:to]); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		from = to
	}
	return out.Bytes()
}

// TestTruncated: a file that was cut off anywhere is refused, or has the rows that it still has; if it is compressed, it
// is refused.
func TestTruncated(t *testing.T) {
	for _, o := range filetest.Others(t, "csv") {
		if !slices.Contains([]string{"csv/excel.csv", "csv/pandas.csv.gz"}, o.File) {
			continue
		}
		file, before := formattest.Of(t, o), int64(0)
		for n := range file.Data {
			rows, err := rowsOf(t, formattest.File{Name: file.Name, Data: file.Data[:n:n], How: file.How})
			if err == nil && (rows < before || n > 1 && strings.HasSuffix(o.File, ".gz")) {
				t.Fatalf("%s: of %d bytes there are %d rows, and of fewer %d", o.File, n, rows, before)
			}
			if err == nil {
				before = rows
			}
		}
		if before == 0 && !strings.HasSuffix(o.File, ".gz") {
			t.Errorf("%s was never read", o.File)
		}
	}
}

// rowsOf counts the rows of a file, all of which can be read.
func rowsOf(t *testing.T, file formattest.File) (int64, error) {
	t.Helper()
	f, err := file.Load(t.Context())
	if err != nil {
		return 0, err
	}
	return format.Rows(f), file.Read(t.Context())
}

// FuzzFile reads files of any bytes in some dialects: all of one is decoded, or refused.
func FuzzFile(f *testing.F) {
	for _, o := range filetest.Others(f, "csv") {
		f.Add(o.Data(f), byte(0), byte(0))
	}
	f.Add([]byte("a;b\n#\n1;'2\\'\n"), byte(';'), byte('\\'))
	f.Fuzz(func(t *testing.T, data []byte, delimiter, escape byte) {
		how := options("max_ratio", &pb.Value{Kind: &pb.Value_Int{Int: 100}})
		if delimiter != 0 {
			how.Options["delimiter"] = text(string(rune(delimiter)))
		}
		if escape != 0 {
			how.Options["escape"], how.Options["comment"] = text(string(rune(escape))), text("#")
		}
		_ = formattest.File{Name: "x.csv", Data: data, How: how}.Read(t.Context())
	})
}
