package spec

import (
	"fmt"
	"path"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// ResolvePaths makes the relative paths of a spec's files absolute.
func ResolvePaths(s *pb.Spec, workingDir string) {
	for _, uri := range URIs(s) {
		*uri.At = absolute(*uri.At, workingDir)
	}
}

// absolute is a path that may begin at a working directory. A slash at its end stays: it says that it is a directory.
func absolute(uri, workingDir string) string {
	if t, ok := ParseTable(uri); ok {
		t.Root = absolute(t.Root, workingDir)
		return t.String()
	}
	if !IsRelative(uri) {
		return uri
	}
	out := path.Join(workingDir, uri)
	if strings.HasSuffix(uri, "/") {
		out += "/"
	}
	return out
}

// URI is one that a spec names.
type URI struct {
	Field string // "dataset.uri"
	At    *string
}

// URIs are where a spec names files.
func URIs(s *pb.Spec) (all []URI) {
	for i := range s.GetDataset().GetUri() {
		all = append(all, URI{"dataset.uri", &s.Dataset.Uri[i]})
	}
	if s.GetFitted() != nil {
		all = append(all, URI{"fitted", &s.Fitted.Uri})
	}
	for i, t := range s.GetTransforms() {
		if v, ok := t.GetParams()["table"].GetKind().(*pb.Value_Text); ok && t.GetOp() == LookupOp {
			all = append(all, URI{fmt.Sprintf("transforms[%d].table", i), &v.Text})
		}
	}
	for i, t := range s.GetPinned().GetTables() {
		all = append(all, URI{fmt.Sprintf("pinned.tables[%d].uri", i), &t.Uri})
	}
	return all
}

// IsRelative reports whether a URI is a path that begins at a working directory.
func IsRelative(uri string) bool {
	if t, ok := ParseTable(uri); ok {
		uri = t.Root
	}
	return uri != "" && !strings.Contains(uri, "://") && !path.IsAbs(uri)
}
