package convert

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// criteo returns real rows, where the tests have them: in CI they must.
func criteo(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("PENSTOCK_TESTDATA")
	if dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("PENSTOCK_TESTDATA is not set: CI must test with real data")
		}
		t.Skip("PENSTOCK_TESTDATA does not say where real data lies")
	}
	return filepath.Join(dir, "criteo", "day_11_first_3k_rows.tsv")
}

func TestCriteo(t *testing.T) {
	in := criteo(t)
	r := run(t, Options{Inputs: []string{in}, Columns: []string{"criteo"}, FileRows: 1000, RowGroupRows: 400})
	if r.Rows != 3000 || len(r.Files) != 3 || len(r.Columns) != 40 {
		t.Fatalf("result %+v", r)
	}
	rows := table(t, r.Files...)
	if !strings.HasPrefix(rows[0], "label int32, int_0 int32") || !strings.HasSuffix(rows[0], "cat_25 int64") {
		t.Errorf("columns %s", rows[0])
	}
	f, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for i := 1; lines.Scan(); i++ {
		want := strings.Split(lines.Text(), "\t")
		for k, s := range want {
			if n, err := strconv.ParseUint(s, 16, 64); k > 13 && err == nil {
				want[k] = strconv.FormatUint(n, 10)
			}
			if s == "" {
				want[k] = "(null)"
			}
		}
		if rows[i] != strings.Join(want, "|") {
			t.Fatalf("row %d: got %s; want %s", i, rows[i], strings.Join(want, "|"))
		}
	}
	info, err := os.Stat(in)
	if err != nil || r.Bytes > info.Size()/2 {
		t.Errorf("%d bytes of %d", r.Bytes, info.Size())
	}
}

// Nothing needs to be said of a file with the layout of a preset.
func TestCriteoRecognised(t *testing.T) {
	r := run(t, Options{Inputs: []string{write(t, "empty.tsv", ""), criteo(t)}, Hex: []string{"cat_*"}})
	if r.Rows != 3000 || len(r.Columns) != 40 || r.Columns[0] != "label: int32" || len(r.Notes) != 1 ||
		!strings.Contains(r.Notes[0], "--columns criteo") {
		t.Errorf("result %+v", r)
	}
}

// Without a preset, the types of real columns are found.
func TestCriteoInferred(t *testing.T) {
	r := run(t, Options{Inputs: []string{criteo(t)}, NoHeader: true, Hex: []string{"col_1[4-9]", "col_[23]?"}})
	head := table(t, r.Files...)[0]
	if !strings.HasPrefix(head, "col_0 int64, col_1 int64") || strings.Contains(head, "utf8") {
		t.Errorf("columns %s", head)
	}
}

func BenchmarkCSV(b *testing.B) {
	line := "1,0.25,17,,abcdef,2.5e3,0ab2f30c,\"quoted, text\"\n"
	text := "a,b,c,d,e,f,h,g\n" + strings.Repeat(line, 200_000)
	in := write(b, "a.csv", text)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		run(b, Options{Inputs: []string{in}, Hex: []string{"h"}, Output: filepath.Join(b.TempDir(), "out")})
	}
}
