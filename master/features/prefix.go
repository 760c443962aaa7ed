package features

import (
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	// MaxPrefixes bounds the directories that one session's reads are noted under.
	MaxPrefixes = 16
	// maxPrefix bounds a directory's URI, in bytes.
	maxPrefix = 1024
)

// Prefixes are the directories under which what is read of a dataset is noted, of canonical URIs and the files found by
// them, sorted by URI: at most MaxPrefixes, those below another one left out.
func Prefixes(uris []string, files []*pb.File) []string {
	var out []string
	for _, uri := range uris {
		_, isFile := slices.BinarySearchFunc(files, uri, func(f *pb.File, uri string) int {
			return strings.Compare(f.GetUri(), uri)
		})
		if p := Prefix(uri, isFile); len(p) <= maxPrefix {
			out = append(out, p)
		}
	}
	slices.Sort(out) // a directory comes before those below it
	var kept []string
	for _, p := range out {
		if n := len(kept); n == 0 || !strings.HasPrefix(p, kept[n-1]) {
			kept = append(kept, p)
		}
	}
	return kept[:min(len(kept), MaxPrefixes)]
}

// Prefix is the directory of a URI, which may be that of a file, with a slash at its end: without what a glob leaves
// open, and without hive partitions, so that jobs of different days read the same.
func Prefix(uri string, isFile bool) string {
	dir := strings.TrimSuffix(uri, "/") + "/"
	if glob := strings.IndexAny(uri, `*?[\`); glob >= 0 {
		dir, isFile = uri[:glob], true
	} else if isFile {
		dir = uri
	}
	if isFile {
		dir = dir[:strings.LastIndexByte(dir, '/')+1]
	}
	root := strings.Index(dir, "://") + len("://")
	for at := root; ; {
		n := strings.IndexByte(dir[at:], '/')
		if n < 0 {
			return dir
		}
		if at > root && strings.Contains(dir[at:at+n], "=") {
			return dir[:at]
		}
		at += n + 1
	}
}
