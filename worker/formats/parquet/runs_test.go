package parquet

import (
	"encoding/binary"
	"slices"
	"testing"
)

// runsSimply decodes runs value by value, up to n, as the format's description has it.
func runsSimply(src []byte, width, n int) (out []uint32) {
	for len(out) < n {
		h, k := binary.Uvarint(src)
		if k <= 0 {
			return out
		}
		src = src[k:]
		size := (width + 7) / 8
		if h&1 == 0 {
			if len(src) < size {
				return out
			}
			v := uint32(0)
			for i := range size {
				v |= uint32(src[i]) << (8 * i)
			}
			if width < 32 && v>>width != 0 {
				return out
			}
			for i := uint64(0); i < h>>1 && len(out) < n; i++ {
				out = append(out, v)
			}
			src = src[size:]
			continue
		}
		bits := 0
		for i := uint64(0); i < (h>>1)*8 && bits+width <= len(src)*8 && len(out) < n; i++ {
			v := uint32(0)
			for k := range width {
				v |= uint32(src[(bits+k)>>3]>>((bits+k)&7)&1) << k
			}
			out, bits = append(out, v), bits+width
		}
		src = src[min(int(min(h>>1, 1<<20))*width, len(src)):]
	}
	return out
}

// FuzzRuns compares with decoding value by value: the same values, and an error where these end.
func FuzzRuns(f *testing.F) {
	f.Add([]byte{3, 0xaa, 8, 1, 0}, uint8(1), uint8(3))
	f.Add([]byte{5, 1, 2, 3, 4, 5, 6, 0x90, 1, 7}, uint8(3), uint8(40))
	f.Fuzz(func(t *testing.T, src []byte, width, piece uint8) {
		w, n := int(width)%33, 1000
		want := runsSimply(src, w, n)
		var r runs
		r.begin(src, w)
		got := make([]uint32, n)
		for at := 0; at < n; {
			m := min(int(piece)+1, n-at)
			if at+m > len(want) {
				if m = len(want) - at; m == 0 {
					break
				}
			}
			if err := r.unpack(got[at:at+m], 1<<32); err != nil {
				t.Fatalf("value %d of %d: %v", at, len(want), err)
			}
			at += m
		}
		if !slices.Equal(got[:len(want)], want) {
			t.Fatalf("%v, want %v", got[:len(want)], want)
		}
		if len(want) < n {
			if err := r.unpack(got[:1], 1<<32); err == nil {
				t.Fatalf("%d values and one more", len(want))
			}
		}
	})
}

// FuzzLevels compares the planes of levels with decoding value by value, block after block.
func FuzzLevels(f *testing.F) {
	f.Add([]byte{3, 0xaa, 8, 1, 0x11, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0x80, 2, 0}, uint8(1), uint16(20))
	f.Add([]byte{5, 0xaa, 1, 2, 3, 8, 1, 0x90, 1, 2}, uint8(3), uint16(100))
	f.Add([]byte{5, 0xaa, 1, 2, 3, 3, 8, 1, 0x90, 1, 2}, uint8(5), uint16(64))
	// Runs in turns: of one value and the other, of 64 levels and more together, one of a wrong value.
	turns := []byte{
		16, 1, 3, 0xa5, 110, 1, 5, 0x1d, 0xc6, 30, 0, 7, 1, 2, 0x83, 8, 1, 1, 10, 1, 15, 9, 8, 7, 6,
		5, 4, 3, 0x80, 0x80, 4, 1,
	}
	f.Add(turns, uint8(1), uint16(4095))
	f.Add(turns, uint8(1), uint16(6))
	f.Add(append([]byte{16, 1, 3, 0xa5, 20, 3}, turns...), uint8(1), uint16(100))
	f.Fuzz(func(t *testing.T, src []byte, highest uint8, piece uint16) {
		const most = 3 * blockSize
		var l levels
		l.init(max(1, int(highest)))
		l.runs.begin(src, l.width)
		want := runsSimply(src, l.width, most)
		for at := 0; at < most; {
			m := min(1+int(piece)%blockSize, most-at)
			wrong := at+m > len(want) || slices.Max(want[at:at+m]) > uint32(l.max)
			if err := l.decode(m); (err != nil) != wrong {
				t.Fatalf("levels %d to %d of %d: %v", at, at+m, len(want), err)
			}
			if wrong {
				return
			}
			for i, v := range want[at : at+m] {
				got := uint32(0)
				for j := range l.planes {
					got |= uint32(l.planes[j][i>>6]>>(i&63)&1) << j
				}
				if got != v {
					t.Fatalf("level %d is %d, want %d", at+i, got, v)
				}
			}
			at += m
		}
	})
}
