package convert

import (
	"context"
	"errors"

	"github.com/apache/arrow/go/v15/arrow"
	"golang.org/x/sync/errgroup"
)

// piece is a record on its way to the writer, and what ends after it.
type piece struct {
	record              arrow.Record
	folder              string // where its file lies
	endsGroup, endsFile bool
	after               place
}

// pump reads and writes at the same time, what is not done yet.
func pump(ctx context.Context, o Options, in *inputs, src source, l *layout, out output) error {
	if out.done().whole {
		return nil
	}
	if err := goOn(ctx, src, out.done()); err != nil {
		return err
	}
	w := &writer{
		layout: l, out: out, enc: o.to().encoder(&o, out.done().rows()), folder: ".", most: o.FileBytes,
		before: out.done().rows(),
	}
	if len(o.SortBy)+len(o.PartitionBy) == 0 && o.Shuffle == nil && o.SkipRows == 0 {
		w.name = in.name
	}
	pieces := make(chan piece, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := readPieces(ctx, o, src, out.done().rows(), pieces); err != nil {
			return err // pieces stays open: what was read is no whole file
		}
		close(pieces)
		return nil
	})
	group.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case p, ok := <-pieces:
				if err := ctx.Err(); err != nil {
					return err
				}
				if !ok {
					return w.finish(ctx)
				}
				if err := w.write(ctx, p); err != nil {
					return err
				}
			}
		}
	})
	err := group.Wait()
	w.enc.abandon()
	return err
}

// goOn goes behind the rows that are done.
func goOn(ctx context.Context, src source, done *progress) error {
	if len(done.files) == 0 {
		return nil
	}
	to := done.files[len(done.files)-1].After
	if err := src.seek(ctx, to.Input); err != nil {
		return err
	}
	for left := to.Row; left > 0; {
		rec, err := src.next(ctx, min(batchRows, left))
		if err != nil {
			return err
		}
		left -= rec.NumRows()
	}
	if d, ok := src.(*decoded); ok {
		d.skipped.rows = to.Skipped // also in the files before
	}
	return nil
}

// Each record has at most batchRows rows, and about recordBytes of values.
const (
	batchRows   = 4096
	recordBytes = 8 << 20
)

// readPieces cuts what the source gives into row groups and files.
func readPieces(ctx context.Context, o Options, src source, done int64, pieces chan<- piece) error {
	c := cutter{rows: done, groupRows: o.RowGroupRows, groupBytes: o.RowGroupBytes, fileRows: o.FileRows}
	for {
		rec, err := src.next(ctx, min(batchRows, c.room()))
		if errors.Is(err, errEnd) {
			return nil
		}
		if err != nil {
			return err
		}
		folder := folderOf(src)
		endsGroup, endsFile := c.add(folder, rec.NumRows(), sizeOf(rec))
		select {
		case pieces <- piece{rec, folder, endsGroup, endsFile, src.behind()}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if o.Progress != nil {
			used, total := src.read()
			o.Progress(Progress{Rows: c.rows, Read: used, BytesToRead: total})
		}
	}
}

// cutter decides where row groups and files end.
type cutter struct {
	groupRows, groupBytes, fileRows int64 // bounds; fileRows 0 is none
	rows                            int64 // all so far
	inGroup, bytesInGroup, inFile   int64
	folder                          string // of the file
}

// room is the most rows that the next record may have.
func (c *cutter) room() int64 {
	n := c.groupRows - c.inGroup
	if c.fileRows > 0 {
		n = min(n, c.fileRows-c.inFile)
	}
	return n
}

// add counts a record and reports what ends after it. A file ends before a record of another folder.
func (c *cutter) add(folder string, rows, bytes int64) (endsGroup, endsFile bool) {
	if folder != c.folder {
		c.folder, c.inGroup, c.bytesInGroup, c.inFile = folder, 0, 0, 0
	}
	c.rows += rows
	c.inGroup += rows
	c.inFile += rows
	c.bytesInGroup += bytes
	endsFile = c.fileRows > 0 && c.inFile >= c.fileRows
	endsGroup = endsFile || c.inGroup >= c.groupRows || c.bytesInGroup >= c.groupBytes
	if endsGroup {
		c.inGroup, c.bytesInGroup = 0, 0
	}
	if endsFile {
		c.inFile = 0
	}
	return endsGroup, endsFile
}
