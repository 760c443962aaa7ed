package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/file"
)

// ErrOutside says that a link leads out of a directory.
var ErrOutside = errors.New("a link leads out of the directory")

// Confined fails with ErrOutside if a link on the way to what a URI names leads out of a directory, itself a URI, above
// it: as far as the URI has no wildcards. Only disks have links. It fails, too, where that cannot be told.
func Confined(dir, uri string) error {
	canonical, err := Canonical(uri)
	if err != nil || !strings.HasPrefix(dir, file.Scheme) {
		return err
	}
	if fixed := Fixed(canonical); fixed != canonical {
		canonical = fixed[:strings.LastIndexByte(fixed, '/')+1]
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
	return outside(canonical, err)
}

// outside is what it means that a path cannot be followed below a root. That it leads out is the root's own word, the
// rest the system's.
func outside(uri string, err error) error {
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return fmt.Errorf("look for links on the way to %s: %w", uri, err)
	}
	return ErrOutside
}

// ConfinedFiles fails with ErrOutside if one of the files that were listed below a directory does not lie there, but
// where a link leads. That it is the very file which was listed shows by its ETag: exchanging a link meanwhile does not
// help. It fails, too, where a file has changed since.
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
		if err != nil {
			return outside(f.GetUri(), err)
		}
		if file.ETag(info) != f.GetEtag() {
			return exchanged(f)
		}
	}
	return nil
}

// exchanged says of a file which is not the one that was listed whether that one is still there, but where a link
// leads.
func exchanged(f *pb.File) error {
	if info, err := os.Stat(strings.TrimPrefix(f.GetUri(), file.Scheme)); err == nil && file.ETag(info) == f.GetEtag() {
		return ErrOutside
	}
	return fmt.Errorf("%s: %w", f.GetUri(), ErrChanged)
}

// below is the path from a directory to what lies in it, "." for itself.
func below(dir, uri string) string {
	rel := strings.Trim(strings.TrimPrefix(uri+"/", dir), "/")
	if rel == "" {
		return "."
	}
	return rel
}
