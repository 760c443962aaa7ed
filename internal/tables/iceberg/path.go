package iceberg

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/internal/tables/table"
)

// root is a table's folder. Nothing outside it is read.
type root struct {
	uri      string // without a "/" at its end
	location string // how the metadata spells it, as spelled writes it
}

func newRoot(uri, location string) (root, error) {
	if !strings.Contains(uri, "://") || strings.HasSuffix(uri, "/") {
		return root{}, fmt.Errorf("%s is no URI of a folder", uri)
	}
	return root{uri, strings.TrimRight(spelled(location), "/")}, nil
}

var errLeaves = errors.New("it lies outside the table's folder: copy the table's rows to a table that has all its " +
	"files below its location")

// resolve turns a path of the metadata into a URI. Paths are not encoded. A table may have been copied: what lies below
// its location in the metadata lies below its folder.
func (r root) resolve(path string) (string, error) {
	text := spelled(path)
	below, ok := strings.CutPrefix(text, r.location+"/")
	if !ok {
		below, ok = strings.CutPrefix(text, r.uri+"/")
	}
	if !ok {
		return "", fmt.Errorf("the path %.200q: %w", path, errLeaves)
	}
	levels := strings.FieldsFunc(below, func(r rune) bool { return r == '/' || r == '\\' })
	dots := func(level string) bool { return level == "." || level == ".." }
	isFile := below != "" && !strings.HasSuffix(below, "/") && !strings.ContainsRune(below, 0)
	if !isFile || slices.ContainsFunc(levels, dots) {
		return "", fmt.Errorf("the path %.200q is none of a file below the table's folder", path)
	}
	return r.uri + "/" + strings.TrimLeft(below, "/"), nil
}

// spelled writes a path in one of the ways in which engines do. Without a scheme it is one of this machine's disk.
func spelled(path string) string {
	if uri, ok := table.Spelled(path); ok {
		return uri
	}
	return "file://" + path
}
