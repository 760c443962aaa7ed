package tar_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

const others = "../../../internal/formats/filetest/others/webdataset"

// TestOthers reads what WebDataset, Python and GNU tar wrote.
func TestOthers(t *testing.T) {
	files, err := filepath.Glob(others + "/*.parquet")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no files of others", err)
	}
	for _, twin := range files {
		file := strings.TrimSuffix(twin, ".parquet")
		t.Run(filepath.Base(file), func(t *testing.T) {
			formattest.Twin(t, formattest.File{Name: filepath.Base(file), Data: read(t, file)}, read(t, twin))
		})
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
