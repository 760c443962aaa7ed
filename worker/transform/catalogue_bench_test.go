package transform

import (
	"testing"
	"time"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// BenchmarkCatalogue measures the ops that BenchmarkOps does not, in nanoseconds of an input value and in the time
// (x_memcpy) that a copy takes which reads and writes as many bytes together as the op has values.
func BenchmarkCatalogue(b *testing.B) {
	f32, f64, i64, ids := scalar(pb.Kind_FLOAT32), scalar(pb.Kind_FLOAT64), scalar(pb.Kind_INT64), list(pb.Kind_INT64)
	scores := list(pb.Kind_FLOAT32)
	keys := make([]any, 1000)
	for i := range keys {
		keys[i] = i * 17
	}
	for _, c := range []struct {
		op     Op
		params values
		in     []spec.Type
	}{
		{logit(), values{"eps": 0.001}, []spec.Type{f32}},
		{logit(), values{"eps": 0.001}, []spec.Type{f64}},
		{boxCox(), values{"lambda": 0.3}, []spec.Type{f32}},
		{boxCox(), values{"lambda": 0}, []spec.Type{f32}},
		{scaleTo01(), values{"min": 0, "max": 25}, []spec.Type{f32}},
		{scaleToZScore(), values{"mean": 3, "std": 9}, []spec.Type{f32}},
		{positiveModulus(), values{"modulus": 1_000_000}, []spec.Type{ids}},
		{mapID(), values{"keys": keys, "default": 0}, []spec.Type{ids}},
		{mapID(), values{"first": 0, "count": 500, "default": 500}, []spec.Type{ids}},
		{localHour(), values{"timezone": "Europe/Berlin"}, []spec.Type{i64}},
		{onehot(), values{"size": 16}, []spec.Type{i64}},
		{enumerate(), nil, []spec.Type{ids}},
		{sortByScore(), nil, []spec.Type{ids, scores}},
		{cartesian(), values{"max": 1_000_000}, []spec.Type{i64, ids}},
		{intersect(), nil, []spec.Type{ids, ids}},
		{union(), nil, []spec.Type{ids, ids}},
		{hasOverlap(), nil, []spec.Type{ids, ids}},
		{idOverlapCount(), nil, []spec.Type{ids, ids}},
		{jaccardSimilarity(), nil, []spec.Type{ids, ids}},
		{cosineSimilarity(), nil, []spec.Type{ids, scores, ids, scores}},
		{scoreSum(), nil, []spec.Type{ids, ids, scores}},
		{scoreMin(), nil, []spec.Type{ids, ids, scores}},
		{scoreMax(), nil, []spec.Type{ids, ids, scores}},
	} {
		b.Run(c.op.Name+"/"+c.in[0].String(), func(b *testing.B) {
			chain := chainOf(b, c.op, c.params, c.in...)
			var in []*vector.Vector
			values, bytes := 0, 0
			for i, typ := range c.in {
				in = append(in, catalogueVector(typ, uint64(i)))
				values += in[i].Len()
				bytes += in[i].Len() * width(typ)
			}
			out := run(b, chain, in...)
			bytes += out.Len() * width(out.Type)
			b.ReportAllocs()
			for b.Loop() {
				run(b, chain, in...)
			}
			perElement(b, values)
			from, to := make([]byte, bytes/2), make([]byte, bytes/2)
			b.ReportMetric(minTime(func() { run(b, chain, in...) })/minTime(func() { copy(to, from) }), "x_memcpy")
		})
	}
}

func width(typ spec.Type) int {
	switch typ.Kind {
	case pb.Kind_INT32, pb.Kind_FLOAT32:
		return 4
	}
	return int(unsafe.Sizeof(int64(0)))
}

// minTime of several runs is what least disturbs: other processes of the machine only add to it.
func minTime(f func()) float64 {
	least := time.Duration(1 << 62)
	for range 20 {
		start := time.Now()
		f()
		least = min(least, time.Since(start))
	}
	return float64(max(least, 1))
}

// catalogueVector has lists of 20 values, and numbers that suit all ops: lists of one row share values.
func catalogueVector(typ spec.Type, seed uint64) *vector.Vector {
	const rows, length = benchRows, 20
	v := &vector.Vector{Type: typ, Rows: rows}
	n := rows
	if typ.List {
		n *= length
		for row := range rows + 1 {
			v.Offsets = append(v.Offsets, int32(row*length))
		}
	}
	for j := range n {
		r := mix(seed<<32 + uint64(j))
		switch typ.Kind {
		case pb.Kind_FLOAT32:
			v.F32 = append(v.F32, float32(r>>40)*0x1p-24)
		case pb.Kind_FLOAT64:
			v.F64 = append(v.F64, float64(r>>11)*0x1p-53)
		case pb.Kind_INT64:
			x := int64(r % 1000)
			if typ.List { // skewed, as ids are
				x = x * x / 1000
			} else { // seconds of three days
				x = 1_700_000_000 + int64(r%(3*day))
			}
			v.I64 = append(v.I64, x)
		}
	}
	return v
}
