package plan_test

import (
	"context"
	"encoding/binary"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/metadata"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/master/plan"
)

// testing.T and rapid.T.
type tb interface {
	Helper()
	Fatal(args ...any)
}

// chunk is what a test wants a footer to say of a column chunk.
type chunk struct {
	values, stored, decoded int64
	min, max                []byte // bounds, little endian; nil if there are none
}

// rowGroup has a chunk for each leaf of the schema.
type rowGroup struct {
	rows   int64
	chunks []chunk
}

// schema has the leaves id, ids, scores (key, value), user.age and name.
func schema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "scores", Type: arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32), Nullable: true},
		{
			Name: "user", Type: arrow.StructOf(arrow.Field{Name: "age", Type: arrow.PrimitiveTypes.Int32}),
			Nullable: true,
		},
		{Name: "name", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
}

const leaves = 6 // of schema

// uniform is a row group whose chunks are all alike.
func uniform(rows, decoded int64) rowGroup {
	g := rowGroup{rows: rows}
	for range leaves {
		g.chunks = append(g.chunks, chunk{values: rows, stored: decoded/2 + 1, decoded: decoded})
	}
	return g
}

// within sets the bounds of id.
func (g rowGroup) within(low, high int64) rowGroup {
	g.chunks[0].min = binary.LittleEndian.AppendUint64(nil, uint64(low))
	g.chunks[0].max = binary.LittleEndian.AppendUint64(nil, uint64(high))
	return g
}

// makeFile makes a file's footer with arrow's own builder, so that no data need be written, and reads it.
func makeFile(t tb, uri string, size int64, s *arrow.Schema, groups ...rowGroup) plan.File {
	t.Helper()
	props := parquet.NewWriterProperties()
	parquetSchema, err := pqarrow.ToParquet(s, props, pqarrow.DefaultWriterProps())
	check(t, err)
	b := metadata.NewFileMetadataBuilder(parquetSchema, props, nil)
	for i, g := range groups {
		rg := b.AppendRowGroup()
		rg.SetNumRows(int(g.rows))
		for _, c := range g.chunks {
			col := rg.NextColumnChunk()
			if c.min != nil {
				col.SetStats(metadata.EncodedStatistics{
					HasMin: true, Min: c.min, HasMax: true, Max: c.max,
					HasNullCount: true,
				})
			}
			check(t, col.Finish(metadata.ChunkMetaInfo{
				NumValues: c.values, DataPageOffset: 4, CompressedSize: c.stored, UncompressedSize: c.decoded,
			}, false, false, metadata.EncodingStats{}, nil))
		}
		check(t, rg.Finish(0, int16(i)))
	}
	meta, err := b.Finish()
	check(t, err)
	data, err := meta.SerializeString(context.Background())
	check(t, err)
	foot, err := footer.Read([]byte(data))
	check(t, err)
	return plan.File{File: &pb.File{Uri: uri, Size: size, Etag: "e"}, Holds: footer.NewFile(foot)}
}

// footerOf is what a file is described by.
func footerOf(f plan.File) *footer.Footer { return f.Holds.(*footer.File).Footer }

func check(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
