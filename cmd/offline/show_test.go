package offline

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/cmd/convert"
	"github.com/penstock-ml/penstock/worker/vector"
)

// table makes a dataset of CSV texts, a file of each.
func table(t *testing.T, texts ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		in := filepath.Join(t.TempDir(), "in.csv")
		if err := os.WriteFile(in, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, string(rune('a'+i))+".parquet")
		if _, err := convert.Run(t.Context(), convert.Options{
			Inputs: []string{in}, Output: out,
			RowGroupRows: 2,
		}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func runShow(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	cmd := Show()
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestShow looks at two files of which one lacks a column.
func TestShow(t *testing.T) {
	dir := table(t,
		"id,score,name,at\n7,0.5,b,2026-01-02 03:04:05\n-3,,\"\",\n9,2.5,\xc3\xa4,2025-12-31\n",
		"id,score\n100,-1.5\n")
	var got shown
	if err := json.Unmarshal([]byte(strings.Split(runShow(t, dir, "--head=0", "--output=json"), "\n")[0]),
		&got); err != nil {
		t.Fatal(err)
	}
	if got.Files != 2 || got.Rows != 4 || got.RowGroups != 3 || got.Bytes == 0 || len(got.Columns) != 4 ||
		len(got.Head) != 0 {
		t.Errorf("%+v", got)
	}
	text := strings.Join(strings.Fields(runShow(t, dir)), " ")
	for _, want := range []string{
		"4 rows in 2 files and 3 row groups", " 0 -3 100 ", " 1 -1.5 2.5 ", "id int64 dense sparse label tensor ", "2025-12-31T00:00:00Z 2026-01-02T03:04:05Z",
		`id=7 score=0.5 name="b" at=1767323045000000`, `id=-3 score=null name="" at=null`,
		"id=100 score=-1.5 name=null at=null",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	first := strings.Join(strings.Fields(runShow(t, dir, "--files=1")), " ")
	if !strings.Contains(first, "the first 1 of 2 files: 3 rows in 1 file and 2 row groups") ||
		!strings.Contains(first, " 0 -3 9 ") || strings.Contains(first, "id=100") {
		t.Errorf("the first file alone: %s", first)
	}
	want := `"head":[{"id":7,"score":0.5,"name":"b","at":1767323045000000},{"id":-3,"score":null,"name":"","at":null},{"id":9,"score":2.5,"name":"ä","at":1767139200000000}]}`
	if text := runShow(t, dir, "--head=3", "--output=json"); !strings.HasSuffix(text, want+"\n") {
		t.Errorf("%s\nshould end with\n%s", text, want)
	}
}

// TestShowOddNames: what a terminal would obey is quoted, and one name is one line.
func TestShowOddNames(t *testing.T) {
	out := runShow(t, table(t, "id,\"s\x1b[8m\ncore\"\n7,0.5\n"))
	for _, want := range []string{"\n\"s\\x1b[8m\\ncore\"  float", `id=7 "s\x1b[8m\ncore"=0.5`} {
		if !strings.Contains(out, want) || strings.Contains(out, "\x1b") {
			t.Errorf("%q\nlacks %q", out, want)
		}
	}
}

// TestShowShapes shows what files say of a column beyond the type that ops see, and values of lists of lists.
func TestShowShapes(t *testing.T) {
	e := spec.Type{Kind: pb.Kind_FLOAT32, List: true, Nested: 1}
	c := describe(spec.Column{Name: "e", Type: e, Own: pb.Kind_FLOAT16, Shape: []int32{2, 3}}, nil)
	if c.kind() != "list<list<float16>> [2, 3]" || strings.Join(c.Layouts, " ") != "tensor" {
		t.Errorf("%+v is %s", c, c.kind())
	}
	v := &vector.Vector{
		Type: e, Rows: 3, Valid: []uint64{0b011}, Offsets: []int32{0, 2, 3, 3},
		Nested: []vector.Level{{Offsets: []int32{0, 1, 1, 3}, Valid: []uint64{0b101}}},
		F32:    []float32{0.5, 1, 2}, ElemValid: []uint64{0b101},
	}
	got, err := json.Marshal([]any{at(v, 0), at(v, 1), at(v, 2)})
	if want := "[[[0.5],null],[[null,2]],null]"; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

// TestShowAs shows files read as --format says, of which the folder has others, and so does the index.
func TestShowAs(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.csv": "n;s\n7;x\n8;y\n", "b.jsonl": "{}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const how = "--format={name: csv, delimiter: ;}"
	if out := runShow(t, dir, how); !strings.Contains(out, "2 rows in 1 file") || !strings.Contains(out, `n=8 s="y"`) {
		t.Error(out)
	}
	var out strings.Builder
	cmd := Index()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{dir, how})
	if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "1 file of 1 indexed") {
		t.Errorf("%v, %s", err, &out)
	}
}

// TestSplits: commands read the split of a folder that flags name.
func TestSplits(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"train.csv": "n\n7\n8\n", "test.csv": "n\n9\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := runShow(t, dir, "--split=train"); !strings.Contains(out, "2 rows in 1 file") {
		t.Error(out)
	}
	for want, of := range map[string]struct {
		cmd  *cobra.Command
		args []string
	}{
		"1 file of 1 indexed": {Index(), []string{dir, "--split=test"}},
		"3 rows":              {Convert(), []string{dir, "--split=all", "--out=" + t.TempDir() + "/out"}},
		"equal: 2 rows":       {Diff(), []string{dir, dir + "/train.csv", "--split=train", "--subset=default"}},
		`no split "dev"`:      {Show(), []string{dir, "--split=dev"}},
	} {
		var out strings.Builder
		of.cmd.SetOut(&out)
		of.cmd.SetErr(&out)
		of.cmd.SetArgs(of.args)
		err := of.cmd.ExecuteContext(t.Context())
		if said := out.String() + fmt.Sprint(err); !strings.Contains(said, want) {
			t.Errorf("%v: %s, want %q", of.args, said, want)
		}
	}
}

// TestShowNamesTheFile of a row that cannot be shown.
func TestShowNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte("n\n1\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := Show()
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{path, "--format={name: csv, columns: {n: int64}}"})
	err := cmd.ExecuteContext(t.Context())
	if err == nil || strings.Count(err.Error(), "file://"+path+": row 1: ") != 1 {
		t.Error(err)
	}
}
