package master

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
)

// Pinned returns the spec that the dataset was resolved with, pinned to what it was resolved to: ops, the fitted file
// and side tables, which it reads for their digests. The functions by name are those that it was pinned to before.
func (d *Dataset) Pinned(ctx context.Context, s *pb.Spec) (*pb.Spec, error) {
	out := spec.PinTo(pinFitted(proto.CloneOf(s), d), d.Program)
	for _, t := range out.GetPinned().GetTables() {
		if t.GetDigest() != "" {
			continue
		}
		var err error
		f := &pb.File{Uri: t.GetUri(), Size: t.GetSize(), Etag: t.GetEtag()}
		profile := cmp.Or(t.GetStorage(), s.GetDataset().GetStorage())
		if t.Digest, err = formats.Digest(ctx, d.described.storage, profile, f); err != nil {
			return nil, fmt.Errorf("the digest of %s: %w", t.GetUri(), err)
		}
	}
	return out, nil
}
