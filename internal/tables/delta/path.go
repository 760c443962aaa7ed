package delta

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/internal/tables/table"
)

// root is a table's folder. Nothing outside it is read.
type root struct {
	uri       string // without a "/" at its end
	scheme    string
	authority string // "": that of a disk
}

func newRoot(uri string) (root, error) {
	scheme, rest, ok := strings.Cut(uri, "://")
	authority, _, _ := strings.Cut(rest, "/")
	if !ok || strings.HasSuffix(uri, "/") {
		return root{}, fmt.Errorf("%s is no URI of a folder", uri)
	}
	return root{uri, scheme, authority}, nil
}

var errLeaves = errors.New("it lies outside the table, as files of a shallow clone do: make a deep clone, or copy " +
	"the table's rows")

// resolve turns a path of the log into a URI as storage has it: not encoded.
func (r root) resolve(path string) (string, error) {
	text, err := url.PathUnescape(path)
	if err != nil {
		return "", fmt.Errorf("the path %.200q is not encoded as URIs are: %w", path, err)
	}
	below := text
	if _, ok := table.Spelled(path); ok || strings.HasPrefix(path, "/") {
		var inside bool
		if below, inside = strings.CutPrefix(r.absolute(text), r.uri+"/"); !inside {
			return "", fmt.Errorf("the path %.200q: %w", path, errLeaves)
		}
	}
	levels := strings.Split(below, "/")
	dots := func(level string) bool { return level == "." || level == ".." }
	if slices.ContainsFunc(levels, dots) || levels[len(levels)-1] == "" || strings.ContainsRune(below, 0) {
		return "", fmt.Errorf("the path %.200q is none of a file below the table's folder", path)
	}
	return r.uri + "/" + below, nil
}

// absolute writes a URI of Hadoop's as storage has it, if it is one of the same store.
func (r root) absolute(text string) string {
	if uri, ok := table.Spelled(text); ok {
		return uri
	}
	return r.scheme + "://" + r.authority + text // of the store that the table is in
}
