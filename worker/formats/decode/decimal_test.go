package decode

import (
	"encoding/binary"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// nearestDecimal is the float64 nearest to an integer divided by 10^scale, by math/big.
func nearestDecimal(v *big.Int, scale int) float64 {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	x, _ := new(big.Rat).SetFrac(v, power).Float64()
	return x
}

func twosComplement(src []byte) *big.Int {
	v := new(big.Int).SetBytes(src)
	if len(src) > 0 && src[0] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(src))))
	}
	return v
}

func TestDecimalsAreTheNearest(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, src []byte, scale int) {
		d := NewDecimal(scale)
		if got, want := d.BigEndian(src), nearestDecimal(twosComplement(src), scale); got != want ||
			math.Signbit(got) != math.Signbit(want) {
			t.Fatalf("%x with scale %d is %v, want %v", src, scale, got, want)
		}
		if len(src) == 8 {
			v := int64(binary.BigEndian.Uint64(src))
			if got, want := d.Integer(v), nearestDecimal(big.NewInt(v), scale); got != want {
				t.Fatalf("%d with scale %d is %v, want %v", v, scale, got, want)
			}
		}
	}
	// rounded to 53 bits, and then divided by 10^7, it would be off
	unscaled, _ := new(big.Int).SetString("402013549007027756273341504339", 10)
	check(t, unscaled.FillBytes(make([]byte, 16)), 7)
	rapid.Check(t, func(r *rapid.T) {
		one := rapid.OneOf(rapid.SampledFrom([]byte{0, 0xff, 0x80, 1}), rapid.Byte())
		src := rapid.SliceOfN(one, 0, 20).Draw(r, "bytes")
		check(r, src, rapid.IntRange(0, 38).Draw(r, "scale"))
	})
}

// TestDecimalsAllocateNothing holds for all that have 38 digits at most.
func TestDecimalsAllocateNothing(t *testing.T) {
	src := []byte{0x7f, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	d := NewDecimal(7)
	if n := testing.AllocsPerRun(100, func() { d.BigEndian(src) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
