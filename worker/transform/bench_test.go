package transform

import (
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

const benchRows = 16 << 10

// BenchmarkOps measures each op in nanoseconds of a value: a scalar, or one of a list's four elements.
func BenchmarkOps(b *testing.B) {
	f32, i64, ids := scalar(pb.Kind_FLOAT32), scalar(pb.Kind_INT64), list(pb.Kind_INT64)
	for _, c := range []struct {
		op     Op
		params values
		in     []spec.Type
	}{
		{bucketize(), values{"borders": []float64{-1, 0, 0.5, 1, 2, 3, 5, 8, 13, 21}}, []spec.Type{f32}},
		{cast(), values{"to": "int64"}, []spec.Type{f32}},
		{cast(), values{"to": "float32"}, []spec.Type{i64}},
		{cast(), values{"to": "int64"}, []spec.Type{scalar(pb.Kind_BINARY)}},
		{clamp(), values{"min": 0, "max": 10}, []spec.Type{f32}},
		{fillNull(), values{"value": 0}, []spec.Type{f32}},
		{firstX(), values{"x": 3}, []spec.Type{ids}},
		{lastX(), values{"x": 3}, []spec.Type{ids}},
		{log1p(), nil, []spec.Type{f32}},
		{log1p(), nil, []spec.Type{scalar(pb.Kind_FLOAT64)}},
		{ngram(), values{"n": 2, "max": 1_000_000}, []spec.Type{ids, ids}},
		{normalize(), values{"mean": 3, "std": 9}, []spec.Type{f32}},
		{sigridHash(), values{"max": 1_000_000}, []spec.Type{ids}},
		{sigridHash(), values{"max": 1_000_000}, []spec.Type{scalar(pb.Kind_BINARY)}},
	} {
		b.Run(c.op.Name+"/"+c.in[0].String(), func(b *testing.B) {
			chain := chainOf(b, c.op, c.params, c.in...)
			var in []*vector.Vector
			elements := 0
			for _, typ := range c.in {
				in = append(in, benchVector(typ))
				elements += in[len(in)-1].Len()
			}
			b.ReportAllocs()
			for b.Loop() {
				run(b, chain, in...)
			}
			perElement(b, elements)
		})
	}
	b.Run("sample", func(b *testing.B) {
		chain, rows := sampleChain(b, values{"rate": 0.5}), Rows{N: benchRows}
		sel := copyValid(nil, nil, rows.N)
		for b.Loop() {
			chain.Select(rows, nil, sel)
		}
		perElement(b, rows.N)
	})
}

func perElement(b *testing.B, elements int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(elements), "ns/element")
}

// benchVector has a null in eight rows, and four elements in the others.
func benchVector(typ spec.Type) *vector.Vector {
	rows := make([]any, benchRows)
	for i := range rows {
		switch {
		case i%8 == 7:
		case typ.List:
			rows[i] = []any{
				benchValue(typ.Kind, i), benchValue(typ.Kind, 2*i), benchValue(typ.Kind, 3*i),
				benchValue(typ.Kind, 4*i),
			}
		default:
			rows[i] = benchValue(typ.Kind, i)
		}
	}
	return vectorOf(typ, rows)
}

func benchValue(k pb.Kind, i int) any {
	switch k {
	case pb.Kind_FLOAT32:
		return float32(i%1000) / 40
	case pb.Kind_FLOAT64:
		return float64(i%1000) / 40
	case pb.Kind_INT64:
		return int64(mix(uint64(i)) >> 20)
	}
	return []byte{'0' + byte(i%10), '0' + byte(i/10%10), '0' + byte(i/100%10), '7'}
}
