package tar_test

import (
	"path/filepath"
	"testing"

	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// FuzzFile reads tars of any bytes: all of one is decoded, or refused.
func FuzzFile(f *testing.F) {
	files, err := filepath.Glob(others + "/*.tar*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if filepath.Ext(file) != ".parquet" {
			f.Add(read(f, file))
		}
	}
	f.Add(archive(f, "a.json", `{"x": [1, null], "y": {"z": "t"}}`, "a.npy", npy("<f4", "False", "(1,)", []float32{1})))
	f.Fuzz(func(t *testing.T, data []byte) { _ = formattest.Read(t.Context(), data) })
}

// FuzzArray reads arrays of any bytes.
func FuzzArray(f *testing.F) {
	f.Add(npy("<f4", "False", "(1, 2)", []float32{1, 2}))
	f.Add(npy("|O", "True", "()", []float32{1}))
	f.Fuzz(func(t *testing.T, data string) {
		_, _ = column(t, archive(t, "a.npy", data), map[string]string{"npy": "list<float32>"}, "npy", nil)
	})
}
