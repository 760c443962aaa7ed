package convert

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/file"
)

// output takes files one after another, which nobody sees before publish: a directory of a disk (directory.go) or a
// place in another store (bucket.go).
type output interface {
	// scratch is a directory of this machine for temporary files.
	scratch() string
	// done is what earlier runs finished, and this one so far.
	done() *progress
	// start is told the order of columns, nil if they lie as in the inputs, before the first file. Before it the output
	// keeps others from writing it, but nothing of an earlier run is dropped.
	start(ctx context.Context, order []int) error
	// begin opens the next file of a folder in the output; "." is the output itself.
	begin(ctx context.Context, folder string) (io.Writer, error)
	// end completes it, and takes what is known of it.
	end(ctx context.Context, f finished) error
	// publish gives the files their names, and returns these. A further file may lie beside them.
	publish(ctx context.Context, beside *attached) ([]string, error)
	// abandon forgets what was not published, but for finished files, behind which another run can go on, and says so
	// in the error.
	abandon(err error) error
}

// newOutput prepares an output, which must not be there yet unless it may be overwritten.
func newOutput(ctx context.Context, o Options, in *inputs) (output, error) {
	if err := apart(o); err != nil {
		return nil, err
	}
	if !strings.Contains(o.Output, "://") || strings.HasPrefix(o.Output, file.Scheme) {
		return newDirectory(o, in)
	}
	uri, err := storage.Canonical(o.Output)
	if err != nil {
		return nil, err
	}
	return newBucket(ctx, o, in, strings.TrimSuffix(uri, "/"))
}

// inside reports whether a file is the output or lies in it, by whichever links.
func inside(file, dir string) bool {
	rel, err := filepath.Rel(resolved(dir), resolved(file))
	return err == nil && filepath.IsLocal(rel)
}

// resolved is a path without links, as far as there is a file.
func resolved(name string) string {
	name, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	if dir := filepath.Dir(name); dir != name {
		return filepath.Join(resolved(dir), filepath.Base(name))
	}
	return name
}

// apart refuses an output that lies in an input's folder: who reads that one would find each row twice.
func apart(o Options) error {
	out, err := storage.Canonical(o.Output)
	if err != nil {
		return err
	}
	out = strings.TrimSuffix(out, "/")
	for _, uri := range o.Inputs {
		if t, ok := spec.ParseTable(uri); ok {
			if t.InCatalog() {
				continue
			}
			uri = t.Root
		}
		in, err := storage.Canonical(uri)
		if err != nil {
			return err
		}
		found := storage.Finds(in, out+"/"+path.Join(o.anyFolder(), partName(0, o.ending())))
		if dir, local := strings.CutPrefix(in, file.Scheme); local && storage.Fixed(in) == in {
			to, local := strings.CutPrefix(out, file.Scheme)
			found = local && inside(to, dir) && !inside(dir, to)
		}
		if found {
			return fmt.Errorf("output %s lies in the input %s, which would hold each row twice: name a directory "+
				"elsewhere", o.Output, uri)
		}
	}
	return nil
}

// resumable says of an error that another run goes on behind the finished files.
func (p *progress) resumable(err error) error {
	if err == nil || len(p.files) == 0 {
		return err
	}
	return fmt.Errorf("%w (%d files are finished and kept; the same command goes on behind them, and with --restart "+
		"it begins anew)", err, len(p.files))
}
