package jsonl_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

const others = "../../../internal/formats/filetest/others/jsonl"

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestFilesOfOthers holds files that others wrote against the same tables in Parquet.
func TestFilesOfOthers(t *testing.T) {
	paths, err := filepath.Glob(others + "/*.parquet")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			name := strings.TrimSuffix(path, ".parquet")
			if filepath.Base(name) == "uint64.jsonl" {
				return // what is beyond int64 is refused, as TestColumns and TestErrors have it
			}
			formattest.Twin(t, formattest.File{Name: name, Data: read(t, name)}, read(t, path))
		})
	}
}
