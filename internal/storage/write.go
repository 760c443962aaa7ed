package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// ErrNoWriter says that a store cannot be written to.
var ErrNoWriter = errors.New("penstock does not write to this store")

// Put writes a file of so many bytes, in place of one that may be there, and describes it. Whoever reads finds the old
// one, or the new one whole.
func (s *Store) Put(ctx context.Context, profile, uri string, body io.ReaderAt, size int64) (*pb.File, error) {
	uri, err := Canonical(uri)
	if err != nil {
		return nil, err
	}
	b, err := s.backend(profile, uri)
	if err == nil {
		err = put(ctx, b, uri, body, size)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", uri, err)
	}
	return b.Stat(ctx, uri)
}

func put(ctx context.Context, b retrying, uri string, body io.ReaderAt, size int64) error {
	w, err := b.writer()
	if err != nil {
		return err
	}
	timeout := b.cfg.AttemptTimeout + time.Duration(size)*time.Microsecond
	return b.retry(ctx, timeout, func(ctx context.Context, _ func(bool)) error {
		return w.Put(ctx, uri, body, size)
	})
}

// Remove removes a file that Put described. One that is gone already is no error, and one that was written again since
// is ErrChanged, and stays; whoever writes at that very moment may lose it.
func (s *Store) Remove(ctx context.Context, profile string, f *pb.File) error {
	b, err := s.backend(profile, f.GetUri())
	if err == nil {
		err = remove(ctx, b, f)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", f.GetUri(), err)
	}
	return nil
}

func remove(ctx context.Context, b retrying, f *pb.File) error {
	w, err := b.writer()
	if err != nil {
		return err
	}
	switch there, err := b.Stat(ctx, f.GetUri()); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case there.GetEtag() != f.GetEtag():
		return ErrChanged
	}
	return b.retry(ctx, b.cfg.AttemptTimeout, func(ctx context.Context, _ func(bool)) error {
		return w.Remove(ctx, f.GetUri())
	})
}

// writer is the backend's, if it writes.
func (r retrying) writer() (object.Writer, error) {
	w, ok := r.next.(object.Writer)
	if !ok {
		return nil, ErrNoWriter
	}
	return w, nil
}
