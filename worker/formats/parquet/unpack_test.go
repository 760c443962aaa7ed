package parquet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// unpackBits is unpack, bit by bit.
func unpackBits(dst []uint32, packed []byte, at, width int) (largest uint32) {
	for i := range dst {
		v := uint32(0)
		for k := range width {
			bit := (at+i)*width + k
			v |= uint32(packed[bit>>3]>>(bit&7)&1) << k
		}
		dst[i], largest = v, max(largest, v)
	}
	return largest
}

// checkUnpack compares the ways to unpack all that is in packed from number at on.
func checkUnpack(t *testing.T, packed []byte, at, width int) {
	t.Helper()
	n := len(packed)*8/width - at
	if n < 0 {
		return
	}
	packed = slices.Clip(packed)
	want := make([]uint32, n)
	largest := unpackBits(want, packed, at, width)
	for name, by := range map[string]func([]uint32, []byte, int, int) uint32{
		"unpack":     unpack,
		"unpackSlow": unpackSlow,
	} {
		got := make([]uint32, n+1)
		got[n] = 77
		if l := by(got[:n], packed, at, width); l != largest || !slices.Equal(got[:n], want) || got[n] != 77 {
			t.Fatalf("%s of %d numbers of %d bits from number %d on: largest %d, want %d\n%v\n%v",
				name, n, width, at, l, largest, got, want)
		}
	}
}

// eachPacked calls f for numbers of each width, from none to many of them, and with each place in a byte to begin at.
func eachPacked(r *rand.Rand, f func(packed []byte, at, width int)) {
	for width := 1; width <= 32; width++ {
		for _, size := range []int{0, 1, width, 31, 100, 40 * width} {
			packed := make([]byte, size)
			for i := range packed {
				packed[i] = byte(r.Uint32())
			}
			for at := range 10 {
				f(packed, at, width)
			}
		}
	}
}

func TestUnpack(t *testing.T) {
	eachPacked(rand.New(rand.NewPCG(6, 7)), func(packed []byte, at, width int) { checkUnpack(t, packed, at, width) })
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte("some bytes, of which there are more than in two of the groups"), uint8(3), uint8(7))
	f.Add([]byte("more bytes, so that the widest numbers are unpacked by the vector unit"), uint8(0), uint8(25))
	f.Fuzz(func(t *testing.T, packed []byte, at, width uint8) {
		checkUnpack(t, packed, int(at), int(width)%32+1)
	})
}

// FuzzGather compares the ways to look up indices with looking them up one by one.
func FuzzGather(f *testing.F) {
	f.Add([]byte("some bytes, of which there are more than in two of the groups"), uint8(3), uint8(5), uint16(1<<6))
	f.Fuzz(func(t *testing.T, packed []byte, at, width uint8, size uint16) {
		w := int(width)%16 + 1
		n := len(packed)*8/w - int(at)
		if n < 0 {
			return
		}
		dict := make([]uint64, size)
		for i := range dict {
			dict[i] = uint64(i) * 0x9E3779B97F4A7C15
		}
		r := runs{width: w, packed: true, bits: slices.Clip(packed), at: int(at), left: n}
		want, got := make([]uint64, n), make([]uint64, n)
		wantErr := gatherSlow(&r, dict, want, r.at)
		ways := map[string]func(*runs, []uint64, []uint64) error{
			"gatherPacked": gatherPacked[uint64, uint64],
			"gatherGroups": gatherGroups[uint64, uint64],
		}
		for name, gather := range ways {
			if err := gather(&r, dict, got); (err == nil) != (wantErr == nil) || err == nil &&
				!slices.Equal(got, want) {
				t.Fatalf("%s: %v and %v\n%v\n%v", name, err, wantErr, got, want)
			}
		}
		for i := range dict {
			dict[i] >>= 32
		}
		wantErr = gatherSlow(&r, dict, want, r.at)
		short := shorten(dict)
		if err := gatherPacked(&r, short, got); (err == nil) != (wantErr == nil) || err == nil &&
			!slices.Equal(got, want) {
			t.Fatalf("short: %v and %v\n%v\n%v", err, wantErr, got, want)
		}
	})
}

// BenchmarkGather looks up indices of dictionaries that fit the caches of the first level, the second and the third.
func BenchmarkGather(b *testing.B) {
	for _, width := range []int{4, 10, 16, 20} {
		const n = 1 << 15
		r := rand.New(rand.NewPCG(1, 2))
		packed := make([]byte, n*width/8)
		for i := range packed {
			packed[i] = byte(r.Uint32())
		}
		dict, out := make([]uint64, 1<<width), make([]uint64, n)
		for name, gather := range map[string]func(*runs, []uint64, []uint64) error{"packed": gatherPacked[uint64,
			uint64], "groups": gatherGroups[uint64, uint64]} {
			b.Run(fmt.Sprintf("bits=%d/%s", width, name), func(b *testing.B) {
				for b.Loop() {
					r := runs{width: width, packed: true, bits: packed, left: n}
					if err := gather(&r, dict, out); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
			})
		}
	}
}
