package desk

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/worker/transform"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run executes a command and returns what it prints.
func run(t *testing.T, cmd *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors = true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// newSpec writes a dataset of two files, and a spec with the given lines for its features and what follows.
func newSpec(t *testing.T, lines string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"a.parquet", "b.parquet"} {
		writeFile(t, filepath.Join(dir, name))
	}
	path := filepath.Join(dir, "spec.yaml")
	check(t, os.WriteFile(path, []byte("dataset:\n  uri: file://"+dir+"/\n"+lines), 0o600))
	return path
}

const good = `
features:
  - {name: x, layout: dense}
batch_size: 4
`

func writeFile(t *testing.T, path string) {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Float32}}, nil)
	f, err := os.Create(path)
	check(t, err)
	w, err := pqarrow.NewFileWriter(schema, f, nil, pqarrow.DefaultWriterProps())
	check(t, err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.Float32Builder).AppendValues(make([]float32, 50), nil)
	rec := b.NewRecord()
	defer rec.Release()
	check(t, w.Write(rec))
	check(t, w.Close())
}

func TestValidate(t *testing.T) {
	path := newSpec(t, good)
	out, err := run(t, Validate(transform.Builtin()), path)
	check(t, err)
	if !strings.Contains(out, "is valid: 2 files") || !strings.Contains(out, "reads 1 column,") || !strings.Contains(out, "order fast: ranks get rows as they take them") {
		t.Error(out)
	}
	out, err = run(t, Validate(transform.Builtin()), path, "-o", "json")
	check(t, err)
	var program struct{ Sources []struct{ Name string } }
	check(t, json.Unmarshal([]byte(out), &program))
	if len(program.Sources) != 1 || program.Sources[0].Name != "x" {
		t.Error(out)
	}
	tests := []struct {
		lines string
		want  []string
	}{
		{"features: [{name: [xx, y], layout: dense}]\nbatch_size: -3\nfilter: x2 > 1\n", []string{"features[0]", "xx", "y", "batch_size", "filter", "nearest: x"}},
		{"features: 7\nbatchsize: 3\n", []string{"features", "batchsize", "nearest: batch_size"}},
		{"transforms: [{op: nope, in: x}]\nfeatures: [{name: x, layout: dense}]\nbatch_size: 1\n", []string{"transforms[0]", "nope"}},
	}
	for _, test := range tests {
		path := newSpec(t, test.lines)
		out, err := run(t, Validate(transform.Builtin()), path)
		if err == nil || out != "" {
			t.Errorf("%s\nis accepted: %s", test.lines, out)
			continue
		}
		for _, want := range append(test.want, path) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v\nlacks %q", err, want)
			}
		}
	}
}

// TestValidateAllFiles has a bad file behind what a session reads when it opens.
func TestValidateAllFiles(t *testing.T) {
	path := newSpec(t, good)
	bad := filepath.Join(filepath.Dir(path), "c.parquet")
	check(t, os.WriteFile(bad, nil, 0o600))
	check(t, os.Truncate(bad, 1<<35)) // a block of its own
	if _, err := run(t, Validate(transform.Builtin()), path, "--quick"); err != nil {
		t.Error(err)
	}
	for _, cmd := range []*cobra.Command{Validate(transform.Builtin()), Plan(transform.Builtin())} {
		if out, err := run(t, cmd, path); err == nil || !strings.Contains(err.Error(), "c.parquet") || out != "" {
			t.Errorf("%s of a bad file: %v\n%s", cmd.Name(), err, out)
		}
	}
}

func TestPlan(t *testing.T) {
	path := newSpec(t, good)
	out, err := run(t, Plan(transform.Builtin()), path)
	check(t, err)
	for _, want := range []string{"files", "100", "float32", "RLE_DICTIONARY"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nlacks %q", out, want)
		}
	}
	out, err = run(t, Plan(transform.Builtin()), path, "--output", "json")
	check(t, err)
	var d struct {
		ListedFiles int `json:"listed_files"`
		Planned     struct{ Rows, Files int64 }
	}
	check(t, json.Unmarshal([]byte(out), &d))
	if d.ListedFiles != 2 || d.Planned.Rows != 100 || d.Planned.Files != 2 {
		t.Error(out)
	}
}
