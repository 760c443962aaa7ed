package storage

import (
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/file"
)

// Alike reports whether a file is the one of the same size that had an ETag before, as far as its store can tell. That
// of a local file has its inode, too, which is another one in a copy that keeps the file's time.
func Alike(f *pb.File, etag string) bool {
	return f.GetEtag() == etag || strings.HasPrefix(f.GetUri(), file.Scheme) && file.Alike(f.GetEtag(), etag)
}
