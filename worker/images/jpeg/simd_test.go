package jpeg

import (
	"bytes"
	"image"
	"math/rand/v2"
	"testing"

	"github.com/penstock-ml/penstock/internal/simd"
)

// plainly calls f with the loops of plain Go.
func plainly(f func()) {
	had := simdLevel
	defer func() { simdLevel = had }()
	simdLevel = simd.Plain
	f()
}

// FuzzIDCT compares idct with its plain form, for coefficients of any size, as damaged files have them.
func FuzzIDCT(f *testing.F) {
	for last := range uint8(64) {
		f.Add(uint64(last), last, last/3)
	}
	f.Fuzz(func(t *testing.T, seed uint64, last, size uint8) {
		random := rand.New(rand.NewPCG(seed, 1))
		var block [64]int32
		last &= 63
		for k := range last + 1 {
			if random.IntN(3) > 0 {
				block[zigzag[k]] = int32(random.Uint32()) >> (size & 31)
			}
		}
		const stride = 11
		got, want := make([]byte, 7*stride+9), make([]byte, 7*stride+9)
		other := block
		idct(got, stride, &block, int(last))
		idctPlain(want, stride, &other, int(last))
		if !bytes.Equal(got, want) {
			t.Errorf("%v to %d: got %v, want %v", block, last, got, want)
		}
	})
}

// FuzzStretch compares stretch with its plain form, and that with what it is by definition.
func FuzzStretch(f *testing.F) {
	for n := range uint16(70) {
		f.Add(uint64(n), n)
	}
	f.Fuzz(func(t *testing.T, seed uint64, n uint16) {
		random := rand.New(rand.NewPCG(seed, 1))
		near, far := make([]byte, 1+n%600), make([]byte, 1+n%600)
		for i := range near {
			near[i], far[i] = byte(random.Uint32())|byte(seed), byte(random.Uint32())|byte(seed>>8)
		}
		even, odd := int16(8), int16(7)
		if seed%2 == 0 {
			far, even, odd = near, 4, 8
		}
		want := make([]byte, 2*len(near)+1)
		mixed := func(x int) int { x = max(0, min(x, len(near)-1)); return 3*int(near[x]) + int(far[x]) }
		for x := range near {
			want[2*x] = byte((3*mixed(x) + mixed(x-1) + int(even)) >> 4)
			want[2*x+1] = byte((3*mixed(x) + mixed(x+1) + int(odd)) >> 4)
		}
		for _, loop := range []func(dst, near, far []byte, even, odd int16){stretch, stretchPlain} {
			got := make([]byte, len(want))
			if loop(got, near, far, even, odd); !bytes.Equal(got, want) {
				t.Errorf("of %v and %v: got %v, want %v", near, far, got, want)
			}
		}
	})
}

// TestColours converts all chrominances in some luminances, and rows of all lengths, as plain Go does.
func TestColours(t *testing.T) {
	compare := func(luma, blues, reds []byte) {
		got, want := make([]byte, pixel*len(luma)+1), make([]byte, pixel*len(luma)+1)
		fromYCC(got, luma, blues, reds)
		fromYCCPlain(want, luma, blues, reds)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d pixels %v, %v, %v: got %v, want %v", len(luma), luma, blues, reds, got, want)
		}
	}
	luma, blues, reds := make([]byte, 1<<16), make([]byte, 1<<16), make([]byte, 1<<16)
	for i := range luma {
		blues[i], reds[i] = byte(i), byte(i>>8)
	}
	for l := 0; l < 256; l += 15 {
		for i := range luma {
			luma[i] = byte(l)
		}
		compare(luma, blues, reds)
	}
	for n := range 70 {
		compare(reds[1000:][:n], blues[77:][:n], luma[:n])
	}
}

// TestPlainDecodesTheSame decodes parts of pictures of other programs with the loops of plain Go.
func TestPlainDecodesTheSame(t *testing.T) {
	d := &Decoder{}
	for i, data := range append(libraryPhotos(t), encoded(t, 201, 99)) {
		for _, part := range []image.Rectangle{{}, image.Rect(3, 5, 60, 40), image.Rect(30, 20, 31, 22)} {
			got, _, err := decode(d, data, part, false)
			if err != nil {
				t.Fatal(err)
			}
			plainly(func() {
				if want, _, err := decode(d, data, part, false); err != nil || !bytes.Equal(got, want) {
					t.Errorf("photo %d, %v: other pixels than with plain Go, or %v", i, part, err)
				}
			})
		}
	}
}
