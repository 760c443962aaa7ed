package master

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/fitted"
	"github.com/penstock-ml/penstock/internal/storage"
)

// ReadFitted reads what the fitted file of a spec says of itself; nil: the spec names none. Its errors are
// spec.Problems where the spec is at fault.
func ReadFitted(ctx context.Context, st storage.Storage, s *pb.Spec) (*fitted.Known, error) {
	if s.GetFitted() == nil {
		return nil, nil //nolint:nilnil // documented
	}
	wrong := func(format string, args ...any) error {
		return spec.Problems{{Path: "fitted", Message: fmt.Sprintf(format, args...)}}
	}
	uri, profile := s.GetFitted().GetUri(), s.GetDataset().GetStorage()
	if uri == "" {
		return nil, wrong("found nothing; want the file that `penstock fit` wrote, such as s3://bucket/clicks.parquet")
	}
	listed, err := st.List(ctx, profile, []string{uri})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, wrong("%v; compute it with `penstock fit`", err)
	case err != nil:
		return nil, fmt.Errorf("fitted: %w", err)
	case len(listed) != 1:
		return nil, wrong("%s names %d files; want one", uri, len(listed))
	}
	f := listed[0]
	file, err := fitted.Open(ctx, f.GetUri(), f.GetSize(), func(ctx context.Context, buf []byte, offset int64) error {
		return st.ReadAt(ctx, profile, f, buf, offset)
	})
	if err != nil {
		return nil, fmt.Errorf("fitted: %w", err)
	}
	if want := s.GetFitted().GetDigest(); want != "" && want != file.Digest {
		return nil, wrong("%s is %s, and the spec names %s: it was written again, of the dataset %.16s; name its new "+
			"digest if that is what is meant", uri, file.Digest, want, file.Dataset)
	}
	return file.Known(ctx, func(e *fitted.Entry) (*pb.Table, error) { return vocabulary(f, profile, e) }), nil
}

// vocabulary is the table of a vocabulary in a fitted file: its values, and their places.
func vocabulary(f *pb.File, profile string, e *fitted.Entry) (*pb.Table, error) {
	column := func(name string, kind pb.Kind) *pb.Source {
		return &pb.Source{Name: name, Path: []string{name}, Type: &pb.Type{Kind: kind}}
	}
	t := &pb.Table{
		File: &pb.File{Uri: f.GetUri(), Size: f.GetSize(), Etag: f.GetEtag()}, Storage: profile, Keys: 1,
		Columns: []*pb.Source{column("int", pb.Kind_INT64)}, Statistic: e.Identity,
	}
	if e.Kind == spec.KindName(pb.Kind_BINARY) {
		t.Columns = []*pb.Source{column("text", pb.Kind_BINARY), column("bytes", pb.Kind_BINARY)}
		t.Either = true
	}
	t.Columns = append(t.Columns, column("id", pb.Kind_INT64))
	for i, g := range e.Groups {
		sum, err := hex.DecodeString(g.SHA256)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: the hash of row group %d is damaged: %w; write the file again with "+
				"`penstock fit`", f.GetUri(), e.Identity, e.Group+i, err)
		}
		t.Extents = append(t.Extents, uint32(e.Group+i))
		t.Written = append(t.Written, &pb.Written{Offset: g.Offset, Length: g.Bytes, Sha256: sum})
	}
	if len(e.Groups) == 0 { // none, and not all
		t.Extents = []uint32{math.MaxUint32}
	}
	return t, nil
}

// pinFitted returns the spec that names the digest of its fitted file, too.
func pinFitted(s *pb.Spec, d *Dataset) *pb.Spec {
	if d.Fitted == nil || s.GetFitted().GetDigest() != "" {
		return s
	}
	s = proto.CloneOf(s)
	s.Fitted.Digest = d.Fitted.Digest
	return s
}

// likeFitted returns a program for its digest: what a fitted file has, the file's own digest says, also once it was
// written again or copied, and has another ETag.
func likeFitted(p *pb.Program, s *pb.Spec, d *Dataset) *pb.Program {
	if d.Fitted == nil {
		return p
	}
	uri, err := storage.Canonical(s.GetFitted().GetUri())
	if err != nil { // it was listed, and so has one
		return p
	}
	p = proto.CloneOf(p)
	for _, t := range p.GetTables() {
		if t.GetFile().GetUri() == uri && t.GetStorage() == s.GetDataset().GetStorage() {
			t.File.Etag = d.Fitted.Digest
			t.Statistic, t.Written = "", nil
		}
	}
	return p
}
