package convert

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
)

// writer collects records to row groups.
type writer struct {
	layout *layout
	out    output
	enc    encoder
	group  []arrow.Record
	places []place                // behind its records
	before int64                  // rows of all files before the row group
	name   func(input int) string // of an input; nil: rows are not where they were
	rows   int64                  // of the file
	after  place                  // of the last record
	folder string                 // where the file lies
	most   int64                  // bytes of a file, after which it ends; 0: any
	bytes  int64                  // of the file
}

// write adds a record.
func (w *writer) write(ctx context.Context, p piece) error {
	if err := w.move(ctx, p.folder); err != nil {
		return err
	}
	w.group, w.places = append(w.group, p.record), append(w.places, p.after)
	w.rows += p.record.NumRows()
	w.after = p.after
	if !p.endsGroup {
		return nil
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	if p.endsFile || w.most > 0 && w.size() >= w.most {
		return w.endFile(ctx)
	}
	return nil
}

// size is how many bytes the file has so far.
func (w *writer) size() int64 {
	if of, ok := w.enc.(sized); ok {
		return of.size()
	}
	return w.bytes
}

// move goes on in another folder.
func (w *writer) move(ctx context.Context, folder string) error {
	if folder == w.folder {
		return nil
	}
	if w.rows > 0 {
		if err := w.flush(ctx); err != nil {
			return err
		}
		if err := w.endFile(ctx); err != nil {
			return err
		}
	}
	w.folder = folder
	return nil
}

// finish writes what is left. There is at least one file, though it may have no rows.
func (w *writer) finish(ctx context.Context) error {
	if len(w.group) > 0 || !w.enc.open() && len(w.out.done().files) == 0 {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	if !w.enc.open() {
		return nil
	}
	return w.endFile(ctx)
}

// flush writes the row group.
func (w *writer) flush(ctx context.Context) error {
	if !w.enc.open() {
		to, err := w.out.begin(ctx, w.folder)
		if err != nil {
			return err
		}
		w.bytes = 0
		if err := w.enc.begin(countingWriter{to, &w.bytes}, w.layout); err != nil {
			return err
		}
	}
	if err := w.enc.rowGroup(w.layout, w.group); err != nil {
		return w.at(err)
	}
	for _, rec := range w.group {
		w.before += rec.NumRows()
	}
	clear(w.group)
	w.group, w.places = w.group[:0], w.places[:0]
	return nil
}

// at says which row an error is about: that of an input, or, where this is not known, that of the output.
func (w *writer) at(err error) error {
	bad, ok := errors.AsType[*rowError](err)
	if !ok {
		return err
	}
	if end := w.places[bad.record]; w.name != nil {
		row := end.Row - w.group[bad.record].NumRows() + int64(bad.row)
		if row >= 0 { // text files may end inside of a record
			return fmt.Errorf("%s row %d: %w", w.name(end.Input), row, bad.err)
		}
	}
	row := w.before + int64(bad.row)
	for _, rec := range w.group[:bad.record] {
		row += rec.NumRows()
	}
	return fmt.Errorf("row %d of the output: %w", row, bad.err)
}

func (w *writer) endFile(ctx context.Context) error {
	if err := w.enc.end(); err != nil {
		return err
	}
	f := finished{Rows: w.rows, After: w.after}
	if of, ok := w.enc.(sized); ok {
		f.Raw = of.size()
	}
	w.rows = 0
	return w.out.end(ctx, f)
}

// countingWriter counts what is written.
type countingWriter struct {
	io.Writer
	bytes *int64
}

func (c countingWriter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	*c.bytes += int64(n)
	return n, err
}
