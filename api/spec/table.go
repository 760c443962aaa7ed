package spec

import (
	"path"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// TablePrefixes stand in front of the URIs of tables, with a "+" after them: delta+s3://bucket/table.
func TablePrefixes() []string { return []string{"delta", "iceberg"} }

// TableURI is the URI of a table: delta+s3://bucket/table@v12.
type TableURI struct {
	Prefix  string // "delta"
	Root    string // s3://bucket/table
	Version string // "v12"; "": the newest
	// Asked is what was asked for where that may name another version by now, such as a time: "2026-11-01" of
	// delta+s3://bucket/table@2026-11-01=v12.
	Asked string
}

// ParseTable takes the URI of a table apart, or reports that it is none. The version follows the last "@" of the last
// level; a folder with an "@" in its name has another one at its end.
func ParseTable(uri string) (TableURI, bool) {
	for _, prefix := range TablePrefixes() {
		if root, ok := strings.CutPrefix(uri, prefix+"+"); ok {
			t := TableURI{Prefix: prefix, Root: root}
			if at := strings.LastIndexByte(root, '@'); at > strings.LastIndexByte(strings.TrimRight(root, "/"), '/') {
				t.Root, t.Version = root[:at], root[at+1:]
			}
			if at := strings.LastIndexByte(t.Version, '='); at >= 0 {
				t.Asked, t.Version = t.Version[:at], t.Version[at+1:]
			}
			return t, true
		}
	}
	return TableURI{}, false
}

// String is the URI.
func (t TableURI) String() string {
	uri := t.Prefix + "+" + t.Root
	if t.Version != "" || strings.Contains(path.Base(t.Root), "@") {
		uri += "@"
	}
	if t.Asked != "" {
		uri += t.Asked + "="
	}
	return uri + t.Version
}

// At is the URI of the version that was found by it.
func (t TableURI) At(version string) TableURI {
	if t.Version != version && t.Asked == "" {
		t.Asked = t.Version
	}
	t.Version = version
	return t
}

// same reports whether both name one table, however that is spelled.
func (t TableURI) same(other TableURI) bool {
	plain := func(root string) string { return strings.TrimRight(strings.TrimPrefix(root, "file://"), "/") }
	return t.Prefix == other.Prefix && plain(t.Root) == plain(other.Root)
}

// AtVersion returns a spec that reads the version of a table that of, the URI of one, has, if it names the same table
// without a version, or by what that was found by; else the spec itself.
func AtVersion(s *pb.Spec, of string) *pb.Spec {
	uris := s.GetDataset().GetUri()
	known, ok := ParseTable(of)
	if !ok || len(uris) != 1 {
		return s
	}
	named, ok := ParseTable(uris[0])
	if !ok || !named.same(known) || named.Asked != "" || named.Version != "" && named.Version != known.Asked {
		return s
	}
	s = proto.CloneOf(s)
	s.Dataset.Uri = []string{of}
	return s
}

// TableOf is the URI of the table that a spec's dataset is; "": it is none.
func TableOf(s *pb.Spec) string {
	for _, uri := range s.GetDataset().GetUri() {
		if _, ok := ParseTable(uri); ok {
			return uri
		}
	}
	return ""
}
