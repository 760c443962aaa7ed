package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ownOp is an op such as users write; version v multiplies by v+1.
const ownOp = `
package main

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// grow is an op that multiplies float32 features.
func grow(version uint32) transform.Op {
	return transform.Op{
		Name: "grow", Version: version, Summary: "Multiplies each value.", Maps: true,
		Inputs: "float32", Output: "float32", Example: "{op: grow, in: x}",
		Infer: func(_ transform.Params, in []spec.Type) (spec.Type, error) { return spec.Type{Kind: pb.Kind_FLOAT32}, nil },
		New: func(transform.Params, []spec.Type) (transform.Kernel, error) { return kernel{float32(version + 1)}, nil },
	}
}

type kernel struct{ factor float32 }

func (k kernel) Run(out *vector.Vector, in []*vector.Vector) error {
	out.Valid, out.F32 = in[0].Valid, vector.Grow(out.F32, in[0].Rows)
	for i, x := range in[0].F32[:in[0].Rows] {
		out.F32[i] = k.factor * x
	}
	return nil
}
`

// ownMain does what main.go and the registry's page tell a user to do: write such a main in another module, and add an
// op, here in versions 1 to newest. It returns the binary, which lists that op beside ours.
func ownMain(t *testing.T, newest int) string {
	t.Helper()
	dir := t.TempDir()
	replace := func(s, old, with string) string {
		if !strings.Contains(s, old) {
			t.Fatalf("no %q to replace", old)
		}
		return strings.Replace(s, old, with, 1)
	}
	var versions []string
	for v := 1; v <= newest; v++ {
		versions = append(versions, fmt.Sprintf("grow(%d)", v))
	}
	main := replace(readRoot(t, "main.go"), `func main() { cmd.Main(release, transform.Builtin()) }`, `func main() {
	ops, err := transform.Builtin().With(`+strings.Join(versions, ", ")+`)
	if err != nil {
		panic(err)
	}
	cmd.Main(release, ops)
}`)
	writeModule(t, dir)
	for name, text := range map[string]string{"main.go": main, "grow.go": ownOp} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mine := filepath.Join(dir, "mine")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", mine, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), mine, "ops").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "grow") || !strings.Contains(string(out), "sigrid_hash") {
		t.Errorf("penstock ops: %v\n%s", err, out)
	}
	return mine
}
