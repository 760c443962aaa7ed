package storage

import (
	"context"

	"github.com/penstock-ml/penstock/api/pb"
)

// May refuses to have a file read that tells of others, such as README.md. It hears of the file's ETag, by which the
// file is then read: what took its place meanwhile is not. Nil: all may be read.
type May func(f *pb.File) error

// Asking is a Teller that asks before it reads files that tell of others.
type Asking interface {
	TellIf(ctx context.Context, of *pb.Dataset, may May) ([]*pb.File, LeftOut, error)
}

// TellIf is Tell, and asks before it reads files that tell of others. What never reads any need not be Asking.
func TellIf(ctx context.Context, st Storage, of *pb.Dataset, may May) ([]*pb.File, LeftOut, error) {
	if asking, ok := st.(Asking); ok {
		return asking.TellIf(ctx, of, may)
	}
	return Tell(ctx, st, of)
}

// readIf reads a file from its front, if it may be read.
func (s *Store) readIf(ctx context.Context, may May, profile string, f *pb.File, buf []byte) error {
	if may != nil {
		if err := may(f); err != nil {
			return err
		}
	}
	return s.ReadAt(ctx, profile, f, buf, 0)
}
