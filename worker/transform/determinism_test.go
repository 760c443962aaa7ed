package transform

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// TestFloatsAreTheSameEverywhere hashes what the ops that compute with floats make of one fixed input. The hashes hold
// on every architecture and with every GOAMD64: one that differs means an instruction was fused, or semantics changed
// and the op needs a new version.
func TestFloatsAreTheSameEverywhere(t *testing.T) {
	cases := []struct {
		op     Op
		params values
		want   map[pb.Kind]uint64
	}{
		{log1p(), nil, map[pb.Kind]uint64{
			pb.Kind_INT64: 0xb18a0012781af182, pb.Kind_FLOAT32: 0x4a4c209c6ef1fec7,
			pb.Kind_FLOAT64: 0xb4d412e37005839c,
		}},
		{normalize(), values{"mean": 3.7, "std": 9.1}, map[pb.Kind]uint64{
			pb.Kind_INT64:   0x1bc7965a0d86bd1,
			pb.Kind_FLOAT32: 0x249a15d583c6d270, pb.Kind_FLOAT64: 0x249a15d583c6d270,
		}},
		{clamp(), values{"min": -2, "max": 700}, map[pb.Kind]uint64{
			pb.Kind_FLOAT32: 0xba6a57f717d6a132,
			pb.Kind_FLOAT64: 0x2980cd92ba00a8d0,
		}},
		{
			bucketize(),
			values{"borders": []float64{-1, 0.1, 3, 1e3, 1e6}},
			map[pb.Kind]uint64{
				pb.Kind_INT64: 0x9a63325120cb48c4, pb.Kind_FLOAT32: 0xcdc58f6bd7353e7,
				pb.Kind_FLOAT64: 0xcdc58f6bd7353e7,
			},
		},
		{logit(), values{"eps": 1e-7}, map[pb.Kind]uint64{
			pb.Kind_INT64:   0x6490a940d7fcf025,
			pb.Kind_FLOAT32: 0xba1b9fdff3c23fbe, pb.Kind_FLOAT64: 0xa7cf74516660152b,
		}},
		{logit(), nil, map[pb.Kind]uint64{pb.Kind_FLOAT32: 0x767e51c074381497, pb.Kind_FLOAT64: 0x95effe777956fe1c}},
		{boxCox(), values{"lambda": 0}, map[pb.Kind]uint64{
			pb.Kind_FLOAT32: 0x8b89d5be3032e24b,
			pb.Kind_FLOAT64: 0xe1e96524f27ee309,
		}},
		{boxCox(), values{"lambda": 0.37}, map[pb.Kind]uint64{
			pb.Kind_INT64:   0x2fd5fdbaff03ff95,
			pb.Kind_FLOAT32: 0xc4e1d470315e3c61, pb.Kind_FLOAT64: 0x5fcf57db88b50d50,
		}},
		{boxCox(), values{"lambda": -1.3}, map[pb.Kind]uint64{
			pb.Kind_FLOAT32: 0x6e8a5190590eb46c,
			pb.Kind_FLOAT64: 0xc1f540b683132633,
		}},
		{scaleTo01(), values{"min": -0.3, "max": 7.7}, map[pb.Kind]uint64{
			pb.Kind_INT64:   0xf57623e305d744f5,
			pb.Kind_FLOAT32: 0x9e24a7b75318b3fa, pb.Kind_FLOAT64: 0xafc6049c31846cb8,
		}},
		{scaleToZScore(), values{"mean": 3.7, "std": 9.1}, map[pb.Kind]uint64{
			pb.Kind_FLOAT32: 0x249a15d583c6d270,
			pb.Kind_FLOAT64: 0x7edfef1fe2c8a70f,
		}},
		{cast(), values{"to": "float32"}, map[pb.Kind]uint64{
			pb.Kind_INT64:   0x14795120d039fbf1,
			pb.Kind_FLOAT64: 0x365d6c1c91e00933,
		}},
		{cast(), values{"to": "int32"}, map[pb.Kind]uint64{
			pb.Kind_FLOAT32: 0xeec4390aec7023b5,
			pb.Kind_FLOAT64: 0x7359977a0835080f,
		}},
	}
	inputs := fixedNumbers(1 << 16)
	for _, c := range cases {
		for kind, want := range c.want {
			in := inputs[kind]
			if got := hashOf(run(t, chainOf(t, c.op, c.params, in.Type), in)); got != want {
				t.Errorf("%s %v of %v: got %#x, want %#x", c.op.Name, c.params, kind, got, want)
			}
		}
	}
}

// TestScoresAreTheSameEverywhere does so for the ops that sum over lists.
func TestScoresAreTheSameEverywhere(t *testing.T) {
	const rows, length = 2000, 23
	numbers := fixedNumbers(rows * length)
	lists := func(v *vector.Vector) *vector.Vector {
		made := *v
		made.Type.List, made.Rows = true, rows
		for row := range rows + 1 {
			made.Offsets = append(made.Offsets, int32(row*length))
		}
		return &made
	}
	scores, ids, others := lists(numbers[pb.Kind_FLOAT64]), lists(numbers[pb.Kind_INT64]), lists(numbers[pb.Kind_INT64])
	ids.I64, others.I64 = slices.Clone(ids.I64), slices.Clone(others.I64)
	for i := range ids.I64 {
		ids.I64[i], others.I64[i] = int64(mix(uint64(i))%40), int64(mix(uint64(i+1e6))%40)
		if x := scores.F64[i]; x != x || math.Abs(x) > 1e30 {
			scores.F64[i] = 0.1
		}
	}
	for _, c := range []struct {
		op   Op
		in   []*vector.Vector
		want uint64
	}{
		{cosineSimilarity(), []*vector.Vector{ids, scores, others, scores}, 0x468e3dcc9fa84e9f},
		{scoreSum(), []*vector.Vector{ids, others, scores}, 0xb9641a7ed833e1b7},
		{jaccardSimilarity(), []*vector.Vector{ids, others}, 0x87f125f943139ffb},
	} {
		var types []spec.Type
		for _, v := range c.in {
			types = append(types, v.Type)
		}
		if got := hashOf(run(t, chainOf(t, c.op, nil, types...), c.in...)); got != c.want {
			t.Errorf("%s: got %#x, want %#x", c.op.Name, got, c.want)
		}
	}
}

// fixedNumbers are numbers of all magnitudes, most of them small.
func fixedNumbers(n int) map[pb.Kind]*vector.Vector {
	i64 := &vector.Vector{Type: scalar(pb.Kind_INT64), Rows: n}
	f32 := &vector.Vector{Type: scalar(pb.Kind_FLOAT32), Rows: n}
	f64 := &vector.Vector{Type: scalar(pb.Kind_FLOAT64), Rows: n}
	for i := range n {
		r := mix(uint64(i))
		x := math.Ldexp(float64(int64(r)), int(r%80)-110) // up to 2^33
		if i%8 == 0 {
			x = math.Float64frombits(r)
		}
		i64.I64 = append(i64.I64, int64(r)>>(r%64))
		f32.F32 = append(f32.F32, float32(x))
		f64.F64 = append(f64.F64, x)
	}
	return map[pb.Kind]*vector.Vector{pb.Kind_INT64: i64, pb.Kind_FLOAT32: f32, pb.Kind_FLOAT64: f64}
}

// hashOf hashes a scalar vector's values and nulls. All NaN count as one, since their bits are not specified.
func hashOf(v *vector.Vector) uint64 {
	h := fnv.New64a()
	for i := range v.Rows {
		var bits uint64
		switch x := valueAt(v, i).(type) {
		case int32:
			bits = uint64(x)
		case float32:
			bits = uint64(math.Float32bits(x))
			if x != x {
				bits = math.MaxUint64
			}
		case float64:
			bits = math.Float64bits(x)
			if x != x {
				bits = math.MaxUint64
			}
		case nil:
			bits = math.MaxUint64 - 1
		}
		h.Write(binary.LittleEndian.AppendUint64(nil, bits))
	}
	return h.Sum64()
}
