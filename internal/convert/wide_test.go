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

// BenchmarkWide writes row groups of many columns that are mostly null.
func BenchmarkWide(b *testing.B) {
	const rows, columns = 1 << 16, 200
	for _, t := range []arrow.DataType{arrow.PrimitiveTypes.Float32, arrow.ListOf(arrow.PrimitiveTypes.Int64)} {
		for _, share := range []float64{0, 0.001, 0.05, 0.3} {
			b.Run(fmt.Sprintf("%s/%g", t.Name(), share), func(b *testing.B) {
				l := &layout{}
				for i := range columns {
					a := sparse(t, rows, share, uint64(i%8))
					l.columns = append(l.columns, column{
						nullable(fmt.Sprintf("f.%d", i), t),
						func([]arrow.Record) ([]arrow.Array, error) {
							var out []arrow.Array
							for at := int64(0); at < rows; at += 4096 {
								out = append(out, array.NewSlice(a, at, at+4096))
							}
							return out, nil
						},
					})
				}
				b.ReportAllocs()
				before := cpuTime()
				for b.Loop() {
					var e encoder
					group := []arrow.Record{array.NewRecord(l.schema(), columnsOfAll(l), rows)}
					if err := e.begin(io.Discard, l); err != nil {
						b.Fatal(err)
					}
					if err := e.rowGroup(l, group); err != nil {
						b.Fatal(err)
					}
					if err := e.end(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(cpuTime()-before)/float64(b.N)/columns/rows, "cpu-ns/row")
			})
		}
	}
}

func columnsOfAll(l *layout) (out []arrow.Array) {
	for _, c := range l.columns {
		values, _ := c.values(nil)
		n, err := array.Concatenate(values, memory.DefaultAllocator)
		if err != nil {
			panic(err)
		}
		out = append(out, n)
	}
	return out
}

func cpuTime() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
