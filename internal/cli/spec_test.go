package cli

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestReadSpecMakesPathsAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	text := "dataset: {uri: [data/, 'x/*.parquet', /abs/y, 's3://bucket/z/', 'file:///w/']}\n"
	if err := os.WriteFile("spec.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ReadSpec("spec.yaml")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(here, "data") + "/", filepath.Join(here, "x/*.parquet"), "/abs/y", "s3://bucket/z/", "file:///w/"}
	if got := s.GetDataset().GetUri(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
