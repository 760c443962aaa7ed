package images

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func testPicture(width, height int) image.Image {
	random := rand.New(rand.NewPCG(3, 4))
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			noise := random.IntN(24)
			picture.SetNRGBA(x, y, color.NRGBA{
				uint8(x*200/width + noise), uint8(y*200/height + noise),
				uint8((x/16+y/16)%2*90 + noise), 255,
			})
		}
	}
	return picture
}

func testJPEG(tb testing.TB, width, height int) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, testPicture(width, height), &jpeg.Options{Quality: 85}); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func testPNG(tb testing.TB, width, height int) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, testPicture(width, height)); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func standard() *RandomCrop {
	return &RandomCrop{
		Scale: [2]float64{0.08, 1}, Ratio: [2]float64{0.75, 4. / 3},
		LogRatio: [2]float64{math.Log(0.75), math.Log(4. / 3)},
	}
}

// TestCanvas makes one picture in each order of values, mirrored and not: the same values in other places.
func TestCanvas(t *testing.T) {
	const h, w = 5, 7
	s, data := &Studio{}, testPNG(t, w, h)
	make3 := func(r Recipe, choice Choice, planar bool) (out [3][h][w]float32) {
		r.Format, r.Height, r.Width = PNG, h, w
		values := make([]float32, 3*h*w)
		to := Canvas{Planar: planar, Floats: values}
		if r.Normal == nil {
			to = Canvas{Planar: planar, Bytes: make([]byte, 3*h*w)}
		}
		if err := s.Make(&r, data, choice, Room{Most: 1 << 20}, to); err != nil {
			t.Fatal(err)
		}
		for i, b := range to.Bytes {
			values[i] = float32(b)
		}
		for c := range 3 {
			for y := range h {
				for x := range w {
					at := (y*w+x)*3 + c
					if planar {
						at = c*h*w + y*w + x
					}
					out[c][y][x] = values[at]
				}
			}
		}
		return out
	}
	want := make3(Recipe{}, Choice{}, false)
	if got := make3(Recipe{}, Choice{}, true); got != want {
		t.Error("channel by channel is another picture")
	}
	mirrored := want
	for c := range 3 {
		for y := range h {
			slices.Reverse(mirrored[c][y][:])
		}
	}
	if got := make3(Recipe{}, Choice{Mirror: true}, true); got != mirrored || got == want {
		t.Error("mirrored is another picture")
	}
	mean, std := []float32{0.1, 0.2, 0.3}, []float32{0.5, 0.25, 2}
	normal := want
	for c := range 3 {
		for y := range h {
			for x := range w {
				normal[c][y][x] = float32(want[c][y][x]/255-mean[c]) / std[c]
			}
		}
	}
	for _, planar := range []bool{false, true} {
		if got := make3(Recipe{Normal: Normal(mean, std)}, Choice{}, planar); got != normal {
			t.Errorf("normalized (planar %v) is another picture", planar)
		}
	}
}

// TestBox draws parts of pictures: all lie inside, and their areas and ratios are as asked for.
// oriented is a JPEG that has an orientation in its EXIF.
func oriented(data []byte, orientation byte) []byte {
	exif := "Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00" +
		string(orientation) + "\x00\x00\x00\x00\x00\x00"
	head := append(slices.Clone(data[:2]), 0xff, 0xe1, 0, byte(2+len(exif)))
	return append(append(head, exif...), data[2:]...)
}

// A picture's size is known before it is made, whatever the recipe does to it.
func TestSize(t *testing.T) {
	s := &Studio{}
	for _, c := range []struct {
		recipe      Recipe
		size, lying [2]int // of a picture of 60 x 80, and where its EXIF has it lie on a side
	}{
		{Recipe{}, [2]int{60, 80}, [2]int{60, 80}},
		{Recipe{Upright: true}, [2]int{60, 80}, [2]int{80, 60}},
		{Recipe{Height: 30, Width: 20, Upright: true}, [2]int{30, 20}, [2]int{30, 20}},
		{Recipe{Shorter: 30, Gray: true, Upright: true}, [2]int{30, 40}, [2]int{40, 30}},
		{Recipe{Shorter: 30, Middles: [][2]int{{20, 25}, {10, 5}}}, [2]int{10, 5}, [2]int{10, 5}},
		{Recipe{Crop: standard(), Height: 8, Width: 9}, [2]int{8, 9}, [2]int{8, 9}},
	} {
		c.recipe.Format = Any
		for orientation := range 9 {
			data, want := testJPEG(t, 80, 60), c.size
			if orientation > 0 {
				data = oriented(data, byte(orientation))
			}
			if orientation > 4 {
				want = c.lying
			}
			height, width, err := s.Size(&c.recipe, data)
			if err != nil || want != [2]int{height, width} {
				t.Errorf("%+v, orientation %d: %d x %d, %v; want %v", c.recipe, orientation, height, width, err, want)
			}
			n := height * width * c.recipe.Channels()
			canvas := bytes.Repeat([]byte{77}, n+100)
			err = s.Make(&c.recipe, data, Choice{Crop: 3}, Room{Most: 1 << 20}, Canvas{Bytes: canvas})
			if err != nil || bytes.Count(canvas[n:], []byte{77}) != 100 || bytes.Count(canvas[:n], []byte{77}) > n/2 {
				t.Errorf("%+v, orientation %d: it has not %d bytes: %v", c.recipe, orientation, n, err)
			}
		}
	}
	small := &Recipe{Format: Any, Middles: [][2]int{{61, 80}}}
	if _, _, err := s.Size(small, testJPEG(t, 80, 60)); err == nil || !strings.Contains(err.Error(), "smaller than") {
		t.Errorf("a part that is larger: %v", err)
	}
	if _, _, err := s.Size(&Recipe{Format: JPEG}, []byte("no picture")); err == nil {
		t.Error("there is a size of no picture")
	}
}

func TestBox(t *testing.T) {
	crop := standard()
	random := rand.New(rand.NewPCG(5, 6))
	var areas, ratios float64
	const n = 20000
	for range n {
		box := crop.box(400, 300, random.Uint64())
		if box.Empty() || !box.In(image.Rect(0, 0, 400, 300)) {
			t.Fatal(box)
		}
		areas += float64(box.Dx()*box.Dy()) / 120000
		ratios += math.Log(float64(box.Dx()) / float64(box.Dy()))
	}
	// Large areas fit less often, above all upright ones. A Python program after torchvision's, run 60,000 times, has
	// 0.433 and 0.030.
	if mean := areas / n; math.Abs(mean-0.433) > 0.01 {
		t.Errorf("mean area %v", mean)
	}
	if mean := ratios / n; math.Abs(mean-0.03) > 0.006 {
		t.Errorf("mean logarithm of ratios %v", mean)
	}
	for _, c := range []struct{ width, height, w, h int }{{1000, 10, 13, 10}, {10, 1000, 10, 13}, {1, 1, 1, 1}} {
		whole := &RandomCrop{Scale: [2]float64{1, 1}, Ratio: crop.Ratio, LogRatio: crop.LogRatio}
		if box := whole.box(c.width, c.height, 1); box.Dx() != c.w || box.Dy() != c.h {
			t.Errorf("of %d x %d the part in the middle is %v, want %d x %d", c.width, c.height, box, c.w, c.h)
		}
	}
}

// TestSameEverywhere compares parts and weights, which are computed with floats, with those written down: run it with
// GOAMD64=v1 and v3, and on arm64.
func TestSameEverywhere(t *testing.T) {
	h := fnv.New64a()
	crop := standard()
	crop.LogRatio = [2]float64{-0.2876820724517809, 0.28768207245178085}
	random := rand.New(rand.NewPCG(7, 8))
	var a axis
	for range 2000 {
		width, height := 1+random.IntN(3000), 1+random.IntN(3000)
		box := crop.box(width, height, random.Uint64())
		a.set(box.Dx(), 224, 0, 224)
		fmt.Fprintln(h, box, a.first, a.count)
		for i, count := range a.count {
			fmt.Fprintln(h, a.weights[i*a.taps:][:count])
		}
	}
	if got := h.Sum64(); got != 0x17cc8f1fcbf446c8 {
		t.Errorf("hash %#x", got)
	}
}

func TestExp(t *testing.T) {
	for x := -30.0; x < 30; x += 0.0137 {
		if got, want := exp(x), math.Exp(x); math.Abs(got-want) > want*0x1p-50 {
			t.Fatalf("e^%v is %v, want %v", x, got, want)
		}
	}
}

// TestMemory refuses pictures by their headers.
func TestMemory(t *testing.T) {
	s := &Studio{}
	huge := []byte("\xff\xd8\xff\xc2\x00\x11\x08\xff\xff\xff\xff\x03\x01\x22\x00\x02\x11\x00\x03\x11\x00")
	bomb := testPNG(t, 1, 1)
	// 65,535 x 65,535 by its header, whose checksum is no more right
	copy(bomb[16:], "\x00\x00\xff\xff\x00\x00\xff\xff")
	for _, data := range [][]byte{huge, testJPEG(t, 300, 300), testPNG(t, 300, 300)} {
		err := s.Make(&Recipe{Format: Any, Height: 8, Width: 8}, data, Choice{}, Room{Most: 50000},
			Canvas{Bytes: make([]byte, 192)})
		if !errors.Is(err, ErrMemory) || s.Scratch() > 1<<16 {
			t.Errorf("got %v, want %v; it holds %d bytes", err, ErrMemory, s.Scratch())
		}
	}
	if err := s.Make(&Recipe{Format: PNG, Height: 8, Width: 8}, bomb, Choice{}, Room{Most: 1 << 40},
		Canvas{Bytes: make([]byte, 192)}); err == nil {
		t.Error("a damaged header is none")
	}
}

// TestErrorsNameTheFormat: what is wrong with bytes is said of what they were taken for.
func TestErrorsNameTheFormat(t *testing.T) {
	whole := testPNG(t, 30, 20)
	for _, c := range []struct {
		format Format
		data   []byte
		want   string
	}{
		{Any, []byte("GIF89a"), "it is neither a JPEG nor a PNG: it begins with 47494638"},
		{JPEG, []byte("GIF89a"), "it is no JPEG"},
		{PNG, []byte("GIF89a, and more"), "png: invalid format: not a PNG file"},
		{Any, whole[:20], "png: it ends in the middle"},
		{Any, whole[:len(whole)/2], "png: "},
		{Any, nil, "it has no bytes"},
	} {
		err := (&Studio{}).Make(&Recipe{Format: c.format, Height: 8, Width: 8}, c.data, Choice{}, Room{Most: 1 << 24},
			Canvas{Bytes: make([]byte, 192)})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%x: %v, want %s", c.data[:min(len(c.data), 8)], err, c.want)
		}
	}
}

// headerPNG begins a PNG of one byte a pixel that has the size by a header that is whole.
func headerPNG(width, height uint32, interlaced byte) []byte {
	chunk := func(b []byte, body string) []byte {
		b = binary.BigEndian.AppendUint32(b, uint32(len(body)-4))
		return binary.BigEndian.AppendUint32(append(b, body...), crc32.ChecksumIEEE([]byte(body)))
	}
	size := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, width), height)
	b := chunk([]byte("\x89PNG\r\n\x1a\n"), "IHDR"+string(size)+"\x08\x00\x00\x00"+string(interlaced))
	return chunk(b, "IDAT\x78\x9c")
}

// TestSidesOfPNG refuses pictures whose bytes no int64 counts, and lines too long to make weights for.
func TestSidesOfPNG(t *testing.T) {
	for _, size := range [][2]uint32{{1 << 30, 1<<30 - 1}, {1<<31 - 1, 1}, {1, 1<<31 - 1}} {
		s := &Studio{}
		err := s.Make(&Recipe{Format: PNG, Height: 8, Width: 8}, headerPNG(size[0], size[1], 0), Choice{},
			Room{Most: 1 << 20}, Canvas{Bytes: make([]byte, 192)})
		if err == nil || errors.Is(err, ErrMemory) || cap(s.across.weights)+cap(s.down.weights) > 1000 {
			t.Errorf("%d x %d pixels: got %v, want what no memory helps; it made %d weights",
				size[0], size[1], err, cap(s.across.weights)+cap(s.down.weights))
		}
	}
}

// TestMemoryOfInterlacedPNG: the last pass takes half as much again.
func TestMemoryOfInterlacedPNG(t *testing.T) {
	const side = 1000
	r, to := &Recipe{Format: PNG, Height: 8, Width: 8}, Canvas{Bytes: make([]byte, 192)}
	var asked [2]int64
	for interlaced := range asked {
		room := Room{Most: 1 << 30, Take: func(bytes int64) error {
			asked[interlaced] = bytes
			return ErrMemory
		}}
		if err := (&Studio{}).Make(r, headerPNG(side, side, byte(interlaced)), Choice{}, room, to); !errors.Is(err,
			ErrMemory) {
			t.Fatal(err)
		}
	}
	if more := asked[1] - asked[0]; more != side*side/2+1 {
		t.Errorf("%d and %d bytes: %d more", asked[0], asked[1], more)
	}
}

// TestMemoryOfKindsOfPNG: what is counted is what the decoded picture has, and the rows that it is read through.
func TestMemoryOfKindsOfPNG(t *testing.T) {
	const width, height = 60, 50
	all := image.Rect(0, 0, width, height)
	palette := image.NewPaletted(all, color.Palette{color.White, color.Black})
	for each, pictures := range map[int64][]image.Image{
		1: {image.NewGray(all), palette}, 2: {image.NewGray16(all)}, 4: {
			image.NewNRGBA(all),
			testPicture(width, height),
		},
		8: {image.NewNRGBA64(all), image.NewRGBA64(all)},
	} {
		for _, picture := range pictures {
			var b bytes.Buffer
			if err := png.Encode(&b, picture); err != nil {
				t.Fatal(err)
			}
			var p pngRows
			if _, _, err := p.open(b.Bytes()); err != nil || p.memory != each*width*height+16*width {
				t.Errorf("%T: %d bytes, %v; want %d a pixel", picture, p.memory, err, each)
			}
		}
	}
}

// TestMemoryOfTransparentGray counts colours for a gray PNG with tRNS, also behind a chunk whose bytes look like the
// pixels'.
func TestMemoryOfTransparentGray(t *testing.T) {
	data := slices.Concat(headerPNG(60, 50, 0)[:33], []byte("\x00\x00\x00\x04teXtIDAT"), make([]byte, 4),
		[]byte("\x00\x00\x00\x02tRNS\x00\x00"))
	if got := memoryOfPNG(data, image.Config{
		ColorModel: color.GrayModel, Width: 60,
		Height: 50,
	}); got != 4*60*50+16*60 {
		t.Errorf("%d bytes", got)
	}
}

// TestMemoryOfPicturesBefore: what the decoder holds of a JPEG is no memory for a PNG, and is given up where both are
// too much.
func TestMemoryOfPicturesBefore(t *testing.T) {
	s, to := &Studio{}, Canvas{Bytes: make([]byte, 192)}
	r := &Recipe{Format: Any, Height: 8, Width: 8}
	if err := s.Make(r, testJPEG(t, 800, 600), Choice{}, Room{Most: 1 << 24}, to); err != nil {
		t.Fatal(err)
	}
	held := s.decoder.Scratch()
	if held < 800*600 {
		t.Fatalf("it holds %d bytes", held)
	}
	var asked int64
	take := func(bytes int64) error { asked = bytes; return nil }
	picture := testPNG(t, 300, 300)
	if err := s.Make(r, picture, Choice{}, Room{Most: 1 << 24, Take: take}, to); err != nil || asked < 4*300*300 ||
		s.decoder.Scratch() != held {
		t.Errorf("%v; it asked for %d bytes, and holds %d", err, asked, s.decoder.Scratch())
	}
	if err := s.Make(r, picture, Choice{}, Room{Most: 4*300*300 + held/2, Take: take}, to); err != nil ||
		s.decoder.Scratch() != 0 {
		t.Errorf("%v; it holds %d bytes beside a PNG that needs them", err, s.decoder.Scratch())
	}
	if err := s.Make(r, testJPEG(t, 200, 200), Choice{}, Room{Most: 1 << 24, Take: take}, to); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// TestStudioKeepsNoPicture: what Scratch does not count is not held between pictures.
func TestStudioKeepsNoPicture(t *testing.T) {
	s := &Studio{}
	if err := s.Make(&Recipe{Format: PNG, Height: 8, Width: 8}, testPNG(t, 30, 30), Choice{}, Room{Most: 1 << 20},
		Canvas{Bytes: make([]byte, 192)}); err != nil {
		t.Fatal(err)
	}
	if s.png.picture != nil {
		t.Error("it holds the decoded PNG")
	}
}

// TestMemoryOfResult counts rows of the resized picture, which may be longer than those in the file.
func TestMemoryOfResult(t *testing.T) {
	to := Canvas{Bytes: make([]byte, 3*1000*1000)}
	for _, data := range [][]byte{testJPEG(t, 8, 8), testPNG(t, 8, 8)} {
		if err := (&Studio{}).Make(&Recipe{Format: Any, Height: 1000, Width: 1000}, data, Choice{}, Room{Most: 1 << 14},
			to); !errors.Is(err, ErrMemory) {
			t.Errorf("got %v, want %v", err, ErrMemory)
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	s, data := &Studio{}, testJPEG(t, 200, 150)
	r := &Recipe{
		Format: JPEG, Crop: standard(), Height: 64, Width: 64,
		Normal: Normal([]float32{0, 0, 0}, []float32{1, 1, 1}),
	}
	to := Canvas{Floats: make([]float32, 3*64*64), Planar: true}
	if err := s.Make(&Recipe{Format: JPEG, Height: 64, Width: 64}, data, Choice{}, Room{Most: 1 << 24},
		Canvas{Bytes: make([]byte, 3*64*64)}); err != nil {
		t.Fatal(err)
	}
	seed := uint64(0)
	n := testing.AllocsPerRun(50, func() {
		seed++
		if err := s.Make(r, data, Choice{Crop: seed}, Room{Most: 1 << 24}, to); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0.2 { // weights for a larger part than before
		t.Errorf("%v allocations for a picture", n)
	}
}

// FuzzMake: no panic, whatever the bytes.
func FuzzMake(f *testing.F) {
	f.Add(testJPEG(f, 20, 13), uint64(1))
	f.Add(testPNG(f, 9, 14), uint64(2))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		r := &Recipe{Format: Any, Upright: seed%2 == 0, Crop: standard(), Height: 8, Width: 9, Gray: seed%3 == 0}
		to := Canvas{Bytes: make([]byte, 8*9*r.Channels()), Planar: seed%5 == 0}
		_ = (&Studio{}).Make(r, data, Choice{Crop: seed}, Room{Most: 1 << 22}, to)
	})
}

// BenchmarkMake is what training does with a photo: a random part, decoded, resized, mirrored and normalized. Beside
// it, what Go's library takes to decode it alone.
func BenchmarkMake(b *testing.B) {
	data := testJPEG(b, 500, 375)
	b.Run("224", func(b *testing.B) {
		s := &Studio{}
		r := &Recipe{
			Format: JPEG, Crop: standard(), Height: 224, Width: 224,
			Normal: Normal([]float32{0, 0, 0}, []float32{1, 1, 1}),
		}
		to := Canvas{Floats: make([]float32, 3*224*224), Planar: true}
		b.ReportAllocs()
		for i := uint64(0); b.Loop(); i++ {
			if err := s.Make(r, data, Choice{Crop: number(1, i), Mirror: i%2 == 0}, Room{Most: 1 << 30},
				to); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
	})
	b.Run("image-jpeg-decode-only", func(b *testing.B) {
		for b.Loop() {
			if _, err := jpeg.Decode(bytes.NewReader(data)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
	})
}
