// Package storage lists and reads a dataset's files wherever they lie: on disk (file://), in S3 (s3://), in Google
// Cloud Storage (gs://), in Azure (az://, abfss://), on web servers (https://) or on the Hugging Face Hub (hf://). The
// master lists and reads footers through it, workers read column chunks. Behind New stand the table of stores
// (stores.go: a folder each), a retrying decorator, and the profiles of a Config (docs/reference/storage.md). A Storage
// and all that it returns may be used by many goroutines at once.
package storage

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"syscall"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/keys"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// ErrChanged says that a file is no longer the one that was listed.
var ErrChanged = object.ErrChanged

// ErrSecret says that a URI holds what gives access. Messages do not repeat such a URI.
var ErrSecret = object.ErrSecret

// IsTransient reports whether a failed call may well succeed later, or through another process.
func IsTransient(err error) bool { return object.IsTransient(err) }

// IsOurs reports whether a failed read is due to this process: its profiles, credentials, keys, permissions or network.
// Another one may read the file.
func IsOurs(err error) bool { return object.IsOurs(err) }

// blame marks an error of a backend as this process's own unless it is known to be the file's: gone, changed, shorter
// than it was listed, or on a disk that cannot read it. What is marked already may be about a file of the configuration
// that is gone.
func blame(err error) error {
	if IsTransient(err) || IsOurs(err) {
		return err
	}
	for _, known := range []error{
		ErrChanged, fs.ErrNotExist, io.ErrUnexpectedEOF, syscall.EIO, context.Canceled,
		context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	return object.Ours(err)
}

// Ours marks an error so that IsOurs reports it.
func Ours(err error) error { return object.Ours(err) }

// Range is a run of bytes of a file.
type Range struct{ Offset, Length int64 }

// Storage finds and reads files. URIs are resolved with a named profile (credentials, endpoint), which this
// process holds; "" is the profile "default".
type Storage interface {
	// List returns the files under URIs, sorted by URI, without doubles, with their Index set. A URI names
	//   - a file, whatever its name ends in, or a directory: all files below it whose endings are a format's
	//     (FormatOf), the same of all of them, or that have no ending, which are Unknown; without empty ones, and
	//     without hidden ones, of which a level below the directory begins with "." or "_" (a hive partition such as
	//     "_day=1" is not hidden);
	//   - by a "/" at its end, a directory;
	//   - with *, ?, [..] or ** (any number of levels), all files that match. Wildcards do not match hidden names.
	//     With a "/" at its end it names directories.
	// Empty files are not among them, unless a URI names one by itself. A backslash quotes the character after it in
	// a glob. A path without a scheme is that of a local file. It is an error if a URI names no file at all.
	List(ctx context.Context, profile string, uris []string) ([]*pb.File, error)
	// ReadAt fills buf from offset. It fails with ErrChanged if the file is no longer the one that was listed,
	// and with fs.ErrNotExist if it is gone. Errors name the file; see IsTransient and IsOurs.
	ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error
	// Keys returns the keys of a profile's encrypted files; nil if it has none.
	Keys(profile string) *keys.Ring
}
