package storage

import (
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/file"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// IsWeak reports whether other bytes may have a file's ETag, too. What is read of such a file is of use only to who
// listed it: no cache keeps it by its ETag.
func IsWeak(f interface{ GetEtag() string }) bool { return object.IsWeak(f.GetEtag()) }

// Alike reports whether a file is the one of the same size that had an ETag before, as far as its store can tell. That
// of a local file has its inode, too, which is another one in a copy that keeps the file's time.
func Alike(f *pb.File, etag string) bool {
	return f.GetEtag() == etag || strings.HasPrefix(f.GetUri(), file.Scheme) && file.Alike(f.GetEtag(), etag)
}

// IsLocal reports whether a file is one of this machine's, as far as its URI says.
func IsLocal(f *pb.File) bool { return strings.HasPrefix(f.GetUri(), file.Scheme) }
