package convert

import (
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
)

// arrowEncoder writes Arrow's IPC files, compressed by zstd: a row group is record batches.
type arrowEncoder struct{ file *ipc.FileWriter }

func (e *arrowEncoder) open() bool { return e.file != nil }

func (e *arrowEncoder) begin(to io.Writer, l *layout) (err error) {
	e.file, err = ipc.NewFileWriter(&placed{Writer: to}, ipc.WithSchema(l.schema()), ipc.WithZstd())
	if err != nil {
		return fmt.Errorf("write Arrow: %w", err)
	}
	return nil
}

func (e *arrowEncoder) rowGroup(l *layout, group []arrow.Record) error {
	records, err := l.recordsOf(group)
	if err != nil {
		return err
	}
	for _, rec := range records {
		if err := e.file.Write(rec); err != nil {
			return fmt.Errorf("write Arrow: %w", err)
		}
	}
	return nil
}

func (e *arrowEncoder) end() error {
	err := e.file.Close()
	e.file = nil
	return err
}

func (e *arrowEncoder) abandon() { e.file = nil }

// placed knows where it is, which is all that Arrow's writer asks of a file that can be sought in.
type placed struct {
	io.Writer
	at int64
}

func (p *placed) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	p.at += int64(n)
	return n, err
}

// Seek tells where the end is.
func (p *placed) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekCurrent {
		return 0, fmt.Errorf("a file that is written cannot be sought in")
	}
	return p.at, nil
}
