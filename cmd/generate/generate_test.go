package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/worker/transform"
)

func TestFilesAreUpToDate(t *testing.T) {
	for _, f := range files() {
		is, want, err := f.texts("../..")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(is, want) {
			t.Errorf("%s is not what the declarations say: run `make generate`", f.path)
		}
	}
}

// TestDeclarations holds what the generated texts need of each op.
func TestDeclarations(t *testing.T) {
	for _, op := range transform.Builtin().Ops() {
		first, _, _ := strings.Cut(op.Summary, ". ")
		if len(`    """.`)+len(first) > columns {
			t.Errorf("%s: the summary's first sentence is longer than a line in Python", op.Name)
		}
		if !strings.HasSuffix(op.Summary, ".") {
			t.Errorf("%s: the summary does not end with a full stop", op.Name)
		}
		if op.Exact == "" || strings.ContainsAny(op.Exact, "|\n") {
			t.Errorf("%s: Exact is no cell of a table: %q", op.Name, op.Exact)
		}
		named := false
		for _, p := range op.Params {
			if p.Positional && named {
				t.Errorf("%s: parameter %s comes after one that has to be named", op.Name, p.Name)
			}
			named = named || !p.Positional
		}
	}
}
