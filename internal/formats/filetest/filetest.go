// Package filetest makes files of all formats for tests: random tables, written by arrow's own writers, and a storage
// of one file.
package filetest

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/keys"
)

// One is a Storage of one file in memory.
type One struct {
	URI   string
	Data  []byte
	Reads atomic.Int64 // of it
}

// File is the file as it was listed.
func (m *One) File() *pb.File { return &pb.File{Uri: m.URI, Size: int64(len(m.Data))} }

// List returns the file.
func (m *One) List(context.Context, string, []string) ([]*pb.File, error) {
	return []*pb.File{m.File()}, nil
}

// Keys are none.
func (m *One) Keys(string) *keys.Ring { return nil }

// ReadAt reads the file.
func (m *One) ReadAt(_ context.Context, _ string, _ *pb.File, buf []byte, offset int64) error {
	m.Reads.Add(1)
	if offset < 0 || offset > int64(len(m.Data)-len(buf)) {
		return fmt.Errorf("a read of %d bytes at %d of %d", len(buf), offset, len(m.Data))
	}
	copy(buf, m.Data[offset:])
	return nil
}

// Parquet writes records to a file of Parquet, each to a row group.
func Parquet(t testing.TB, s *arrow.Schema, records []arrow.Record) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(s, &out, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	return write(t, &out, w, err, records)
}

// Arrow writes records to a file of Arrow's IPC format.
func Arrow(t testing.TB, s *arrow.Schema, records []arrow.Record, options ...ipc.Option) []byte {
	t.Helper()
	var out seeker
	w, err := ipc.NewFileWriter(&out, append(options, ipc.WithSchema(s))...)
	return write(t, &out.Buffer, w, err, records)
}

func write(
	t testing.TB, out *bytes.Buffer, w interface {
		Write(arrow.Record) error
		Close() error
	}, err error, records []arrow.Record,
) []byte {
	t.Helper()
	for i := 0; err == nil && i < len(records); i++ {
		err = w.Write(records[i])
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// seeker is a file in memory, which its writer asks where it stands.
type seeker struct{ bytes.Buffer }

func (s *seeker) Seek(int64, int) (int64, error) { return int64(s.Len()), nil }
