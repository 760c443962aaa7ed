package storage

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/keys"
)

// InMemory is the Storage of one file whose bytes are there. Any number of goroutines may read it.
type InMemory []byte

// List is for nobody.
func (InMemory) List(context.Context, string, []string) ([]*pb.File, error) {
	return nil, errors.New("a file in memory is not listed")
}

// ReadAt fills buf from offset.
func (m InMemory) ReadAt(_ context.Context, _ string, f *pb.File, buf []byte, offset int64) error {
	if offset < 0 || offset > int64(len(m)-len(buf)) {
		return fmt.Errorf("%s: %w", f.GetUri(), io.ErrUnexpectedEOF)
	}
	copy(buf, m[offset:])
	return nil
}

// Keys are none.
func (InMemory) Keys(string) *keys.Ring { return nil }
