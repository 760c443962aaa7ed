package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
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

func put(ctx context.Context, b object.Backend, uri string, body io.ReaderAt, size int64) error {
	tries, ok := b.(retrying)
	if !ok {
		return ErrNoWriter
	}
	w, ok := tries.next.(object.Writer)
	if !ok {
		return ErrNoWriter
	}
	timeout := tries.cfg.AttemptTimeout + time.Duration(size)*time.Microsecond
	return tries.retry(ctx, timeout, func(ctx context.Context, _ func(bool)) error {
		return w.Put(ctx, uri, body, size)
	})
}
