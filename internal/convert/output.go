package convert

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/file"
)

// output takes files one after another, which nobody sees before publish: a directory of a disk (directory.go) or a
// place in another store (bucket.go).
type output interface {
	// done is what earlier runs finished, and this one so far.
	done() *progress
	// begin opens the next file.
	begin(ctx context.Context) (io.Writer, error)
	// end completes it.
	end(ctx context.Context, rows int64, after place) error
	// publish gives the files their names, and returns these.
	publish(ctx context.Context) ([]string, error)
	// abandon forgets what was not published, but for finished files, behind which another run can go on, and says so
	// in the error.
	abandon(err error) error
}

// newOutput prepares an output, which must not be there yet unless it may be overwritten.
func newOutput(ctx context.Context, o Options, in *inputs) (output, error) {
	if !strings.Contains(o.Output, "://") || strings.HasPrefix(o.Output, file.Scheme) {
		return newDirectory(o, in)
	}
	uri, err := storage.Canonical(o.Output)
	if err != nil {
		return nil, err
	}
	return newBucket(ctx, o, in, strings.TrimSuffix(uri, "/"))
}

// inside reports whether a file is the output or lies in it.
func inside(file, dir string) bool {
	a, err1 := filepath.Abs(file)
	b, err2 := filepath.Abs(dir)
	if err1 != nil || err2 != nil {
		return false
	}
	rel, err := filepath.Rel(b, a)
	return err == nil && filepath.IsLocal(rel)
}

// resumable says of an error that another run goes on behind the finished files.
func (p *progress) resumable(err error) error {
	if err == nil || len(p.files) == 0 {
		return err
	}
	return fmt.Errorf("%w (%d files are finished and kept; the same command goes on behind them, and with --restart "+
		"it begins anew)", err, len(p.files))
}
