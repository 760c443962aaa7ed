package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/file"
)

// errOutside says that a link leads out of a directory.
var errOutside = errors.New("a link leads out of the directory")

// Confined fails if a link on the way to what a URI names leads out of a directory, itself a URI, above it: as far as the URI has
// no wildcards. Only disks have links.
func Confined(dir, uri string) error {
	canonical, err := Canonical(uri)
	if err != nil || !strings.HasPrefix(dir, file.Scheme) {
		return err
	}
	if i := strings.IndexAny(canonical, `*?[\`); i >= 0 {
		canonical = canonical[:strings.LastIndexByte(canonical[:i], '/')+1]
	}
	root, err := os.OpenRoot(strings.TrimPrefix(dir, file.Scheme))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nor is there anything to read
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer root.Close() //nolint:errcheck // nothing was written
	_, err = root.Stat(below(dir, canonical))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errOutside
}

// ConfinedFiles fails if one of the files that were listed below a directory does not lie there, but where a link leads. That it is
// the very file which was listed shows by its ETag: exchanging a link meanwhile does not help.
func ConfinedFiles(dir string, files []*pb.File) error {
	if !strings.HasPrefix(dir, file.Scheme) {
		return nil
	}
	root, err := os.OpenRoot(strings.TrimPrefix(dir, file.Scheme))
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer root.Close() //nolint:errcheck // nothing was written
	for _, f := range files {
		if !strings.HasPrefix(f.GetUri(), dir) {
			continue
		}
		info, err := root.Stat(below(dir, f.GetUri()))
		if err != nil || file.ETag(info) != f.GetEtag() {
			return errOutside
		}
	}
	return nil
}

// below is the path from a directory to what lies in it, "." for itself.
func below(dir, uri string) string {
	rel := strings.Trim(strings.TrimPrefix(uri+"/", dir), "/")
	if rel == "" {
		return "."
	}
	return rel
}
