package format_test

import (
	"math"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/float16"

	"github.com/penstock-ml/penstock/internal/formats/format"
)

func TestFloat16(t *testing.T) {
	for h := range 1 << 16 {
		got, want := format.Float16(uint16(h)), float16.FromLEBytes([]byte{byte(h), byte(h >> 8)}).Float32()
		if h&0x7c00 == 0 { // arrow reads subnormal numbers as normal ones
			want = float32(math.Ldexp(float64(h&0x3ff), -24))
			if h&0x8000 != 0 {
				want = float32(math.Copysign(float64(want), -1))
			}
		}
		if math.Float32bits(got) != math.Float32bits(want) && got == got {
			t.Fatalf("half %04x is %v, want %v", h, got, want)
		}
	}
}

// Each half is the nearest to itself and to what lies near; halfway between two, the even one is.
func TestToFloat16(t *testing.T) {
	for h := range uint16(0x7c00) {
		this, next := float64(format.Float16(h)), float64(format.Float16(h+1))
		if h == 0x7bff {
			next = 65536 // which infinity stands in for
		}
		half, even := this+(next-this)/2, h+h&1
		for v, want := range map[float64]uint16{
			this: h, half: even, math.Nextafter(half, this): h, math.Nextafter(half, next): h + 1,
		} {
			if got := format.ToFloat16(v); got != want {
				t.Fatalf("%v is %04x, want %04x", v, got, want)
			}
			if got := format.ToFloat16(-v); got != want|0x8000 {
				t.Fatalf("%v is %04x, want %04x", -v, got, want|0x8000)
			}
		}
	}
	if h := format.ToFloat16(math.NaN()); format.Float16(h) == format.Float16(h) {
		t.Errorf("NaN is %04x", h)
	}
	if h := format.ToFloat16(math.Inf(-1)); h != 0xfc00 {
		t.Errorf("-Inf is %04x", h)
	}
}
