package arrow_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// TestFilesOfPyarrow: files that Arrow's own library writes have the rows of their twins in Parquet, with types,
// dictionaries and versions that Go's writer does not write, and beside columns that cannot be read.
func TestFilesOfPyarrow(t *testing.T) {
	if err := exec.Command("python3", "-c", "import pyarrow").Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs python3 with pyarrow: %v", err)
		}
		t.Skipf("needs python3 with pyarrow: %v", err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("python3", "testdata/twins.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("testdata/twins.py: %v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.arrow"))
	if err != nil || len(files) < 30 {
		t.Fatalf("it wrote %d files: %v", len(files), err)
	}
	for _, path := range files {
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		t.Run(filepath.Base(path), func(t *testing.T) {
			formattest.Equal(t, path, read(t, filepath.Join(dir, name+".parquet")), read(t, path))
		})
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
