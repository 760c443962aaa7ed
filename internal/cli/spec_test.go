package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadSpecMakesPathsAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	text := "dataset: {uri: [data/, 'x/*.parquet', /abs/y, 's3://bucket/z/', 'file:///w/', delta+t@v1]}\n"
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
	want := []string{
		filepath.Join(here, "data") + "/", filepath.Join(here, "x/*.parquet"), "/abs/y", "s3://bucket/z/",
		"file:///w/", "delta+" + filepath.Join(here, "t") + "@v1",
	}
	if got := s.GetDataset().GetUri(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Data in place of a spec is told from a spec with a mistake.
func TestReadSpecOfData(t *testing.T) {
	t.Chdir(t.TempDir())
	for path, text := range map[string]string{
		"a.tsv": "1\t2\n3\t4\n", "a.csv": "a,b\n1,2\n", "a.jsonl": "{\"a\": 1}\n{\"a\": 2}\n", "a.parquet": "PAR1\xff",
		"a.yaml": "dataset: [",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, data := range map[string]bool{
		".": true, "s3://bucket/table/": true, "a.tsv": true, "a.csv": true, "a.jsonl": true, "a.parquet": true,
		"a.yaml": false, "none.yaml": false,
	} {
		_, err := ReadSpec(path)
		if err == nil || !strings.Contains(err.Error(), path) ||
			strings.Contains(err.Error(), "`penstock show "+path+"`") != data {
			t.Errorf("%s: %v", path, err)
		}
	}
}
