package tables

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Identified returns a file with its ETag, and those of what tells its excluded rows, as they are: tables' manifests
// have none. A file that has them, as listings say, is returned as it is.
func Identified(ctx context.Context, st storage.Storage, profile string, f *pb.File) (*pb.File, error) {
	if f.GetEtag() != "" {
		return f, nil
	}
	out := proto.CloneOf(f)
	var err error
	if out.Etag, out.Size, err = identify(ctx, st, profile, f.GetUri(), f.GetSize()); err != nil {
		return nil, err
	}
	for _, e := range out.GetExcluded() {
		if e.GetUri() == "" {
			continue
		}
		if e.Etag, e.Size, err = identify(ctx, st, profile, e.GetUri(), e.GetSize()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Vanished is an error about a file that is read. It says what became of the file where it is a table's and is gone.
func Vanished(f *pb.File, err error) error {
	if f.GetOfTable() && errors.Is(err, fs.ErrNotExist) {
		return gone(f.GetUri())
	}
	return err
}

func gone(uri string) error {
	return fmt.Errorf("the table's version names %s, which is gone: it was vacuumed, or its version has expired; "+
		"begin a new session over a newer version: %w", uri, fs.ErrNotExist)
}

// identify looks for a file that a table names, of a size; 0: the table does not say.
func identify(
	ctx context.Context, st storage.Storage, profile, uri string, size int64,
) (etag string, is int64, err error) {
	found, err := st.List(ctx, profile, []string{storage.Quote(uri)})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", 0, gone(uri)
	case err != nil:
		return "", 0, err
	case len(found) != 1 || found[0].GetUri() != uri:
		return "", 0, fmt.Errorf("the table names %s, which is no file", uri)
	case size != 0 && found[0].GetSize() != size:
		return "", 0, fmt.Errorf("%s has %d bytes, and %d by the table: %w", uri, found[0].GetSize(), size,
			storage.ErrChanged)
	}
	return found[0].GetEtag(), found[0].GetSize(), nil
}
