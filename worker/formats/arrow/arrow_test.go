package arrow_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

func TestFormat(t *testing.T) {
	for name, options := range map[string][]ipc.Option{"plain": nil, "zstd": {ipc.WithZstd()}, "lz4": {ipc.WithLZ4()}} {
		t.Run(name, func(t *testing.T) {
			formattest.Run(t, func(t testing.TB, s *arrow.Schema, records []arrow.Record) []byte {
				return write(t, s, records, options...)
			})
		})
	}
}

func write(t testing.TB, s *arrow.Schema, records []arrow.Record, options ...ipc.Option) []byte {
	t.Helper()
	var out buffer
	w, err := ipc.NewFileWriter(&out, append(options, ipc.WithSchema(s))...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// buffer is a file in memory.
type buffer struct{ bytes.Buffer }

func (b *buffer) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence == 0 {
		return 0, errors.New("no seeking")
	}
	return int64(b.Len()), nil
}
