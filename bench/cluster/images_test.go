package cluster_test

import (
	"bytes"
	stdimage "image"
	"image/color"
	"image/jpeg"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
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

// TestImages reads JPEGs as float32 tensors, channel by channel: what each row becomes depends on the row and the epoch, not on the
// order of reading; and without random ops, it is what package images makes of its bytes.
func TestImages(t *testing.T) {
	const rows, size = 50, 16
	path := filepath.Join(t.TempDir(), "photos.parquet")
	written := photos(t, rows)
	if err := parquet.WriteFile(path, written, parquet.MaxRowsPerRowGroup(20)); err != nil {
		t.Fatal(err)
	}
	read := func(t *testing.T, transforms, options string) map[int64][]float32 {
		s, err := spec.Parse([]byte(`{dataset: {uri: ` + path + `}, features: [{image: photo, shape: [3, 16, 16]}], provenance: true, seed: 3,
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
				t.Fatalf("%d rows are %d floats and %d bytes of shape %v", b.Rows, len(im.Floats), len(im.Data), im.Shape)
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
		recipe := &images.Recipe{Format: images.JPEG, Height: size, Width: size, Normal: images.Normal([]float32{0.5, 0.25, 0}, []float32{0.5, 0.25, 1})}
		studio, want := &images.Studio{}, make([]float32, 3*size*size)
		for row, got := range read(t, "{op: resize, in: photo, size: [16, 16]}", "batch_size: 9") {
			if err := studio.Make(recipe, written[row].Photo, images.Choice{}, 1<<30, images.Canvas{Floats: want, Planar: true}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("row %d is another picture than its own", row)
			}
		}
	})
}
