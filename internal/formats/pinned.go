package formats

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/storage"
)

// digestPiece is how much of a file is in memory while its digest is computed.
const digestPiece = 4 << 20

// Digest is that of a whole file, as specs have it: "sha256:" and hexadecimal digits.
func Digest(ctx context.Context, st storage.Storage, profile string, f *pb.File) (string, error) {
	sum := sha256.New()
	buf := make([]byte, min(digestPiece, f.GetSize()))
	for at := int64(0); at < f.GetSize(); at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), f.GetSize()-at)]
		if err := st.ReadAt(ctx, profile, f, buf, at); err != nil {
			return "", err
		}
		sum.Write(buf)
	}
	return spec.DigestText(sum.Sum(nil)), nil
}

// pinnedOf is what a spec is pinned to of a side table; nil: to nothing.
func pinnedOf(s *pb.Spec, profile string, f *pb.File) *pb.PinnedTable {
	for _, t := range s.GetPinned().GetTables() {
		uri, err := storage.Canonical(t.GetUri())
		if err == nil && uri == f.GetUri() && cmp.Or(t.GetStorage(), s.GetDataset().GetStorage()) == profile {
			return t
		}
	}
	return nil
}

// checkPinned refuses a side table that is another file than the spec is pinned to. What the storage says of it tells
// most often that it is the same. Else its content does, where its digest is pinned: a copy has another ETag.
func checkPinned(
	ctx context.Context, st storage.Storage, named spec.NamedTable, f *pb.File, want *pb.PinnedTable,
) error {
	sameSize := want.GetSize() == f.GetSize()
	doubtful := storage.IsWeak(f) && want.GetDigest() != ""
	if sameSize && !doubtful && storage.Alike(f, want.GetEtag()) {
		return nil
	}
	found := fmt.Sprintf("of %s bytes and ETag %q", humanize.Comma(f.GetSize()), f.GetEtag())
	pinned := fmt.Sprintf("of %s bytes and ETag %q", humanize.Comma(want.GetSize()), want.GetEtag())
	if sameSize && want.GetDigest() != "" {
		digest, err := Digest(ctx, st, named.Storage, f)
		if err != nil {
			return &TableError{named.Path, err}
		}
		if digest == want.GetDigest() {
			return nil
		}
		found, pinned = "with the digest "+digest, "with the digest "+want.GetDigest()
	}
	return spec.Problems{{Path: named.Path, Message: fmt.Sprintf(
		"%s is a file %s, and the spec is pinned to one %s: the table changed since the training; name the file of "+
			"the training, or train with this one and pin the spec anew", f.GetUri(), found, pinned)}}
}
