package master

import (
	"fmt"
	"path"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// maxSpecText bounds a spec's text, in bytes. What etcd takes of a session is about as much.
const maxSpecText = 1 << 20

// withSpec returns a request whose spec, if it has one, is a message, and names nothing that only its sender could
// find.
func withSpec(req *pb.OpenRequest, texts *specTexts) (*pb.OpenRequest, error) {
	out := &pb.OpenRequest{
		Session: req.GetSession(), Spec: req.GetSpec(), WorldSize: req.GetWorldSize(), Share: req.GetShare(),
		Defaults: req.GetDefaults(), SavedLastBatch: req.GetSavedLastBatch(), SavedTable: req.GetSavedTable(),
		Code: req.GetCode(),
	}
	if req.GetSpecText() == "" {
		spec.Canonical(out.GetSpec())
		return out, checkPaths(out.GetSpec())
	}
	if req.GetSpec() != nil {
		return nil, status.Error(codes.InvalidArgument, "the request has a spec and a spec's text; send one of them")
	}
	var err error
	out.Spec, err = texts.parse(req.GetSpecText(), req.GetWorkingDir())
	return out, err
}

// parseSpec reads a spec that came as YAML or JSON. Relative paths in it begin at workingDir, if that is given.
func parseSpec(text []byte, workingDir string) (*pb.Spec, error) {
	if len(text) > maxSpecText {
		return nil, status.Errorf(codes.InvalidArgument,
			"the spec has %d bytes; it may have %d: globs say what long lists of names would", len(text), maxSpecText)
	}
	s, err := spec.Parse(text)
	if err != nil {
		return nil, openError(err)
	}
	if path.IsAbs(workingDir) {
		if n := len(spec.URIs(s)) * len(workingDir); n > maxSpecText {
			return nil, status.Errorf(codes.InvalidArgument,
				"the spec's paths have %d bytes more with the working directory before each; they may have %d: "+
					"globs say what long lists of names would", n, maxSpecText)
		}
		spec.ResolvePaths(s, workingDir)
	}
	return s, checkPaths(s)
}

// checkPaths refuses paths relative to a working directory: this process's is not the one that the user means.
func checkPaths(s *pb.Spec) error {
	var problems spec.Problems
	for _, uri := range spec.URIs(s) {
		if !spec.IsRelative(*uri.At) {
			continue
		}
		problems.Add(uri.Field, fmt.Sprintf(
			"found %q, which is relative; a master does not know your working directory: write the whole path, such "+
				"as /data/%s, or a URI, such as s3://bucket/dir/",
			*uri.At, strings.TrimPrefix(*uri.At, "./")))
	}
	if len(problems) == 0 {
		return nil
	}
	return openError(problems)
}
