package file

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Store describes the local file system.
func Store() object.Store {
	return object.Store{Name: "file", Schemes: []string{"file"}, Canonical: canonical, Backend: Disk{}}
}

func canonical(uri string) (string, error) {
	given := strings.TrimPrefix(uri, Scheme)
	if !strings.HasPrefix(given, "/") {
		return "", fmt.Errorf("%s: file:// must be followed by an absolute path, as in file:///data/", uri)
	}
	return join(path.Clean(given), given), nil
}

// URI makes one of a path, which may be relative to the working directory.
func URI(given string) (string, error) {
	abs, err := filepath.Abs(given)
	if err != nil {
		return "", fmt.Errorf("path %s: %w", given, err)
	}
	return join(abs, given), nil
}

// join makes a URI of a clean path and keeps the "/" that ends what was given.
func join(clean, given string) string {
	if strings.HasSuffix(given, "/") && clean != "/" {
		clean += "/"
	}
	return Scheme + clean
}
