package apply_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/apply"
)

// criteo are rows of the shape of Criteo's click logs.
func criteo(rows int) arrow.Record {
	r := rand.New(rand.NewPCG(3, 4))
	var fields []arrow.Field
	var columns []arrow.Array
	for i := range 13 {
		b := array.NewInt32Builder(memory.DefaultAllocator)
		for range rows {
			b.Append(r.Int32N(1000))
		}
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("int_%d", i), Type: arrow.PrimitiveTypes.Int32})
		columns = append(columns, b.NewArray())
	}
	for i := range 26 {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		for range rows {
			b.Append(r.Int64())
		}
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("cat_%d", i), Type: arrow.PrimitiveTypes.Int64})
		columns = append(columns, b.NewArray())
	}
	return array.NewRecord(arrow.NewSchema(fields, nil), columns, int64(rows))
}

func BenchmarkApply(b *testing.B) {
	s, err := spec.Parse([]byte(`
dataset: {uri: /none/}
batch_size: 10
features: [{dense: "int_*"}, {sparse: "cat_*"}]
transforms: [{op: fill_null, in: "int_*", value: 0}, {op: log1p, in: "int_*"}, {op: sigrid_hash, in: "cat_*", max: 100000}]
`))
	if err != nil {
		b.Fatal(err)
	}
	for _, rows := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			made, err := apply.New(b.Context(), apply.Config{Spec: s})
			if err != nil {
				b.Fatal(err)
			}
			defer made.Close()
			record := criteo(rows)
			for b.Loop() {
				batch, err := made.Apply(b.Context(), record)
				if err != nil {
					b.Fatal(err)
				}
				batch.Release()
			}
		})
	}
}
