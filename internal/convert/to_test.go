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
)

// numbers is a file with a row for each number, of some types.
func numbers(t *testing.T, rows int) []string {
	var text strings.Builder
	text.WriteString("n,half,name,even\n")
	for i := range rows {
		fmt.Fprintf(&text, "%d,%g,\"a <%d> é\",%v\n", i, float64(i)/2, i, i%2 == 0)
	}
	text.WriteString(",,,\n")
	return []string{write(t, "numbers.csv", text.String())}
}

func TestToArrow(t *testing.T) {
	in := numbers(t, 9000)
	r := run(t, Options{Inputs: in, To: "arrow", FileRows: 5000, Verify: true})
	if !r.Verified || len(r.Files) != 2 || filepath.Ext(r.Files[1]) != ".arrow" {
		t.Errorf("%+v", r)
	}
	if r := run(t, Options{Inputs: in, Output: filepath.Join(t.TempDir(), "x.feather"), Verify: true}); r.Rows != 9001 {
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
	if len(r.Files) != 2 || len(got) != 1001 || !reflect.DeepEqual(got[1000], row{}) {
		t.Errorf("%d rows in %v", len(got), r.Files)
	}
}

// TestToTar: rows are numbered over all files, also of a run that goes on, and what is null has no member.
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
				"n": fmt.Sprint(row), "half": fmt.Sprint(float64(row) / 2), "name": fmt.Sprintf("a <%d> é", row),
				"even": fmt.Sprint(row%2 == 0),
			}[strings.TrimPrefix(h.Name, fmt.Sprintf("%09d.", row))]
			if err != nil || string(data) != want || want == "" {
				t.Fatalf("member %d is %s: %q, %v", members, h.Name, data, err)
			}
			members++
		}
		_ = f.Close()
	}
	if members != 4*9000 || len(r.Files) != 3 || filepath.Base(r.Files[2]) != "part-00002.tar" {
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
		{Options{To: "tar", Verify: true}, "--verify reads Parquet and Arrow"},
		{Options{To: "jsonl", Order: &Order{}}, "--order is for Parquet"},
		{Options{To: "tar", Inputs: []string{write(t, "a.csv", "A\n1\n")}}, `column "A"`},
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
