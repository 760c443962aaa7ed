package fit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/fitted"
	"github.com/penstock-ml/penstock/internal/storage"
)

// removeTimeout bounds how long a fit that ends tries to remove what it has shown to workers.
const removeTimeout = 30 * time.Second

// where finds the file to write, which must be none, or a fitted one.
func (r *fit) where(path string) error {
	r.out = r.flags.out
	if r.out == "" {
		r.out = r.spec.GetFitted().GetUri()
	}
	if r.out == "" {
		return fmt.Errorf("%s names no file to write; add `fitted: s3://bucket/clicks.fitted.parquet` to it, or give --out",
			path)
	}
	uri, err := storage.Canonical(r.out)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	r.out = uri
	if err := r.outside(r.out); err != nil {
		return err
	}
	there, err := r.there(r.out)
	if err != nil || there == nil {
		return err
	}
	if _, err = fitted.Open(r.cmd.Context(), r.out, there.GetSize(), r.reads(there)); err != nil {
		return fmt.Errorf("%w, or name another one: nothing but a fitted file is replaced", err)
	}
	return nil
}

// beside finds the file that workers read until all passes are made. One that is there is of this very fit, which was
// killed, and is replaced, whatever is in it.
func (r *fit) beside() (err error) {
	r.unfinished = unfinishedOf(r.out, r.name())
	if err := r.outside(r.unfinished); err != nil {
		return err
	}
	r.shown, err = r.there(r.unfinished)
	return err
}

// unfinishedOf is the file of a fit beside the one that it writes. No listing of a folder takes it for data: by its
// name, and its end.
func unfinishedOf(uri, fit string) string {
	dir, name := path.Split(uri)
	return dir + "_" + name + "." + fit + ".unfinished"
}

// there is the file of a URI; nil: there is none.
func (r *fit) there(uri string) (*pb.File, error) {
	info, err := os.Stat(strings.TrimPrefix(uri, "file://")) // else it shows only when all is done
	isFolder := err == nil && info.IsDir()
	listed, err := r.storage.List(r.cmd.Context(), r.profile(), []string{uri})
	switch {
	case isFolder || len(listed) > 0 && listed[0].GetUri() != uri:
		return nil, fmt.Errorf("%s is a folder; name a file to write", uri)
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // documented
	case err != nil:
		return nil, err
	}
	return listed[0], nil
}

// outside refuses to write among the files of the dataset, of which the file would be one then.
func (r *fit) outside(file string) error {
	for _, uri := range r.spec.GetDataset().GetUri() {
		dir, err := storage.Canonical(uri)
		if err != nil {
			return fmt.Errorf("dataset.uri: %w", err)
		}
		if storage.Finds(dir, file) {
			return fmt.Errorf("%s would be one of the dataset's files, which are those of %s; write it elsewhere, or "+
				"give it a name that begins with _, such as _fitted.parquet", file, dir)
		}
	}
	return nil
}

func (r *fit) profile() string { return r.spec.GetDataset().GetStorage() }

func (r *fit) reads(f *pb.File) fitted.ReadAt {
	return func(ctx context.Context, buf []byte, offset int64) error {
		return r.storage.ReadAt(ctx, r.profile(), f, buf, offset)
	}
}

// show writes what passes have come to, or a file of nothing, to where workers read it. So a place that cannot be
// written to shows before the first pass.
func (r *fit) show(ctx context.Context) (err error) {
	if r.known != nil {
		r.shown, err = r.publish(ctx, r.unfinished)
		return err
	}
	var none bytes.Buffer
	w, err := fitted.NewWriter(&none, r.info())
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		r.shown, err = r.storage.Put(ctx, r.profile(), r.unfinished, bytes.NewReader(none.Bytes()), int64(none.Len()))
	}
	if err != nil {
		return fmt.Errorf("--out: %w; name a file that can be written, and the file beside it, too", err)
	}
	return nil
}

// publish writes what passes have come to.
func (r *fit) publish(ctx context.Context, uri string) (*pb.File, error) {
	file, err := os.Open(r.file())
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return r.storage.Put(ctx, r.profile(), uri, file, info.Size())
}

// withdraw removes what was shown: a fit that goes on shows it again. The same fit may have written it anew elsewhere.
func (r *fit) withdraw() {
	if r.shown == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.cmd.Context()), removeTimeout)
	defer cancel()
	err := r.storage.Remove(ctx, r.profile(), r.shown)
	if err == nil || errors.Is(err, storage.ErrChanged) {
		return
	}
	cli.Status(os.Stderr, "")
	fmt.Fprintf(r.cmd.ErrOrStderr(), "%v; nobody needs it any more: remove it yourself\n", err)
}
