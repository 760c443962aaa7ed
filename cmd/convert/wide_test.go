package convert

import (
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// sparse makes a column of which a share of the rows has values.
func sparse(t arrow.DataType, rows int, share float64, seed uint64) arrow.Array {
	rnd := rand.New(rand.NewPCG(seed, 1))
	b := array.NewBuilder(memory.DefaultAllocator, t)
	for range rows {
		if rnd.Float64() >= share {
			b.AppendNull()
			continue
		}
		switch b := b.(type) {
		case *array.Float32Builder:
			b.Append(rnd.Float32())
		case *array.ListBuilder:
			b.Append(true)
			for range rnd.IntN(8) {
				b.ValueBuilder().(*array.Int64Builder).Append(rnd.Int64N(1 << 24))
			}
		}
	}
	return b.NewArray()
}

// BenchmarkWide writes row groups of columns that are mostly null, and reports the CPU time of a row of a column.
func BenchmarkWide(b *testing.B) {
	const rows, columns = 1 << 16, 200
	for _, t := range []arrow.DataType{arrow.PrimitiveTypes.Float32, arrow.ListOf(arrow.PrimitiveTypes.Int64)} {
		for _, share := range []float64{0, 0.001, 0.05, 0.3} {
			b.Run(fmt.Sprintf("%s/%g", t.Name(), share), func(b *testing.B) {
				a, l := sparse(t, rows, share, 7), &layout{}
				var records []arrow.Array
				for at := int64(0); at < rows; at += batchRows {
					records = append(records, array.NewSlice(a, at, at+batchRows))
				}
				values := func([]arrow.Record) ([]arrow.Array, error) { return records, nil }
				for i := range columns {
					l.columns = append(l.columns, column{nullable(fmt.Sprint("f.", i), t), values})
				}
				group := []arrow.Record{array.NewRecord(arrow.NewSchema(nil, nil), nil, rows)}
				var e encoder
				if err := e.begin(io.Discard, l); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				before := cpuTime(b)
				for b.Loop() {
					if err := e.rowGroup(l, group); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N)/columns/rows, "cpu-ns/row")
			})
		}
	}
}

// cpuTime is what the process took, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
