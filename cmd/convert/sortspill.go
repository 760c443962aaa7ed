package convert

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// spilled is a sequence of rows in a file without a name: it is gone when it is closed, or the process ends.
type spilled struct {
	file  *os.File
	rows  *ipc.Reader
	level int // how often its rows were written
}

// spill makes a file of the block, and merges files where there are many.
func (s *sorted) spill(ctx context.Context) error {
	s.block.sort()
	if err := s.write(ctx, s.block, 1); err != nil {
		return err
	}
	s.block = s.newBlock()
	for {
		n := len(s.files) - s.bounds.files
		if n < 0 || s.files[n].level != s.files[len(s.files)-1].level {
			return nil
		}
		last := s.files[n:]
		sequences := make([]sequence, len(last))
		for i, f := range last {
			sequences[i] = f
		}
		if err := s.write(ctx, s.merge(sequences), last[0].level+1); err != nil {
			return err
		}
		for _, f := range last {
			f.close()
		}
		s.files = append(s.files[:n], s.files[len(s.files)-1])
	}
}

// write makes a file of a sequence, behind the others.
func (s *sorted) write(ctx context.Context, rows sequence, level int) error {
	f, err := os.CreateTemp(s.dir, "sorting-*.arrow")
	if err == nil {
		err = os.Remove(f.Name())
	}
	if err == nil {
		err = writeRows(ctx, f, s.schema(), rows)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	var read *ipc.Reader
	if err == nil {
		read, err = ipc.NewReader(bufio.NewReader(f), ipc.WithAllocator(memory.NewGoAllocator()))
	}
	if err != nil {
		if f != nil {
			_ = f.Close()
		}
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) && failed.Op != "read" {
			err = fmt.Errorf("sort: %w: what is sorted takes room in %s, more than the rows take in Parquet; make "+
				"room there, or name another output, or, for one in a store, another directory by TMPDIR", err, s.dir)
		}
		return err
	}
	s.files = append(s.files, spilled{f, read, level})
	return nil
}

func writeRows(ctx context.Context, f *os.File, schema *arrow.Schema, rows sequence) error {
	to := bufio.NewWriterSize(f, 1<<20)
	w := ipc.NewWriter(to, ipc.WithSchema(schema), ipc.WithLZ4())
	for {
		rec, err := rows.next(ctx)
		if errors.Is(err, errEnd) {
			return errors.Join(w.Close(), to.Flush())
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = w.Write(rec)
		}
		if err != nil {
			return err
		}
	}
}

func (f spilled) next(context.Context) (arrow.Record, error) {
	rec, err := f.rows.Read()
	if errors.Is(err, io.EOF) {
		f.close() // its room is free
		return nil, errEnd
	}
	if err != nil {
		return nil, fmt.Errorf("read what was sorted: %w", err)
	}
	rec.Retain() // the reader releases it
	return rec, nil
}

func (f spilled) close() { _ = f.file.Close() } // again, perhaps, and it was read
