package transform

import (
	"fmt"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// sigridHash maps ids to [0, max), as TorchArrow's functional.sigrid_hash does: as a signed integer,
// combine(salt, mixID(id)), modulo max, rounded towards negative infinity. Text counts as the id that its XXH64 is.
func sigridHash() Op {
	return Op{
		Name:    "sigrid_hash",
		Version: 1,
		Summary: "Hashes ids into [0, max), as TorchArrow's functional.sigrid_hash; text by its XXH64.",
		Exact:   "int64 in [0, max), see below",
		Maps:    true,
		Inputs:  "scalar or list of ints or text",
		Output:  "int64, scalar or list like the input",
		Params: []Param{
			{Name: "salt", Want: Int, Default: 0, Doc: "makes hashes of the same id differ"},
			{Name: "max", Want: PositiveInt, Required: true, Doc: "count of results, as of an embedding table's rows"},
		},
		Example: "{op: sigrid_hash, in: cat_*, salt: 7, max: 100000}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			if !isInteger(in[0].Kind) && in[0].Kind != pb.Kind_BINARY {
				return spec.Type{}, fmt.Errorf("in: want a scalar or list of ints or text, found %v", in[0])
			}
			return spec.Type{Kind: pb.Kind_INT64, List: in[0].List}, nil
		},
		New: func(p Params, in []spec.Type) (Kernel, error) {
			h := &hashParams{uint64(p.Int("salt")), newModulus(p.Int("max"))}
			switch in[0].Kind {
			case pb.Kind_INT32:
				return Elementwise(func(dst []int64, src []int32) { hashInts(dst, src, h) }), nil
			case pb.Kind_INT64:
				return changes{elementwise[int64, int64]{loop: func(dst, src []int64) { hashInts(dst, src, h) }}}, nil
			}
			return hashText{h}, nil
		},
	}
}

// hashParams are what sigrid_hash is given. Assembly knows the layout.
type hashParams struct {
	salt uint64
	max  modulus
}

// hashPlain is what hashInts does, on any CPU.
func hashPlain[S int32 | int64](dst []int64, src []S, p *hashParams) {
	salt, m := p.salt, p.max
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = m.of(combine(salt, mixID(uint64(int64(v)))))
	}
}

type hashText struct{ *hashParams }

func (k hashText) Run(out *vector.Vector, in []*vector.Vector) error {
	v := in[0]
	out.I64 = vector.Grow(out.I64, v.Len())
	for j := range out.I64 {
		out.I64[j] = int64(xxhash.Sum64(v.Data[v.Ends[j]:v.Ends[j+1]]))
	}
	hashInts(out.I64, out.I64, k.hashParams)
	shareShape(out, v)
	return nil
}

// mixID is Thomas Wang's hash of a 64-bit integer.
func mixID(x uint64) uint64 {
	x = x*(1<<21-1) - 1
	x ^= x >> 24
	x *= 1 + 1<<3 + 1<<8
	x ^= x >> 14
	x *= 1 + 1<<2 + 1<<4
	x ^= x >> 28
	return x * (1 + 1<<31)
}

// combine is CityHash's Hash128to64.
func combine(upper, lower uint64) uint64 {
	const k = 0x9ddfea08eb382d69
	a := (lower ^ upper) * k
	a ^= a >> 47
	b := (upper ^ a) * k
	b ^= b >> 47
	return b * k
}

// modulus computes remainders of a fixed divisor by multiplication.
type modulus struct {
	divisor    uint64 // below 2^63
	multiplier uint64 // 1 + floor(2^(64+shift) / divisor)
	shift      uint
	kept       uint64 // of the bits of what is divided: none for divisor 1, else all
}

// newModulus takes a divisor above 0.
func newModulus(divisor int64) modulus {
	d := uint64(divisor)
	if d == 1 {
		return modulus{divisor: 1} // a multiplier of 2^64 would be needed
	}
	shift := uint(bits.Len64(d-1)) - 1
	quotient, _ := bits.Div64(1<<shift, 0, d)
	return modulus{divisor: d, multiplier: quotient + 1, shift: shift, kept: ^uint64(0)}
}

// of is the remainder of h, taken as a signed integer, rounded towards negative infinity: in [0, divisor).
//
// For 0 <= u < 2^63 the quotient is exact, since multiplier*divisor exceeds 2^(64+shift) by at most divisor, which is
// at most 2^(1+shift). For negative h, u is -1-h, and the remainder of h is divisor-1 less that of u.
func (m modulus) of(h uint64) int64 {
	sign := uint64(int64(h) >> 63)
	u := (h ^ sign) & m.kept
	q, _ := bits.Mul64(u, m.multiplier)
	r := u - q>>(m.shift&63)*m.divisor
	return int64((r ^ sign) + m.divisor&sign)
}
