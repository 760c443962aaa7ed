package arrow_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// BenchmarkDecode decodes record batches of 20,000 rows of a type, beside Parquet files of the same rows.
func BenchmarkDecode(b *testing.B) {
	for _, t := range []arrow.DataType{
		arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32, arrow.FixedWidthTypes.Boolean,
		arrow.BinaryTypes.String,
		arrow.ListOf(arrow.PrimitiveTypes.Int64),
	} {
		s := arrow.NewSchema([]arrow.Field{{Name: "c", Type: t, Nullable: true}}, nil)
		records := filetest.Records(rand.New(rand.NewPCG(1, 4)), s, 20_000, 20_000)
		for name, data := range map[string][]byte{
			"arrow": filetest.Arrow(b, s, records), "zstd": filetest.Arrow(b, s, records, ipc.WithZstd()),
			"parquet": filetest.Parquet(b, s, records),
		} {
			b.Run(fmt.Sprint(t, "/", name), func(b *testing.B) { formattest.Decode(b, data, 40_000) })
		}
	}
}
