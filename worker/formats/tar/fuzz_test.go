package tar_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// FuzzFile reads tars of any bytes: all of one is decoded, or refused.
func FuzzFile(f *testing.F) {
	small := archive(f, "a.json", `{"x": [1, null], "y": {"z": "t"}}`, "a.cls", "1", "._b.txt", "2", "b.txt", "3")
	f.Add(small)
	f.Add(archive(f, strings.Repeat("long/", 60)+"a.npy", npy("<f4", "False", "(1,)", []float32{1})))
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(small); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) { _ = formattest.Read(t.Context(), data) })
}

// FuzzHeader reads tars whose first headers are any bytes, with sums that are right.
func FuzzHeader(f *testing.F) {
	pax := archive(f, strings.Repeat("long/", 60)+"a.txt", "1")
	f.Add(pax[:512], pax[512:1024], pax[1024:1536])
	f.Fuzz(func(t *testing.T, first, extended, second []byte) {
		data := make([]byte, 4096)
		for i, block := range [][]byte{first, extended, second} {
			copy(data[512*i:512*(i+1)], block)
		}
		sum(data)
		sum(data[1024:])
		_ = formattest.Read(t.Context(), data)
	})
}

// sum sets the sum of a header right.
func sum(header []byte) {
	copy(header[148:156], "        ")
	n := 0
	for _, b := range header[:512] {
		n += int(b)
	}
	for at := 153; at >= 148; at-- {
		header[at] = '0' + byte(n&7)
		n >>= 3
	}
	header[154] = 0
}

// FuzzArray reads arrays of any bytes.
func FuzzArray(f *testing.F) {
	f.Add(npy("<f4", "False", "(1, 2)", []float32{1, 2}))
	f.Add(npy("|O", "True", "()", []float32{1}))
	f.Fuzz(func(t *testing.T, data string) {
		_, _ = column(t, archive(t, "a.npy", data), map[string]string{"npy": "list<float32>"}, "npy", nil)
	})
}
