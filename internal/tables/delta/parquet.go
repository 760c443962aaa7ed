package delta

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	small    = 8 << 20 // a file of so many bytes is read at once
	fetching = 8       // column chunks that are read at once
)

// parquet hands on the actions in a Parquet file: a row each.
func (l *loader) parquet(ctx context.Context, f *pb.File, each func(*action) error) (err error) {
	defer func() {
		if r := recover(); r != nil { // of the library, on bytes that it does not expect
			err = damaged(fmt.Errorf("%v", r))
		}
	}()
	in := &ranges{ctx: ctx, loader: l, file: f}
	if f.GetSize() <= small {
		if err := in.fetch(ctx, []extent{{0, f.GetSize()}}); err != nil {
			return err
		}
	}
	file, err := parquet.OpenFile(in, f.GetSize(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return in.or(err)
	}
	found, err := columnsOf(file.Root())
	if err != nil {
		return err
	}
	for i, group := range file.RowGroups() {
		if f.GetSize() > small {
			if err := in.fetch(ctx, found.extents(file, i)); err != nil {
				return err
			}
		}
		if err := found.read(group, each); err != nil {
			return in.or(err)
		}
	}
	return nil
}

func damaged(err error) error {
	return fmt.Errorf("the checkpoint is damaged: restore it, or remove it if all commits since version 0 are there "+
		"(%w)", err)
}

// read hands on the actions of a row group.
func (c *columns) read(group parquet.RowGroup, each func(*action) error) (err error) {
	chunks := group.ColumnChunks()
	for _, col := range c.all {
		col.open(chunks[col.leaf])
	}
	defer func() {
		for _, col := range c.all {
			_ = col.pages.Close() // of bytes in memory
		}
	}()
	for range group.NumRows() {
		for _, col := range c.all {
			if err := col.nextRow(); err != nil {
				return err
			}
		}
		a, err := c.action()
		if err == nil && a != nil {
			err = a.check()
		}
		if err != nil {
			return err
		}
		if a == nil {
			continue
		}
		if err := each(a); err != nil {
			return refused{err}
		}
	}
	return nil
}

// refused is an error about what an action says, not of reading it.
type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// extent is a part of a file.
type extent struct{ offset, length int64 }

// extents are where the wanted chunks of a row group are.
func (c *columns) extents(file *parquet.File, group int) (all []extent) {
	chunks := file.Metadata().RowGroups[group].Columns
	for _, col := range c.all {
		if col.leaf >= len(chunks) {
			continue
		}
		of := chunks[col.leaf].MetaData
		start := of.DataPageOffset
		if d := of.DictionaryPageOffset; d > 0 && d < start {
			start = d
		}
		length := of.TotalCompressedSize
		if start < 0 || length < 0 || start > file.Size() || length > file.Size()-start {
			continue // the library says what is wrong
		}
		all = append(all, extent{start, length})
	}
	return all
}

// ranges reads a file, some of which is in memory.
type ranges struct {
	ctx    context.Context
	loader *loader
	file   *pb.File
	held   []held
	err    error // of the storage
}

type held struct {
	extent
	content []byte
}

// fetch reads parts of the file, in place of those that it had.
func (r *ranges) fetch(ctx context.Context, all []extent) error {
	size := int64(0)
	for _, e := range all {
		if size > math.MaxInt64/8-e.length {
			return damaged(errors.New("its columns are larger than any file"))
		}
		size += e.length
	}
	if err := r.loader.use(size); err != nil {
		return err
	}
	r.held = make([]held, len(all))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetching)
	for i, e := range all {
		g.Go(func() error {
			r.held[i] = held{e, make([]byte, e.length)}
			return r.loader.table.Storage.ReadAt(ctx, r.loader.table.Profile, r.file, r.held[i].content, e.offset)
		})
	}
	return g.Wait()
}

// ReadAt implements io.ReaderAt.
func (r *ranges) ReadAt(buf []byte, offset int64) (int, error) {
	size := r.file.GetSize()
	if offset < 0 || offset > size {
		return 0, io.EOF
	}
	n := int(min(int64(len(buf)), size-offset))
	if err := r.readFull(buf[:n], offset); err != nil {
		return 0, err
	}
	if n < len(buf) {
		return n, io.EOF
	}
	return n, nil
}

func (r *ranges) readFull(buf []byte, offset int64) error {
	for _, h := range r.held {
		if offset >= h.offset && offset+int64(len(buf)) <= h.offset+h.length {
			copy(buf, h.content[offset-h.offset:])
			return nil
		}
	}
	err := r.loader.table.Storage.ReadAt(r.ctx, r.loader.table.Profile, r.file, buf, offset)
	if err != nil {
		r.err = err
	}
	return err
}

// or is the storage's error, if it had one, or else what a reader's error means.
func (r *ranges) or(err error) error {
	var about refused
	switch {
	case r.err != nil:
		return r.err
	case errors.As(err, &about):
		return about.error
	}
	return damaged(err)
}
