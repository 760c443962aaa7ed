package reference

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/tables"
)

// stored is a file in a storage as an io.ReaderAt.
type stored struct {
	ctx     context.Context //nolint:containedctx // io.ReaderAt has no place for it
	store   storage.Storage
	profile string
	file    *pb.File
}

// ReadAt implements io.ReaderAt for ranges inside the file.
func (s stored) ReadAt(p []byte, off int64) (int, error) {
	if err := s.store.ReadAt(s.ctx, s.profile, s.file, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

// readAhead is how many bytes of each column chunk are read at a time.
const readAhead = 256 << 10

// parquetFile is an open file.
type parquetFile struct {
	reader  *parquet.File
	columns []column
	rows    int64
}

func (in *Interpreter) openFile(ctx context.Context, file *pb.File, of *tables.Table) (f *parquetFile, err error) {
	defer recovered(&err)
	r := stored{ctx, in.store, in.spec.GetDataset().GetStorage(), file}
	f = &parquetFile{}
	f.reader, err = parquet.OpenFile(io.NewSectionReader(r, 0, file.GetSize()), file.GetSize(),
		parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	for _, g := range f.reader.RowGroups() {
		f.rows += g.NumRows()
	}
	if n := f.reader.NumRows(); n != f.rows {
		return nil, fmt.Errorf("the file counts %d rows, its row groups %d", n, f.rows)
	}
	schema := f.reader.Metadata().Schema
	if of != nil {
		schema = named(schema, of.Schema.Fields())
	}
	if f.columns, err = columnsOf(schema); err != nil {
		return nil, err
	}
	f.columns = slices.DeleteFunc(f.columns, func(c column) bool { return strings.Contains(c.name, unnamed) })
	addShapes(f.columns, f.reader)
	return f, nil
}

// recovered turns a panic of parquet-go, which some corrupt files cause, into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("parquet-go panicked: %v", p)
	}
}

// scan reads a file row by row.
type scan struct {
	file   *parquetFile
	leaves []*leafReader // that fillers need
}

// reader returns the one reader of a leaf.
func (s *scan) reader(l leaf) *leafReader {
	for _, r := range s.leaves {
		if r.leaf.index == l.index {
			return r
		}
	}
	r := &leafReader{leaf: l, entries: make([]entry, 0, entriesAhead)}
	s.leaves = append(s.leaves, r)
	return r
}

// rowsPerReport is how often a scan reports progress and looks whether it is cancelled.
const rowsPerReport = 8192

// rows calls row for each row, which fillers then read.
func (s *scan) rows(ctx context.Context, progress func(rows int64), row func() error) error {
	for i, g := range s.file.reader.RowGroups() {
		if g.NumRows() == 0 { // it need not have pages
			continue
		}
		if err := s.rowGroup(ctx, i, progress, row); err != nil {
			return fmt.Errorf("row group %d: %w", i, err)
		}
	}
	return nil
}

func (s *scan) rowGroup(ctx context.Context, index int, progress func(rows int64), row func() error) error {
	for _, r := range s.leaves {
		r.open(s.file.reader, index)
	}
	left := s.file.reader.RowGroups()[index].NumRows()
	for left > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(left, rowsPerReport)
		for range n {
			if err := s.advance(); err != nil {
				return err
			}
			if err := row(); err != nil {
				return err
			}
		}
		left -= n
		progress(n)
	}
	for _, r := range s.leaves {
		if err := r.end(); err != nil {
			return fmt.Errorf("column %s: %w", r.name(s.file.reader), err)
		}
	}
	return nil
}

func (s *scan) advance() error {
	for _, r := range s.leaves {
		if err := r.advance(); err != nil {
			return fmt.Errorf("column %s: %w", r.name(s.file.reader), err)
		}
	}
	return nil
}
