package cluster_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ownOp is an op such as users write.
const ownOp = `
package main

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// double is an op that doubles float32 features.
var double = transform.Op{
	Name: "double", Version: 1, Summary: "Doubles each value.", Maps: true,
	Inputs: "float32", Output: "float32", Example: "{op: double, in: x}",
	Infer: func(_ transform.Params, in []spec.Type) (spec.Type, error) { return spec.Type{Kind: pb.Kind_FLOAT32}, nil },
	New:   func(transform.Params, []spec.Type) (transform.Kernel, error) { return kernel{}, nil },
}

type kernel struct{}

func (kernel) Run(out *vector.Vector, in []*vector.Vector) error {
	out.Valid, out.F32 = in[0].Valid, vector.Grow(out.F32, in[0].Rows)
	for i, x := range in[0].F32[:in[0].Rows] {
		out.F32[i] = 2 * x
	}
	return nil
}
`

// TestMainOfOnesOwn does what main.go and the registry's page tell a user to do: copy main.go into another module,
// and add an op.
func TestMainOfOnesOwn(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	replace := func(s, old, with string) string {
		if !strings.Contains(s, old) {
			t.Fatalf("no %q to replace", old)
		}
		return strings.Replace(s, old, with, 1)
	}
	mod := replace(read("go.mod"), "module github.com/penstock-ml/penstock", "module example.com/mine")
	mod += "\nrequire github.com/penstock-ml/penstock v0.0.0\n\nreplace github.com/penstock-ml/penstock => " + root + "\n"
	main := replace(read("main.go"), `	if err := command(transform.Builtin()).ExecuteContext(ctx); err != nil {`, `	ops, err := transform.Builtin().With(double)
	if err != nil {
		panic(err)
	}
	if err := command(ops).ExecuteContext(ctx); err != nil {`)
	for name, text := range map[string]string{"go.mod": mod, "go.sum": read("go.sum"), "main.go": main, "double.go": ownOp} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mine := filepath.Join(dir, "mine")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", mine, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), mine, "ops").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "double") || !strings.Contains(string(out), "sigrid_hash") {
		t.Errorf("penstock ops: %v\n%s", err, out)
	}
}
