package jpeg

import (
	"bytes"
	"fmt"
	"image"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// photos lets testdata/write.py write JPEGs, decode them and those of Go's own tests, and returns their folder.
func photos(t testing.TB) string {
	t.Helper()
	if err := exec.Command("python3", "-c", "import PIL").Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs python3 with Pillow: %v", err)
		}
		t.Skipf("needs python3 with Pillow: %v", err)
	}
	dir := t.TempDir()
	args := []string{"testdata/write.py", dir, libraryFolder(t)}
	if more := os.Getenv("PENSTOCK_PHOTOS"); more != "" {
		args = append(args, more)
	}
	if out, err := exec.Command("python3", args...).CombinedOutput(); err != nil {
		t.Fatalf("testdata/write.py: %v\n%s", err, out)
	}
	return dir
}

// libraryFolder has the pictures that Go's own library is tested with.
func libraryFolder(tb testing.TB) string {
	tb.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "src", "image", "testdata")
}

func libraryPhotos(tb testing.TB) (photos [][]byte) {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(libraryFolder(tb), "*.jpeg"))
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no photos in Go's library: %v", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		photos = append(photos, data)
	}
	return photos
}

// decode returns the pixels of a region, of the whole picture if that is empty.
func decode(d *Decoder, data []byte, region image.Rectangle, gray bool) ([]byte, image.Rectangle, error) {
	h, err := d.Open(data)
	if err != nil {
		return nil, region, err
	}
	if region.Empty() {
		region = image.Rect(0, 0, h.Width, h.Height)
	}
	if err := d.Decode(region); err != nil {
		return nil, region, err
	}
	row := make([]byte, region.Dx()*pixel)
	var pixels []byte
	for y := region.Min.Y; y < region.Max.Y; y++ {
		d.Row(row, y, gray)
		if gray {
			pixels = append(pixels, row[:region.Dx()]...)
			continue
		}
		for p := row; len(p) > 0; p = p[pixel:] {
			pixels = append(pixels, p[:3]...)
		}
	}
	return pixels, region, nil
}

// TestPillow decodes what Pillow decodes, to the same bytes: the whole picture, and parts of it.
func TestPillow(t *testing.T) {
	dir := photos(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.rgb"))
	if err != nil || len(files) < 200 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	d := &Decoder{}
	for _, path := range files {
		base := strings.TrimSuffix(path, ".rgb")
		if strings.HasSuffix(base, "progressive.truncated") {
			continue // it lacks its last scans: libjpeg smooths its blocks
		}
		data, err := os.ReadFile(base + ".jpeg")
		if err != nil {
			t.Fatal(err)
		}
		for _, suffix := range []string{".rgb", ".gray"} {
			want, err := os.ReadFile(base + suffix)
			if os.IsNotExist(err) {
				continue
			}
			t.Run(filepath.Base(base)+suffix, func(t *testing.T) { compareParts(t, d, data, want, suffix == ".gray") })
		}
	}
}

func compareParts(t *testing.T, d *Decoder, data, want []byte, gray bool) {
	t.Helper()
	got, whole, err := decode(d, data, image.Rectangle{}, gray)
	if err != nil {
		t.Fatal(err)
	}
	if err := same(got, want, whole.Dx(), len(want)/(whole.Dx()*whole.Dy())); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(len(data)), 1))
	for range 8 {
		part := image.Rectangle{Min: image.Pt(random.IntN(whole.Dx()), random.IntN(whole.Dy()))}
		part.Max = part.Min.Add(image.Pt(1+random.IntN(whole.Dx()-part.Min.X), 1+random.IntN(whole.Dy()-part.Min.Y)))
		got, _, err := decode(d, data, part, gray)
		if err != nil {
			t.Fatal(err)
		}
		if err := same(got, cut(want, whole, part), part.Dx(), len(want)/(whole.Dx()*whole.Dy())); err != nil {
			t.Fatalf("%v of %v: %v", part, whole, err)
		}
	}
}

// cut is the pixels of a part of a picture.
func cut(pixels []byte, whole, part image.Rectangle) (out []byte) {
	channels := len(pixels) / (whole.Dx() * whole.Dy())
	for y := part.Min.Y; y < part.Max.Y; y++ {
		out = append(out, pixels[(y*whole.Dx()+part.Min.X)*channels:][:part.Dx()*channels]...)
	}
	return out
}

func same(got, want []byte, width, channels int) error {
	if bytes.Equal(got, want) {
		return nil
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d bytes, want %d", len(got), len(want))
	}
	n, most, first := 0, 0, -1
	for i := range got {
		if diff := int(got[i]) - int(want[i]); diff != 0 {
			if first < 0 {
				first = i
			}
			n++
			most = max(most, diff, -diff)
		}
	}
	pixel := first / channels
	return fmt.Errorf("%d of %d bytes differ, by up to %d; the first is channel %d of (%d, %d): %d, want %d",
		n, len(got), most, first%channels, pixel%width, pixel/width, got[first], want[first])
}
