// Generate writes what the ops of worker/transform declare into what people read: the builders of the Python package,
// and the table in README.md. `go generate ./worker/transform` runs it, in that folder. The binary does not have it. A
// test fails when a file is not up to date.
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
	ops := transform.Builtin()
	for _, f := range files() {
		if err := f.write(".", ops); err != nil {
			fmt.Fprintln(os.Stderr, "generate:", err)
			os.Exit(1)
		}
	}
}

// file has a part between two lines that is generated.
type file struct {
	path       string // below worker/transform
	begin, end string
	text       func(r *transform.Registry) string
}

func files() []file {
	const by = "written by `go generate ./worker/transform`"
	return []file{
		{"../../client/python/src/penstock/ops.py", "# begin: " + by + "\n", "# end: " + by + "\n", builders},
		{"README.md", "<!-- begin: " + by + " -->\n", "<!-- end: " + by + " -->\n", table},
	}
}

// texts returns the file as it is and as it ought to be; dir is worker/transform.
func (f file) texts(dir string, r *transform.Registry) (is, want []byte, err error) {
	is, err = os.ReadFile(filepath.Join(dir, f.path))
	if err != nil {
		return nil, nil, err
	}
	before, rest, begins := strings.Cut(string(is), f.begin)
	_, after, ends := strings.Cut(rest, f.end)
	if !begins || !ends {
		return nil, nil, fmt.Errorf("%s: it has no lines %q and %q", f.path, f.begin, f.end)
	}
	return is, []byte(before + f.begin + f.text(r) + f.end + after), nil
}

func (f file) write(dir string, r *transform.Registry) error {
	is, want, err := f.texts(dir, r)
	if err != nil || bytes.Equal(is, want) {
		return err
	}
	return os.WriteFile(filepath.Join(dir, f.path), want, 0o644)
}
