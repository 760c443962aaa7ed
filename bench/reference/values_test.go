package reference

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

func TestFloat16(t *testing.T) {
	for bits, want := range map[uint16]float64{
		0: 0, 1: 0x1p-24, 0x83ff: -1023 * 0x1p-24, 0x0400: 0x1p-14, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504,
		0x7c00: math.Inf(1), 0xfc00: math.Inf(-1), 0x8000: math.Copysign(0, -1),
	} {
		if got := float16(bits); math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%04x: got %v; want %v", bits, got, want)
		}
	}
	if got := float16(0x7c01); !math.IsNaN(got) {
		t.Errorf("NaN is %v", got)
	}
}

func TestBigEndian(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "\x01": 1, "\xff": -1, "\x80\x00": -32768, "\x00\xff": 255, "\x20\x00\x00\x00\x00\x00\x01": 1<<53 + 1,
	} {
		if got := bigEndian([]byte(text)); got.Cmp(big.NewInt(want)) != 0 {
			t.Errorf("%x: got %v; want %v", text, got, want)
		}
	}
}

func TestTimestamp(t *testing.T) {
	for at, want := range map[deprecated.Int96]int64{
		{0, 0, 2440588}: 0, {5, 0, 2440588}: 5, {0, 1, 2440589}: 1<<32 +
			86_400_000_000_000, {0, 0, 2440587}: -86_400_000_000_000,
	} {
		if got := timestamp(at); got != want {
			t.Errorf("%v: got %d; want %d", at, got, want)
		}
	}
}

func TestBoolRuns(t *testing.T) {
	// a run of 3, 8 packed, a run of 2
	data := []byte{6, 0, 0, 0, 3 << 1, 1, 1<<1 | 1, 0b10100101, 2 << 1, 0}
	want := []bool{true, true, true, true, false, true, false, false, true, false, true, false, false}
	got, err := decodeBools(format.RLE, data, len(want))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func FuzzDecodeBools(f *testing.F) {
	f.Add([]byte{6, 0, 0, 0, 3 << 1, 1, 1<<1 | 1, 0b10100101, 2 << 1, 0}, 13)
	f.Add([]byte{2, 0, 0, 0, 0xff, 1}, 9)
	f.Add([]byte{3, 0, 0, 0, 1}, 1)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		n %= 1 << 16
		got, err := decodeBools(format.RLE, data, n)
		if err == nil && len(got) != max(n, 0) {
			t.Errorf("%d of %d values", len(got), n)
		}
	})
}
