// Package clitest has what tests of commands share. Only tests import it.
package clitest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"github.com/spf13/cobra"
)

// Good are the lines of a spec without mistakes, after its dataset.
const Good = `
features:
  - {name: x, layout: dense}
batch_size: 4
`

// Run executes a command and returns what it prints.
func Run(t *testing.T, cmd *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceErrors = true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// Spec writes a dataset of two files with a column x, and a spec with the given lines for its features and what
// follows. It returns the spec's path.
func Spec(t *testing.T, lines string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"a.parquet", "b.parquet"} {
		writeFile(t, filepath.Join(dir, name))
	}
	path := filepath.Join(dir, "spec.yaml")
	check(t, os.WriteFile(path, []byte("dataset:\n  uri: file://"+dir+"/\n"+lines), 0o600))
	return path
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

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
