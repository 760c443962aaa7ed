package parquet

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// FuzzJoin compares the ways to join planes; values on both sides of those that are joined stay as they are.
func FuzzJoin(f *testing.F) {
	f.Add(uint64(1), uint8(4), uint8(50), uint8(3))
	f.Add(uint64(2), uint8(8), uint8(33), uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, width, n, from uint8) {
		w, stride := int(width)%16+1, int(n)+int(from)
		planes := make([]byte, w*stride)
		r := rand.New(rand.NewPCG(seed, 1))
		for i := range planes {
			planes[i] = byte(r.Uint32())
		}
		size := int(n) * w
		want, got := bytes.Repeat([]byte{7}, size+w), bytes.Repeat([]byte{7}, size+w)
		joinSlow(want[:size], planes[from:], stride, w)
		joinPlanes(got[:size], planes[from:], stride, w)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d values of %d bytes: %x, want %x", n, w, got, want)
		}
		for i := range size {
			if want[i] != planes[i%w*stride+i/w+int(from)] {
				t.Fatalf("byte %d is %x", i, want[i])
			}
		}
	})
}

func TestJoin(t *testing.T) {
	for width := 1; width <= 12; width++ {
		for n := range 70 {
			planes, want := make([]byte, width*n), make([]byte, width*n)
			for i := range want {
				want[i] = byte(i * 31)
				planes[i%width*n+i/width] = want[i]
			}
			got := make([]byte, width*n)
			joinPlanes(got, planes, n, width)
			if !bytes.Equal(got, want) {
				t.Fatalf("%d values of %d bytes: %x, want %x", n, width, got, want)
			}
		}
	}
}

// TestSplitValuesThatAreNotThere asks a page without bytes for values as wide as a footer may say: no memory is made
// for them.
func TestSplitValuesThatAreNotThere(t *testing.T) {
	s := stream{width: 1 << 26}
	if err := s.begin(nil, encodingStreamSplit, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := s.next(4096); !errors.Is(err, errValues) || s.scratch != nil {
		t.Errorf("%v, with memory of %d bytes; want %v", err, cap(s.scratch), errValues)
	}
}
