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
