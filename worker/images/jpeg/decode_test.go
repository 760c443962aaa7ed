package jpeg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	stdjpeg "image/jpeg"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// encoded is a photo-like picture as Go's library encodes it: baseline, 4:2:0.
func encoded(tb testing.TB, width, height int) []byte {
	tb.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			noise := random.IntN(24)
			picture.SetRGBA(x, y, color.RGBA{
				uint8(x*200/width + noise), uint8(y*200/height + noise),
				uint8((x/16+y/16)%2*90 + noise), 255,
			})
		}
	}
	var b bytes.Buffer
	if err := stdjpeg.Encode(&b, picture, &stdjpeg.Options{Quality: 85}); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// TestDamage cuts a file off anywhere: what is decoded whole is not told from the whole file, anything else is an
// error.
func TestDamage(t *testing.T) {
	d := &Decoder{}
	whole := encoded(t, 50, 40)
	for n := range len(whole) - 2 { // an end marker may be missing
		if _, _, err := decode(d, whole[:n], image.Rectangle{}, false); err == nil {
			t.Errorf("no error with %d of %d bytes", n, len(whole))
		}
	}
	if _, _, err := decode(d, whole[:len(whole)-2], image.Rectangle{}, false); err != nil {
		t.Errorf("without its end marker: %v", err)
	}
	for _, c := range []struct {
		want string
		data []byte
	}{
		{"does not begin with ff d8", []byte("\x89PNG\r\n")},
		{"does not begin with ff d8", nil},
		{"no frame header", []byte("\xff\xd8\xff\xd9")},
		{"SOF9", []byte("\xff\xd8\xff\xc9\x00\x0b\x08\x00\x01\x00\x01\x01\x01\x11\x00")},
		{"0 x 1 pixels", []byte("\xff\xd8\xff\xc0\x00\x0b\x08\x00\x01\x00\x00\x01\x01\x11\x00")},
		{"12 bits", []byte("\xff\xd8\xff\xc1\x00\x0b\x0c\x00\x01\x00\x01\x01\x01\x11\x00")},
		{"2 components", []byte("\xff\xd8\xff\xc0\x00\x0e\x08\x00\x01\x00\x01\x02\x01\x11\x00\x02\x11\x00")},
	} {
		if _, err := d.Open(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%x: got %v, want %s", c.data, err, c.want)
		}
	}
}

// TestScansAgainAndAgain: as many as a coefficient has bits may come to it, and no more.
func TestScansAgainAndAgain(t *testing.T) {
	data := []byte("\xff\xd8\xff\xdb\x00\x43\x00" + strings.Repeat("\x01", 64) + // a block of gray
		"\xff\xc2\x00\x0b\x08\x00\x08\x00\x08\x01\x01\x11\x00" +
		"\xff\xc4\x00\x14\x00\x01" + strings.Repeat("\x00", 16) + "\xff\xc4\x00\x14\x10\x01" +
		strings.Repeat("\x00", 16) +
		"\xff\xda\x00\x08\x01\x01\x00\x00\x00\x00\x7f\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x01\x7f")
	for range 14 - 1 {
		data = append(data, "\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x10\x7f"...)
	}
	if got := decoded(t, append(bytes.Clone(data), 0xff, 0xd9)); got[0] != 128 {
		t.Errorf("the first sample is %d", got[0])
	}
	data = append(data, "\xff\xda\x00\x08\x01\x01\x00\x01\x3f\x10\x7f\xff\xd9"...)
	if _, _, err := decode(&Decoder{}, data, image.Rectangle{}, false); err == nil ||
		!strings.Contains(err.Error(), "again and again") {
		t.Errorf("got %v", err)
	}
}

// TestHeaderAlone opens a header that promises 4 billion pixels: nothing is allocated by it.
func TestHeaderAlone(t *testing.T) {
	d := &Decoder{}
	h, err := d.Open([]byte("\xff\xd8\xff\xc2\x00\x11\x08\xff\xff\xff\xff\x03\x01\x22\x00\x02\x11\x00\x03\x11\x00"))
	if err != nil || h.Width != 65535 || !h.Progressive {
		t.Fatal(h, err)
	}
	if n := d.Memory(image.Rect(0, 0, 65535, 65535)); n < 6<<30 || d.Scratch() > 1<<20 {
		t.Errorf("needs %d bytes, holds %d", n, d.Scratch())
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	d, data := &Decoder{}, encoded(t, 120, 90)
	row := make([]byte, pixel*120)
	n := testing.AllocsPerRun(10, func() {
		if _, err := d.Open(data); err != nil {
			t.Fatal(err)
		}
		if err := d.Decode(image.Rect(10, 10, 110, 80)); err != nil {
			t.Fatal(err)
		}
		d.Row(row, 11, false)
	})
	if n > 0 {
		t.Errorf("%v allocations for a picture", n)
	}
}

// decoded is a whole picture as RGB.
func decoded(t *testing.T, data []byte) []byte {
	t.Helper()
	d := &Decoder{}
	h, err := d.Open(data)
	if err == nil {
		err = d.Decode(image.Rect(0, 0, h.Width, h.Height))
	}
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, pixel*h.Width*h.Height)
	for y := range h.Height {
		d.Row(out[pixel*h.Width*y:], y, false)
	}
	return out
}

// TestStandardTables decodes a frame of motion JPEG, which has no Huffman tables: Go's encoder uses the standard ones.
func TestStandardTables(t *testing.T) {
	whole := encoded(t, 70, 50)
	from := bytes.Index(whole, []byte("\xff\xc4"))
	to := from + 2 + int(binary.BigEndian.Uint16(whole[from+2:]))
	if got := decoded(t, slices.Concat(whole[:from], whole[to:])); !bytes.Equal(got, decoded(t, whole)) {
		t.Error("without its tables it is another picture")
	}
}

// TestComponentsOfOneID are told apart by their order, as libjpeg does.
func TestComponentsOfOneID(t *testing.T) {
	whole := encoded(t, 70, 50)
	same := bytes.Clone(whole)
	frame, scan := bytes.Index(same, []byte("\xff\xc0")), bytes.Index(same, []byte("\xff\xda"))
	for i := range 3 {
		same[frame+10+3*i], same[scan+5+2*i] = 1, 1
	}
	if !bytes.Equal(decoded(t, same), decoded(t, whole)) {
		t.Error("it is another picture")
	}
}

// TestRestarts: what stands between restart markers belongs where their numbers say, or the picture is damaged.
func TestRestarts(t *testing.T) {
	var header []byte
	intervals := make([][]byte, 12) // each of one block, as one alone is encoded
	for i := range intervals {
		block := image.NewGray(image.Rect(0, 0, 8, 8))
		for j := range block.Pix {
			block.Pix[j] = uint8(20*i + j)
		}
		var b bytes.Buffer
		if err := stdjpeg.Encode(&b, block, nil); err != nil {
			t.Fatal(err)
		}
		data := bytes.Index(b.Bytes(), []byte("\xff\xda")) + 10
		header, intervals[i] = b.Bytes()[:data], b.Bytes()[data:b.Len()-2]
	}
	frame, scan := bytes.Index(header, []byte("\xff\xc0")), len(header)-10
	header[frame+6] = byte(8 * len(intervals)) // their height
	picture := func(numbers ...int) []byte {
		out := slices.Concat(header[:scan], []byte("\xff\xdd\x00\x04\x00\x01"), header[scan:])
		for _, n := range numbers {
			out = append(append(out, intervals[n]...), 0xff, markRST0|byte(n&7))
		}
		return append(out[:len(out)-2], 0xff, markEOI)
	}
	d := &Decoder{}
	whole := image.Rectangle{}
	middle := image.Rect(0, 32, 8, 64)
	if _, _, err := decode(d, picture(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), whole, false); err != nil {
		t.Fatal(err)
	}
	for name, numbers := range map[string][]int{
		"one is lost":             {0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11},
		"two are swapped":         {0, 2, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11},
		"one comes twice":         {0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		"seven are left out":      {0, 8, 9, 10, 11},
		"one is lost, at the end": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11},
	} {
		if _, _, err := decode(d, picture(numbers...), whole, false); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, _, err := decode(d, picture(numbers...), middle, false); (err == nil) != strings.HasSuffix(name,
			"at the end") {
			t.Errorf("%s: a part that ends before the end: %v", name, err)
		}
	}
}

// TestOrientation reads EXIF's: the first segment counts, and numbers of 16 and of 32 bits.
func TestOrientation(t *testing.T) {
	exif := func(typ, value string) string {
		return "\xff\xe1\x00\x22Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12" + typ + "\x00\x00\x00\x01" +
			value + "\x00\x00\x00\x00"
	}
	short, long := "\x00\x03", "\x00\x04"
	plain := encoded(t, 8, 8)
	for _, c := range []struct {
		segments string
		want     int
	}{
		{"", 1},
		{exif(short, "\x00\x06\x00\x00"), 6},
		{exif(long, "\x00\x00\x00\x03"), 3},
		{exif(short, "\x00\x06\x00\x00") + exif(short, "\x00\x03\x00\x00"), 6},
		{"\xff\xe1\x00\x06http" + exif(short, "\x00\x08\x00\x00"), 8},
		{exif(short, "\x00\x09\x00\x00"), 1},
		{exif("\x00\x05", "\x00\x06\x00\x00"), 1},
	} {
		h, err := (&Decoder{}).Open(slices.Concat(plain[:2], []byte(c.segments), plain[2:]))
		if err != nil || h.Orientation != c.want {
			t.Errorf("%x: %d, %v; want %d", c.segments, h.Orientation, err, c.want)
		}
	}
}

// FuzzDecode: no panic, and no memory beyond what Memory said; a part is that of the whole, and what Go's library
// decodes too has its size.
func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, 30, 20), uint16(3), uint16(5))
	f.Add([]byte("\xff\xd8\xff\xc2\x00\x11\x08\x00\x10\x00\x10\x03\x01\x22\x00\x02\x11\x00\x03\x11\x00\xff\xd9"),
		uint16(0), uint16(0))
	for _, data := range libraryPhotos(f) {
		f.Add(data, uint16(7), uint16(90))
	}
	f.Fuzz(func(t *testing.T, data []byte, x, y uint16) {
		d := &Decoder{}
		h, err := d.Open(data)
		if err != nil {
			return
		}
		region := image.Rect(int(x)%h.Width, int(y)%h.Height, h.Width, h.Height)
		memory := d.Memory(region)
		if memory > 1<<24 {
			return
		}
		err = d.Decode(region)
		if held := d.Scratch(); held > memory {
			t.Fatalf("holds %d bytes, Memory said %d", held, memory)
		}
		if err != nil {
			return
		}
		row := make([]byte, pixel*region.Dx())
		for y := region.Min.Y; y < region.Max.Y; y++ {
			d.Row(row, y, y%2 == 1)
		}
		if config, err := stdjpeg.DecodeConfig(bytes.NewReader(data)); err == nil &&
			(config.Width != h.Width || config.Height != h.Height) {
			t.Fatalf("%d x %d, Go has %d x %d", h.Width, h.Height, config.Width, config.Height)
		}
		if d.Memory(image.Rect(0, 0, h.Width, h.Height)) > 1<<18 {
			return
		}
		if pixels, whole, err := decode(d, data, image.Rectangle{}, false); err == nil {
			part, _, err := decode(d, data, region, false)
			if err != nil || !bytes.Equal(part, cut(pixels, whole, region)) {
				t.Fatalf("%v of %v: other pixels than those of the whole, or %v", region, whole, err)
			}
		}
	})
}

// BenchmarkDecode decodes a photo to RGB, whole and in part, beside Go's library, which stops at YCbCr.
func BenchmarkDecode(b *testing.B) {
	const width, height = 500, 375
	data := encoded(b, width, height)
	perPixel := func(b *testing.B, pixels int) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(pixels), "ns/pixel")
	}
	d, row := &Decoder{}, make([]byte, pixel*width)
	run := func(region image.Rectangle) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := d.Open(data)
				if err := errors.Join(err, d.Decode(region)); err != nil {
					b.Fatal(err)
				}
				for y := region.Min.Y; y < region.Max.Y; y++ {
					d.Row(row, y, false)
				}
			}
			perPixel(b, width*height)
		}
	}
	b.Run("whole", run(image.Rect(0, 0, width, height)))
	b.Run("quarter", run(image.Rect(100, 80, 350, 267)))
	b.Run("image-jpeg", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := stdjpeg.Decode(bytes.NewReader(data)); err != nil {
				b.Fatal(err)
			}
		}
		perPixel(b, width*height)
	})
}
