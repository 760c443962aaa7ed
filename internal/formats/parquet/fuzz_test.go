package parquet_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/schema"

	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
)

// serialised returns the FileMetaData of a file.
func serialised(data []byte) []byte {
	n := int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	return data[len(data)-8-n : len(data)-8]
}

// A short schema of long names is refused, rather than multiplied.
func TestReadRefusesLongNames(t *testing.T) {
	children := make([]schema.Node, 1000)
	for i := range children {
		children[i] = int64Leaf(fmt.Sprint(i), parquet.Repetitions.Optional)
	}
	data := noRowGroups(t, group(t, strings.Repeat("x", 1<<18), parquet.Repetitions.Optional,
		schema.ConvertedTypes.None, children...))
	if _, err := footer.Read(serialised(data)); err == nil || !strings.Contains(err.Error(), "full names") {
		t.Errorf("error %v, want one about full names", err)
	}
}

// FuzzRead checks that whatever bytes a footer has, reading it ends, allocates no more than in proportion, and
// what it returns is consistent.
func FuzzRead(f *testing.F) {
	f.Add(serialised(oneColumn(f, 10)))
	f.Add(serialised(wide(f, 3)))
	fields := arrow.NewSchema([]arrow.Field{
		{Name: "l", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
		{Name: "m", Type: arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32), Nullable: true},
		{Name: "d", Type: &arrow.Decimal128Type{Precision: 20, Scale: 2}},
		{Name: "s", Type: arrow.StructOf(arrow.Field{
			Name: "x",
			Type: arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Uint32)),
		})},
		{Name: "g", Type: arrow.FixedSizeListOf(2, arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Int8))},
	}, nil)
	f.Add(serialised(write(f, fields, record(f, fields, `[{"l":["a"],"m":[],"d":"1.25","s":{"x":[]},`+
		`"g":[[1,2,3],[4,5,6]]}]`))))
	f.Add([]byte{0x15, 2, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f}) // a list of 4 billion elements
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		file, err := footer.Read(data)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > uint64(200*len(data)+1<<16) {
			t.Errorf("%d bytes were allocated for %d", n, len(data))
		}
		if err != nil {
			return
		}
		var rows int64
		for i, g := range file.RowGroups {
			if g.FirstRow != rows || g.Rows < 0 || len(g.Chunks) != len(file.Leaves) {
				t.Errorf("row group %d: %d rows from %d, %d chunks", i, g.Rows, g.FirstRow, len(g.Chunks))
			}
			rows += g.Rows
			for _, c := range g.Chunks {
				if c.Offset < 0 || c.Length < 0 || c.Offset+c.Length < 0 || c.Values < 0 || c.Uncompressed < 0 {
					t.Errorf("row group %d has chunk %+v", i, c)
				}
			}
		}
		if rows != file.Rows {
			t.Errorf("%d rows, row groups have %d", file.Rows, rows)
		}
		for i := range file.Schema.Columns {
			from, to := file.LeavesOf(i)
			if from < 0 || to < from || to > len(file.Leaves) {
				t.Errorf("column %d has leaves %d to %d of %d", i, from, to, len(file.Leaves))
			}
		}
		for i, l := range file.Leaves {
			if l.Logical.ListDef > l.MaxDef || l.Logical.RowNullDef > l.MaxDef || l.Column >= 0 && l.MaxRep > 8 {
				t.Errorf("leaf %d: %+v", i, l)
			}
		}
	})
}
