package images

import (
	"bytes"
	"image"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/internal/simd"
)

// kinds runs f with the loops of each level that this CPU has.
func kinds(f func(name string)) { simd.Each(&simdLevel, f, simd.VNNI, simd.AVX2) }

// FuzzResample compares loops with their plain forms, for rows and columns of any lengths, and sees that they write
// what they may.
func FuzzResample(f *testing.F) {
	for _, n := range []uint16{0, 1, 3, 7, 8, 30, 223, 500} {
		f.Add(n, uint16(31), uint64(n))
		f.Add(n, 3*n, uint64(n))
	}
	f.Fuzz(func(t *testing.T, in, out uint16, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		from, to := int(in)%2000+1, int(out)%300+1
		begin := random.IntN(to)
		var a axis
		a.set(from, to, begin, begin+1+random.IntN(to-begin))
		first, last := a.span()
		a.placed(first, seed%2 == 1)
		row := make([]byte, pixelBytes*(last-first+a.most))
		for i := range row {
			row[i] = byte(random.Uint32()) | byte(seed) // many of 255 with some seeds
		}
		n := 3 * len(a.first)
		want := make([]byte, n+slack)
		a.acrossColoursPlain(want, row, 0)
		kinds(func(name string) {
			got := make([]byte, n+slack+1)
			got[n+slack] = 77
			a.acrossColours(got[:n+slack], row)
			if !bytes.Equal(got[:n], want[:n]) || got[n+slack] != 77 {
				t.Errorf("%s: %d pixels to %d: got %v, want %v", name, from, to, got, want[:n])
			}
		})
		rows := make([]byte, 0, rowsAtOnce*len(row))
		for k := range rowsAtOnce {
			rows = append(append(rows, row[k%len(row):]...), row[:k%len(row)]...)
		}
		kinds(func(name string) {
			got := make([]byte, rowsAtOnce*n+slack+1)
			got[rowsAtOnce*n+slack] = 77
			a.acrossRows(got[:rowsAtOnce*n+slack], rows)
			for k := range rowsAtOnce {
				a.acrossColoursPlain(want, rows[k*len(row):], 0)
				if !bytes.Equal(got[k*n:][:n], want[:n]) || got[rowsAtOnce*n+slack] != 77 {
					t.Errorf("%s: row %d of %d pixels to %d: got %v, want %v", name, k, from, to, got[k*n:][:n],
						want[:n])
				}
			}
		})
		width := min(1+random.IntN(200), len(row)/a.end)
		for i := range a.first {
			want := make([]byte, width)
			a.downPlain(want, row, i, 0)
			kinds(func(name string) {
				got := make([]byte, width)
				a.down(got, row, i)
				if !bytes.Equal(got, want) {
					t.Errorf("%s: %d rows of %d bytes to %d, the %dth: got %v, want %v",
						name, from, width, to, i, got, want)
				}
			})
		}
	})
}

// TestCanvasOfTurned makes turned pictures with each kind of SIMD, in each order of values, mirrored and not, in bytes
// and in floats: the same values in other places.
func TestCanvasOfTurned(t *testing.T) {
	data := testJPEG(t, 301, 203)
	tables := Normal([]float32{0.1, 0.5, 0.9}, []float32{1, 2, 3})
	for orientation := 1; orientation <= 8; orientation++ {
		for _, r := range []Recipe{
			{Format: JPEG, Height: 64, Width: 97},
			{Format: JPEG, Shorter: 130, Middles: [][2]int{{101, 99}}, Gray: true},
			{Format: JPEG, Shorter: 250, Middles: [][2]int{{190, 201}}},
		} {
			var want Canvas
			kinds(func(name string) {
				got, size := turned(t, data, r, orientation, Choice{}, false)
				if want.Bytes == nil {
					want = got
				}
				if !bytes.Equal(got.Bytes, want.Bytes) {
					t.Errorf("%s: orientation %d is another picture", name, orientation)
				}
				for i := range 8 {
					choice, planar, r := Choice{Mirror: i&1 > 0}, i&2 > 0, r
					if i&4 > 0 {
						r.Normal = tables
					}
					got, _ := turned(t, data, r, orientation, choice, planar)
					if !slices.Equal(got.Floats, elsewhere(want.Bytes, r, size, choice, planar)) {
						t.Errorf("%s: orientation %d, mirrored %v, planar %v, floats %v is another picture",
							name, orientation, choice.Mirror, planar, r.Normal != nil)
					}
				}
			})
		}
	}
}

// turned makes a picture as if its EXIF had an orientation; Floats are Bytes where it has none.
func turned(
	t *testing.T, data []byte, r Recipe, orientation int, choice Choice, planar bool,
) (to Canvas, size image.Point) {
	t.Helper()
	s := &Studio{}
	width, height, _, err := s.open(&r, data)
	if err != nil {
		t.Fatal(err)
	}
	v := r.view(width, height, turnOf(orientation), choice)
	if size = v.window.Size(); v.turn.swap {
		size.X, size.Y = size.Y, size.X
	}
	n := size.X * size.Y * r.Channels()
	to = Canvas{Bytes: make([]byte, n), Floats: make([]float32, n), Planar: planar}
	if err := s.show(&r, data, image.Pt(width, height), v, Room{Most: 1 << 30}, to); err != nil {
		t.Fatal(err)
	}
	if r.Normal == nil {
		for i, b := range to.Bytes {
			to.Floats[i] = float32(b)
		}
	}
	return to, size
}

// elsewhere puts a picture's bytes, pixel by pixel, where they belong.
func elsewhere(pixels []byte, r Recipe, size image.Point, choice Choice, planar bool) []float32 {
	channels := r.Channels()
	out := make([]float32, len(pixels))
	for i, b := range pixels {
		x, y, c := i/channels%size.X, i/channels/size.X, i%channels
		if choice.Mirror {
			x = size.X - 1 - x
		}
		at := (y*size.X+x)*channels + c
		if planar {
			at = (c*size.Y+y)*size.X + x
		}
		if out[at] = float32(b); r.Normal != nil {
			out[at] = r.Normal[c][b]
		}
	}
	return out
}
