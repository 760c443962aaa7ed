// Generate writes what declarations in Go say into what people read: of ops, the builders of the Python package and the
// table of their reference; the reference of commands; and that of the Go packages. `make generate` runs it, in the
// repository's root. The binary does not have it. A test fails when a file is not up to date.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/penstock-ml/penstock/worker/transform"
)

func main() {
	for _, f := range files() {
		if err := f.write("."); err != nil {
			fmt.Fprintln(os.Stderr, "generate:", err)
			os.Exit(1)
		}
	}
}

// file is generated, or its part between two lines.
type file struct {
	path       string // below the repository's root
	begin, end string // "": all of the file
	text       func(root string) (string, error)
}

const by = "written by `make generate`"

func files() []file {
	ops := func(text func(*transform.Registry) string) func(string) (string, error) {
		return func(string) (string, error) { return text(transform.Builtin()), nil }
	}
	return []file{
		{"docs/reference/cli.md", "", "", func(string) (string, error) { return commands(), nil }},
		{"docs/reference/go.md", "", "", golang},
		{"client/python/src/penstock/ops.py", "# begin: " + by + "\n", "# end: " + by + "\n", ops(builders)},
		{"docs/reference/ops.md", "<!-- begin: " + by + " -->\n", "<!-- end: " + by + " -->\n", ops(table)},
	}
}

// texts returns the file as it is and as it ought to be.
func (f file) texts(root string) (is, want []byte, err error) {
	is, err = os.ReadFile(filepath.Join(root, f.path))
	if err != nil && (f.begin != "" || !os.IsNotExist(err)) {
		return nil, nil, err
	}
	text, err := f.text(root)
	if err != nil || f.begin == "" {
		return is, []byte(text), err
	}
	before, rest, begins := strings.Cut(string(is), f.begin)
	_, after, ends := strings.Cut(rest, f.end)
	if !begins || !ends {
		return nil, nil, fmt.Errorf("%s: it has no lines %q and %q", f.path, f.begin, f.end)
	}
	return is, []byte(before + f.begin + text + f.end + after), nil
}

func (f file) write(root string) error {
	is, want, err := f.texts(root)
	if err != nil || bytes.Equal(is, want) {
		return err
	}
	return os.WriteFile(filepath.Join(root, f.path), want, 0o644)
}
