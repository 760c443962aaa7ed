package dataset

import (
	"bytes"
	"image"
	"image/jpeg"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"
)

const (
	// photographsAtOnce bounds the memory of their bytes, which a chunk's writer is handed this many at a time.
	photographsAtOnce = 64
	quality           = 87
	// Side in pixels of the coarsest and the finest squares whose corners are drawn at random.
	coarsest, finest = 128, 2
)

func (w *fileWriter) writePhotographs(chunk *file.ByteArrayColumnChunkWriter, c Column, col, first, rows int) error {
	for row := first; row < first+rows; {
		w.texts = w.texts[:0]
		for ; row < first+rows && len(w.texts) < photographsAtOnce; row++ {
			encoded, err := photograph(cell(row, col), c.Width, c.Height)
			if err != nil {
				return err
			}
			w.texts = append(w.texts, encoded)
		}
		if _, err := chunk.WriteBatch(w.texts, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// photograph encodes an image whose spectrum falls as that of photographs does: squares of all sizes, the smaller the
// fainter, with smooth transitions. So a decoder meets about as many coefficients as in a real one.
func photograph(seed uint64, width, height int) (parquet.ByteArray, error) {
	img := image.NewYCbCr(image.Rect(0, 0, width, height), image.YCbCrSubsampleRatio420)
	paint(img.Y, img.YStride, height, seed, finest)
	paint(img.Cb, img.CStride, len(img.Cb)/img.CStride, mix(seed+1), coarsest/4)
	paint(img.Cr, img.CStride, len(img.Cr)/img.CStride, mix(seed+2), coarsest/4)
	var out bytes.Buffer
	err := jpeg.Encode(&out, img, &jpeg.Options{Quality: quality})
	return out.Bytes(), err
}

// paint fills a plane with noise of all sizes from coarsest down to finest, in integers, which are the same everywhere.
func paint(plane []byte, stride, height int, seed uint64, finest int) {
	sums := make([]int32, len(plane))
	for size := coarsest; size >= finest; size /= 2 {
		seed = mix(seed + golden)
		amplitude := int32(size) + 4 // of 1/f noise, with some grain
		for y := range height {
			for x := range stride {
				sums[y*stride+x] += smooth(seed, x, y, size) * amplitude
			}
		}
	}
	const total = 2*coarsest + 4*8
	for i, s := range sums {
		plane[i] = uint8(min(max(128+s/total, 0), 255))
	}
}

// smooth is the noise of one size at a place: between -256 and 256, bilinear between the corners of its square.
func smooth(seed uint64, x, y, size int) int32 {
	corner := func(i, j int) int32 { return int32(mix(seed+uint64(i)<<32+uint64(j))>>55) - 256 }
	i, j := x/size, y/size
	u, v, n := int32(x%size), int32(y%size), int32(size)
	top := corner(i, j)*(n-u) + corner(i+1, j)*u
	bottom := corner(i, j+1)*(n-u) + corner(i+1, j+1)*u
	return (top*(n-v) + bottom*v) / (n * n)
}
