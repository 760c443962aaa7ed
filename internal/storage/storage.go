// Package storage lists and reads a dataset's files wherever they lie: on disk (file://) or in S3 (s3://). The
// master lists and reads footers through it, workers read column chunks. A Storage and all that it returns may
// be used by many goroutines at once.
package storage

import (
	"context"

	"github.com/penstock-ml/penstock/api/pb"
)

// Range is a run of bytes of a file.
type Range struct{ Offset, Length int64 }

// Storage finds and reads files. URIs are resolved with a named profile (credentials, endpoint), which this
// process holds; "" is the profile "default".
type Storage interface {
	// List returns the files under URIs (prefixes, globs, single files), sorted by URI, without doubles, with
	// their Index set.
	List(ctx context.Context, profile string, uris []string) ([]*pb.File, error)
	// ReadAt fills buf from offset. It fails with ErrChanged if the file is no longer the one that was listed.
	ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error
}
