package cluster_test

import (
	"bytes"
	"fmt"
	stdimage "image"
	"image/color"
	"image/jpeg"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/parquet-go/parquet-go"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/master/dashboard/dashboardtest"
	"github.com/penstock-ml/penstock/worker/images"
)

// photo is a row of a dataset of JPEGs.
type photo struct {
	Photo []byte `parquet:"photo"`
}

func photos(t *testing.T, n int) []photo {
	t.Helper()
	rows := make([]photo, n)
	for i := range rows {
		picture := stdimage.NewRGBA(stdimage.Rect(0, 0, 30+i, 70-i))
		for y := range 70 - i {
			for x := range 30 + i {
				picture.SetRGBA(x, y, color.RGBA{uint8(5 * x), uint8(3 * y), uint8(x * y * i), 255})
			}
		}
		var b bytes.Buffer
		if err := jpeg.Encode(&b, picture, nil); err != nil {
			t.Fatal(err)
		}
		rows[i].Photo = b.Bytes()
	}
	return rows
}

// TestImages reads JPEGs as float32 tensors, channel by channel: what each row becomes depends on the row and the
// epoch, not on the order of reading; and without random ops, it is what package images makes of its bytes.
func TestImages(t *testing.T) {
	t.Parallel()
	const rows, size = 50, 16
	path := filepath.Join(t.TempDir(), "photos.parquet")
	written := photos(t, rows)
	if err := parquet.WriteFile(path, written, parquet.MaxRowsPerRowGroup(20)); err != nil {
		t.Fatal(err)
	}
	read := func(t *testing.T, transforms, options string) map[int64][]float32 {
		s, err := spec.Parse([]byte(`{dataset: {uri: ` + path + `}, features: [{image: photo, shape: [3, 16, 16]}], provenance: true, seed: 3, epochs: 1,
			transforms: [{op: decode_jpeg, in: photo}, ` + transforms + `,
				{op: normalize, in: photo, mean: [0.5, 0.25, 0], std: [0.5, 0.25, 1]}], ` + options + `}`))
		if err != nil {
			t.Fatal(err)
		}
		c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
		job := open(t, c, s, nil)
		defer closeJob(t, job)
		seen := map[int64][]float32{}
		for b := next(t, job); b != nil; b = next(t, job) {
			im := b.Images[0]
			if im.Shape != [3]int{3, size, size} || im.Data != nil || len(im.Floats) != b.Rows*3*size*size {
				t.Fatalf("%d rows are %d floats and %d bytes of shape %v", b.Rows, len(im.Floats), len(im.Data),
					im.Shape)
			}
			for i, row := range b.RowIDs {
				seen[row] = slices.Clone(im.Floats[i*3*size*size:][:3*size*size])
			}
			b.Release()
		}
		if len(seen) != rows {
			t.Fatalf("%d rows, want %d", len(seen), rows)
		}
		return seen
	}
	t.Run("random", func(t *testing.T) {
		const augment = "{op: random_resized_crop, in: photo, size: 16}, {op: flip, in: photo}"
		inOrder := read(t, augment, "batch_size: 7")
		shuffled := read(t, augment, "batch_size: 16, shuffle: true")
		for row, want := range inOrder {
			if !slices.Equal(shuffled[row], want) {
				t.Errorf("row %d is another picture when rows are shuffled", row)
			}
		}
	})
	t.Run("exact", func(t *testing.T) {
		recipe := &images.Recipe{
			Format: images.JPEG, Height: size, Width: size,
			Normal: images.Normal([]float32{0.5, 0.25, 0}, []float32{0.5, 0.25, 1}),
		}
		studio, want := &images.Studio{}, make([]float32, 3*size*size)
		for row, got := range read(t, "{op: resize, in: photo, size: [16, 16]}", "batch_size: 9") {
			if err := studio.Make(recipe, written[row].Photo, images.Choice{}, images.Room{Most: 1 << 30},
				images.Canvas{Floats: want, Planar: true}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("row %d is another picture than its own", row)
			}
		}
	})
}

// TestDamagedImages: a picture that is cut off or overwritten fails a session, which names file, row, op, cause and
// what to do; or, if the spec lets row groups be skipped, its row and those of the row group after it are left out,
// and named.
func TestDamagedImages(t *testing.T) {
	t.Parallel()
	const rows, group, bad = 50, 20, 25
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	for name, damage := range map[string]struct {
		cause string
		of    func(jpeg []byte) []byte
	}{
		"cut": {"it ends in the middle", func(jpeg []byte) []byte { return jpeg[:len(jpeg)/2] }},
		"overwritten": {"its data are damaged", func(jpeg []byte) []byte {
			scan := jpeg[len(jpeg)/2:]
			for i := range scan {
				scan[i] = 0xfe // no code of Go's tables
			}
			return jpeg
		}},
		"none": {"it is no JPEG", func([]byte) []byte { return []byte("GIF89a") }},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "photos.parquet")
			written := photos(t, rows)
			written[bad].Photo = damage.of(written[bad].Photo)
			if err := parquet.WriteFile(path, written, parquet.MaxRowsPerRowGroup(group)); err != nil {
				t.Fatal(err)
			}
			s, err := spec.Parse([]byte(`{dataset: {uri: ` + path + `}, features: [{image: photo, shape: [16, 16, 3]}], provenance: true,
				transforms: [{op: decode_jpeg, in: photo}, {op: resize, in: photo, size: 16}, {op: center_crop, in: photo, size: 16}], batch_size: 7, epochs: 1}`))
			if err != nil {
				t.Fatal(err)
			}
			words := []string{path, fmt.Sprintf("row %d", bad), "photo", "decode_jpeg", damage.cause}
			openJob(t, c, s, func(cfg *client.Config) { cfg.Session = name + "-fail" }).fails(t,
				append(words, "{skip: 1}")...)

			s.OnError = &pb.OnError{Skip: 1}
			j := openJob(t, c, s, func(cfg *client.Config) { cfg.Session = name + "-skip" })
			defer closeJob(t, j.Session)
			seen := map[int64]int{}
			for b := next(t, j.Session); b != nil; b = next(t, j.Session) {
				for _, row := range b.RowIDs {
					seen[row]++
				}
				b.Release()
			}
			for row := range int64(rows) {
				lost, may := row >= bad && row < 2*group, row >= group && row < 2*group
				if n := seen[row]; n > 1 || n == 1 && lost || n == 0 && !may {
					t.Errorf("row %d came %d times", row, n)
				}
			}
			told := j.told()
			if len(told) != 1 {
				t.Fatalf("told of %+v", told)
			}
			for _, w := range words {
				if text := told[0].File + " " + told[0].Cause; !strings.Contains(text, w) {
					t.Errorf("told of %q; want %q", text, w)
				}
			}
		})
	}
}

// TestBadRowsAreSkipped: of pictures that are damaged only these are left out, while a worker dies; trainers, the master
// and `penstock session show` count and name them, and one more than on_error allows fails the session.
func TestBadRowsAreSkipped(t *testing.T) {
	t.Parallel()
	const rows, epochs = 60, 2
	c := startCluster(t, cluster.Config{
		Binary: binary, Dir: t.TempDir(), MasterFlags: []string{"--http=127.0.0.1:0"},
	}, 3)
	path := filepath.Join(t.TempDir(), "photos.parquet")
	written := photos(t, rows)
	bad := []int64{0, 7, 8, 9, 31, 59}
	for _, row := range bad {
		written[row].Photo = written[row].Photo[:len(written[row].Photo)/2]
	}
	if err := parquet.WriteFile(path, written, parquet.MaxRowsPerRowGroup(20)); err != nil {
		t.Fatal(err)
	}
	s, err := spec.Parse([]byte(`{dataset: {uri: ` + path + `}, features: [{image: photo, shape: [16, 16, 3]}], provenance: true,
		transforms: [{op: decode_jpeg, in: photo}, {op: resize, in: photo, size: [16, 16]}], batch_size: 4, epochs: 2,
		shuffle: true, on_error: {skip_rows: 6}}`))
	if err != nil {
		t.Fatal(err)
	}
	j := openJob(t, c, s, nil)
	seen := map[int64]int{}
	for b := next(t, j.Session); b != nil; b = next(t, j.Session) {
		if len(seen) == 0 {
			if err := c.Workers()[0].Kill(); err != nil {
				t.Fatal(err)
			}
		}
		for _, row := range b.RowIDs {
			seen[row]++
		}
		b.Release()
	}
	for row := range int64(rows) {
		want := epochs
		if slices.Contains(bad, row) {
			want = 0
		}
		if seen[row] != want {
			t.Errorf("row %d came %d times, want %d", row, seen[row], want)
		}
	}
	if n := j.Stats().SkippedRows; n != int64(epochs*len(bad)) {
		t.Errorf("the trainer counts %d bad rows", n)
	}
	closeJob(t, j.Session)
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, _ := run(t, 0, nil, "session", "show", "job", "--master="+master, "--token-file="+c.TokenFile())
	for _, words := range []string{
		"6 left out of epoch 1; on_error allows 6", "6 left out of epoch 2",
		path + " row 31: tensor photo: decode_jpeg: it ends in the middle",
	} {
		if !strings.Contains(out, words) {
			t.Errorf("session show lacks %q:\n%s", words, out)
		}
	}
	out, _ = run(t, 0, nil, "session", "show", "job", "--master="+master, "--token-file="+c.TokenFile(), "--output=json")
	shown := &pb.Session{}
	if err := protojson.Unmarshal([]byte(out), shown); err != nil || len(shown.GetSkippedRows()) != epochs ||
		shown.GetSkippedRows()[1].GetRows() != 6 || len(shown.GetBadRows()) == 0 {
		t.Errorf("%v: %s", err, out)
	}
	up, err := c.MasterProcess().Announced(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx := page(t, dashboardtest.Browser(t, time.Minute), c, up.HTTP, "")
	eventually(t, "the dashboard shows what was left out", func() bool {
		var lines []string
		if err := chromedp.Run(ctx, chromedp.Evaluate(
			`[...document.querySelectorAll("#table-left tbody tr")].map(r => r.textContent)`, &lines)); err != nil {
			t.Fatal(err)
		}
		return len(lines) == epochs && strings.Contains(lines[0], "6 rows6") && strings.Contains(lines[0], path+" row ")
	})
	picture(t, ctx, "left-out")
	s.OnError.SkipRows = 5
	openJob(t, c, s, func(cfg *client.Config) { cfg.Session = "less" }).fails(t,
		"epoch 1 has 6 bad rows or more, and on_error lets 5 of an epoch be left out", path+" row ", "decode_jpeg")
}
