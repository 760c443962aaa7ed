// Package pipelinetest makes what tests of pipeline, serve and worker read: Parquet files written by arrow, a storage
// in memory, programs over the files and tickets for them. A Store may be used by many goroutines at once.
package pipelinetest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/keys"
)

// Store is a Storage of files in memory.
type Store struct {
	mu    sync.Mutex
	files map[string][]byte
	// Hook, if set, is called before each read and may wait or fail it.
	Hook func(ctx context.Context, f *pb.File, offset, length int64) error
	// Ring has the keys of encrypted files; nil: there are none.
	Ring *keys.Ring
}

var _ storage.Storage = (*Store)(nil)

// Put stores a file and describes it as a listing would.
func (s *Store) Put(uri string, data []byte) *pb.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = map[string][]byte{}
	}
	s.files[uri] = data
	return &pb.File{Uri: uri, Size: int64(len(data)), Etag: etag(data)}
}

func etag(data []byte) string { return fmt.Sprintf("%d-%p", len(data), data) }

// List lists files by their names, which is all that workers ask.
func (s *Store) List(_ context.Context, _ string, uris []string) (found []*pb.File, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uri, data := range s.files {
		if slices.Contains(uris, storage.Quote(uri)) {
			found = append(found, &pb.File{Uri: uri, Size: int64(len(data)), Etag: etag(data)})
		}
	}
	return found, nil
}

// Keys are the Ring's.
func (s *Store) Keys(string) *keys.Ring { return s.Ring }

// ReadAt reads a file as Storage does.
func (s *Store) ReadAt(ctx context.Context, _ string, f *pb.File, buf []byte, offset int64) error {
	if s.Hook != nil {
		if err := s.Hook(ctx, f, offset, int64(len(buf))); err != nil {
			return err
		}
	}
	s.mu.Lock()
	data, ok := s.files[f.GetUri()]
	s.mu.Unlock()
	switch {
	case !ok || etag(data) != f.GetEtag():
		return fmt.Errorf("read %s: %w", f.GetUri(), storage.ErrChanged)
	case offset < 0 || offset+int64(len(buf)) > int64(len(data)):
		return fmt.Errorf("read %s: %d bytes at %d lie outside", f.GetUri(), len(buf), offset)
	}
	copy(buf, data[offset:])
	return context.Cause(ctx)
}

func schema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "label", Type: arrow.PrimitiveTypes.Int32},
		{Name: "price", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "score", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "tags", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true},
		{Name: "weights", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
}

func records(seed uint64, groups []int) iter.Seq[arrow.Record] {
	return func(yield func(arrow.Record) bool) {
		r := rand.New(rand.NewPCG(seed, 1))
		for _, rows := range groups {
			if !yield(record(r, schema(), rows)) {
				return
			}
		}
	}
}

// Parquet writes a file of the columns that Sources names, with random nulls and lengths, in row groups of these
// numbers of rows.
func Parquet(t testing.TB, seed uint64, groups ...int) []byte {
	t.Helper()
	return Write(t, schema(), records(seed, groups), parquet.WithCompression(compress.Codecs.Snappy),
		parquet.WithDataPageSize(512))
}

// Arrow writes a file of the same rows in Arrow's format, compressed with zstd, in record batches of these numbers of
// rows.
func Arrow(t testing.TB, seed uint64, groups ...int) []byte {
	t.Helper()
	all := slices.Collect(records(seed, groups))
	defer func() {
		for _, rec := range all {
			rec.Release()
		}
	}()
	return filetest.Arrow(t, schema(), all, ipc.WithZstd())
}

// Write writes a file of records, each of which becomes a row group, and releases them. Its pages are of version 2,
// unless options say otherwise: in pages of version 1, arrow's writer copies the levels of a page for each few that it
// adds.
func Write(
	t testing.TB, schema *arrow.Schema, records iter.Seq[arrow.Record], options ...parquet.WriterProperty,
) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &out,
		parquet.NewWriterProperties(slices.Insert(options, 0, parquet.WithDataPageVersion(parquet.DataPageV2))...),
		pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatalf("write Parquet: %v", err)
	}
	for rec := range records {
		err := w.Write(rec)
		rec.Release()
		if err != nil {
			t.Fatalf("write Parquet: %v", err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatalf("write Parquet: %v", err)
	}
	return out.Bytes()
}

// Texts writes a file whose rows have a text and a label, in pages of a size.
func Texts(t testing.TB, pageSize int64, text func(row int) string, groups ...int) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "label", Type: arrow.PrimitiveTypes.Int32},
		{Name: "text", Type: arrow.BinaryTypes.String},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	row := 0
	return Write(t, schema, func(yield func(arrow.Record) bool) {
		for _, rows := range groups {
			for range rows {
				b.Field(0).(*array.Int32Builder).Append(int32(row))
				b.Field(1).(*array.StringBuilder).Append(text(row))
				row++
			}
			if !yield(b.NewRecord()) {
				return
			}
		}
	}, parquet.WithCompression(compress.Codecs.Snappy), parquet.WithDataPageSize(pageSize), parquet.WithBatchSize(16))
}

func record(r *rand.Rand, schema *arrow.Schema, rows int) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	tags, weights := b.Field(4).(*array.ListBuilder), b.Field(5).(*array.ListBuilder)
	for range rows {
		b.Field(0).(*array.Int32Builder).Append(int32(r.IntN(3)))
		if null(r) {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.Float32Builder).Append(r.Float32())
		}
		if null(r) {
			b.Field(2).AppendNull()
		} else {
			b.Field(2).(*array.Float64Builder).Append(r.NormFloat64())
		}
		ids := b.Field(3).(*array.ListBuilder)
		if null(r) {
			ids.AppendNull()
		} else {
			ids.Append(true)
			for range r.IntN(5) {
				if null(r) {
					ids.ValueBuilder().AppendNull()
				} else {
					ids.ValueBuilder().(*array.Int64Builder).Append(r.Int64())
				}
			}
		}
		tags.Append(true)
		weights.Append(true)
		for range r.IntN(3) {
			if null(r) {
				tags.ValueBuilder().AppendNull()
			} else {
				tags.ValueBuilder().(*array.Int32Builder).Append(r.Int32())
			}
			weights.ValueBuilder().(*array.Float32Builder).Append(r.Float32())
		}
		if null(r) {
			b.Field(6).AppendNull()
		} else {
			b.Field(6).(*array.StringBuilder).Append([]string{"", "a", "bb", "ccc"}[r.IntN(4)])
		}
	}
	return b.NewRecord()
}

func null(r *rand.Rand) bool { return r.IntN(6) == 0 }

// Slots of the sources.
const (
	Label = uint32(iota)
	Price
	Score
	IDs
	Tags
	Weights
	Text
)

// Program selects all columns as tensors, with provenance, and does nothing else.
func Program() *pb.Program {
	p := &pb.Program{Provenance: true}
	for _, s := range []struct {
		name string
		kind pb.Kind
		list bool
	}{
		{"label", pb.Kind_INT32, false},
		{"price", pb.Kind_FLOAT32, false},
		{"score", pb.Kind_FLOAT64, false},
		{"ids", pb.Kind_INT64, true},
		{"tags", pb.Kind_INT32, true},
		{"weights", pb.Kind_FLOAT32, true},
		{"text", pb.Kind_BINARY, false},
	} {
		p.Sources = append(p.Sources, &pb.Source{
			Name: s.name, Path: []string{s.name},
			Type: &pb.Type{Kind: s.kind, List: s.list},
		})
	}
	weights := Weights
	p.Outputs = []*pb.Output{
		{
			Name: "dense", Layout: pb.Layout_DENSE, Slots: []uint32{Price, Score}, Columns: []string{"price", "score"},
			Type: &pb.Type{Kind: pb.Kind_FLOAT32},
		},
		{Name: "ids", Layout: pb.Layout_SPARSE, Slots: []uint32{IDs}, Type: &pb.Type{Kind: pb.Kind_INT64}},
		{
			Name: "tags", Layout: pb.Layout_SPARSE, Slots: []uint32{Tags}, Weights: &weights,
			Type: &pb.Type{Kind: pb.Kind_INT64},
		},
		{Name: "label", Layout: pb.Layout_LABEL, Slots: []uint32{Label}, Type: &pb.Type{Kind: pb.Kind_INT32}},
		{Name: "text", Layout: pb.Layout_BYTES, Slots: []uint32{Text}, Type: &pb.Type{Kind: pb.Kind_BINARY}},
	}
	return p
}

// Footer is that of a Parquet file.
func Footer(t testing.TB, s storage.Storage, f *pb.File) *footer.Footer {
	t.Helper()
	described, err := formats.Load(t.Context(), s, "", f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return described.(*footer.File).Footer //nolint:forcetypeassert // Parquet's are
}

// Ticket names all extents of a file as one shard, with windows of so many rows.
func Ticket(t testing.TB, s *Store, f *pb.File, windowRows int64) *pb.Ticket {
	t.Helper()
	described, err := formats.Load(t.Context(), s, "", f, nil)
	if err != nil {
		t.Fatal(err)
	}
	ticket := &pb.Ticket{Session: "run-1/train", File: f}
	for i, g := range described.Extents() {
		e := &pb.Extent{Index: uint32(i), FirstRow: g.FirstRow, Rows: g.Rows, WindowRows: windowRows}
		if scanned, ok := described.(format.Scanned); ok {
			scanned.Place(i).To(e)
		}
		ticket.Extents = append(ticket.Extents, e)
	}
	return ticket
}
