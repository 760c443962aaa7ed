package spec

import (
	"path"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// ResolvePaths makes the relative paths of a spec's dataset absolute. A slash at an end stays: it says that the path is
// a directory.
func ResolvePaths(s *pb.Spec, workingDir string) {
	uris := s.GetDataset().GetUri()
	for i, uri := range uris {
		if !IsRelative(uri) {
			continue
		}
		uris[i] = path.Join(workingDir, uri)
		if strings.HasSuffix(uri, "/") {
			uris[i] += "/"
		}
	}
}

// IsRelative reports whether a URI is a path that begins at a working directory.
func IsRelative(uri string) bool {
	return uri != "" && !strings.Contains(uri, "://") && !path.IsAbs(uri)
}
