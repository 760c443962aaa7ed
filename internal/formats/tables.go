package formats

import (
	"context"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Tables describes the side tables that a spec names, as they are now. One that is another file than the spec is pinned
// to is refused. Errors are spec.Problems where the spec is at fault, and name where it says so.
func Tables(
	ctx context.Context, st storage.Storage, cache *Cache, s *pb.Spec,
) (map[spec.TableName]*spec.SideTable, error) {
	all := map[spec.TableName]*spec.SideTable{}
	for _, named := range spec.Tables(s) {
		files, err := st.List(ctx, named.Storage, []string{named.URI})
		if err != nil {
			return nil, &TableError{named.Path, err}
		}
		if len(files) != 1 {
			return nil, spec.Problems{{Path: named.Path, Message: fmt.Sprintf(
				"%s leads to %d files; want one: write the table as one file", named.URI, len(files))}}
		}
		file := &pb.File{Uri: files[0].GetUri(), Size: files[0].GetSize(), Etag: files[0].GetEtag()}
		f, err := cache.Whole(ctx, st, named.Storage, file, nil, nil)
		if err != nil {
			return nil, &TableError{named.Path, err}
		}
		side := &spec.SideTable{File: file, Schema: f.Columns().Schema, Rows: format.Rows(f)}
		if want := pinnedOf(s, named.Storage, file); want != nil {
			side.Pinned = true
			if err := checkPinned(ctx, st, named, file, want); err != nil {
				return nil, err
			}
		}
		all[named.TableName] = side
	}
	return all, nil
}

// TableError is about a side table that cannot be described.
type TableError struct {
	Path string // of the spec
	Err  error
}

func (e *TableError) Error() string { return e.Path + ": " + e.Err.Error() }

func (e *TableError) Unwrap() error { return e.Err }
