package apply_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/apply"
)

// A model is served with the spec that it was trained with. The label is not known yet: it is left out.
func Example() {
	s, err := spec.Parse([]byte(`
dataset: {uri: s3://bucket/clicks/}
batch_size: 4096
features: [{label: clicked}, {dense: price}, {sparse: item}]
transforms:
  - {op: log1p, in: price}
  - {op: sigrid_hash, in: item, max: 1000}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	transforms, err := apply.New(context.Background(), apply.Config{Spec: s})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer transforms.Close()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "price", Type: arrow.PrimitiveTypes.Float32}, {Name: "item", Type: arrow.PrimitiveTypes.Int64},
	}, nil)
	rows, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema,
		strings.NewReader(`[{"price": 1.5, "item": 42}, {"price": 0, "item": 7}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	batch, err := transforms.Apply(context.Background(), rows)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer batch.Release()
	for i, f := range batch.Record().Schema().Fields() {
		fmt.Println(f.Name, batch.Record().Column(i))
	}
	// Output:
	// dense [[0.91629076] [0]]
	// item [[330] [911]]
}
