// Package excludedtest writes what tables say of the rows that they have deleted, for tests.
package excludedtest

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// Vector is a deletion vector of rows, as tables have it in themselves.
func Vector(t testing.TB, rows ...int64) []byte {
	t.Helper()
	return vectorOf(t, setOf(rows))
}

// Runs is Vector, with runs of rows where they take less.
func Runs(t testing.TB, rows ...int64) []byte {
	t.Helper()
	set := setOf(rows)
	set.RunOptimize()
	return vectorOf(t, set)
}

func setOf(rows []int64) *roaring64.Bitmap {
	set := roaring64.New()
	for _, row := range rows {
		set.Add(uint64(row))
	}
	return set
}

func vectorOf(t testing.TB, set *roaring64.Bitmap) []byte {
	t.Helper()
	data, err := set.ToBytes()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{0xd1, 0xd3, 0x39, 0x64}, data...)
}

// Framed is a deletion vector as it lies in a file.
func Framed(vector []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(vector)))
	return binary.BigEndian.AppendUint32(append(out, vector...), crc32.ChecksumIEEE(vector))
}

// Position is a row of a file, by its path.
type Position struct {
	Path string
	Row  int64
}

// Positions is a file of them, in row groups of so many, as Iceberg writes it but for their order.
func Positions(t testing.TB, group int, all ...Position) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "file_path", Type: arrow.BinaryTypes.String},
		{Name: "pos", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
	return pipelinetest.Write(t, schema, func(yield func(arrow.Record) bool) {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		defer b.Release()
		for part := range slices.Chunk(all, group) {
			for _, p := range part {
				b.Field(0).(*array.StringBuilder).Append(p.Path) //nolint:forcetypeassert // it is one
				b.Field(1).(*array.Int64Builder).Append(p.Row)   //nolint:forcetypeassert // it is one
			}
			if !yield(b.NewRecord()) {
				return
			}
		}
	})
}
