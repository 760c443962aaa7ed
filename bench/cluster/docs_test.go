package cluster_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// The documentation's Python and commands are run by client/python/tests/test_docs.py.

// TestDocsNameRealTargets holds each `make TARGET` that people read of to what the Makefile has.
func TestDocsNameRealTargets(t *testing.T) {
	makefile, named := "\n"+readRoot(t, "Makefile"), 0
	for path, text := range docs(t) {
		for _, m := range regexp.MustCompile("(?m)(?:^    |`)make ([a-z][a-z0-9-]*)").FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: the Makefile has no target %s", path, m[1])
			}
			named++
		}
	}
	if named == 0 {
		t.Error("no page names a target")
	}
}

var goFile = regexp.MustCompile("(?ms)^```go title=\"(\\w+\\.go)\"\n(.*?)^```$")

// TestDocsGoCompiles checks the types of the documentation's programs in Go: those with a file's name.
func TestDocsGoCompiles(t *testing.T) {
	dir, programs := t.TempDir(), 0
	for path, text := range docs(t) {
		for _, m := range goFile.FindAllStringSubmatch(text, -1) {
			file := filepath.Join(dir, strings.TrimSuffix(strings.ReplaceAll(path, "/", "_"), ".md"), m[1])
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(m[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			programs++
		}
	}
	if programs == 0 {
		t.Fatal("no page has a program in Go")
	}
	writeModule(t, dir)
	vet := exec.CommandContext(t.Context(), "go", "vet", "./...")
	vet.Dir = dir
	vet.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod")
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// writeModule makes a directory a module that has ours in place of the one that is published.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	mod := strings.Replace(readRoot(t, "go.mod"), "module github.com/penstock-ml/penstock", "module example.com/mine", 1)
	mod += "\nrequire github.com/penstock-ml/penstock v0.0.0\n\nreplace github.com/penstock-ml/penstock => " + root + "\n"
	for name, text := range map[string]string{"go.mod": mod, "go.sum": readRoot(t, "go.sum")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// readRoot reads a file of the repository.
func readRoot(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// docs are the pages, and what stands beside the code, by path.
func docs(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"README.md", "CONTRIBUTING.md"} {
		out[name] = readRoot(t, name)
	}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			out[name] = readRoot(t, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDocsNameEachKind holds that the reference has each kind of event and each bottleneck that there is.
func TestDocsNameEachKind(t *testing.T) {
	for page, names := range map[string]map[int32]string{
		"docs/reference/events.md":  pb.EventKind_name,
		"docs/reference/metrics.md": pb.Bottleneck_name,
	} {
		text := strings.ToLower(readRoot(t, page))
		for n, name := range names {
			if n != 0 && !strings.Contains(text, "\n| `"+strings.ToLower(name)+"` |") {
				t.Errorf("%s has no row of %s", page, name)
			}
		}
	}
}
