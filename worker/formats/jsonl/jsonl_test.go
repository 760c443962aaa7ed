package jsonl_test

import (
	"path/filepath"
	"testing"

	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

const others = "../../../internal/formats/filetest/others/jsonl"

// TestFilesOfOthers holds files that others wrote against the same tables in Parquet.
func TestFilesOfOthers(t *testing.T) {
	paths, err := filepath.Glob(others + "/*.parquet")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			file := formattest.ReadFile(t, path[:len(path)-len(".parquet")], nil)
			if filepath.Base(file.Name) == "uint64.jsonl" {
				return // which TestErrors and TestColumns have
			}
			formattest.Twin(t, file, formattest.ReadFile(t, path, nil).Data)
		})
	}
}
