package storage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// TestShardsThatAreMissing: a folder of MDS whose index.json names a shard that is not there, or has another size, is
// refused. A glob and a file stand for themselves.
func TestShardsThatAreMissing(t *testing.T) {
	const index = `{"version": 2, "shards": [
		{"format": "mds", "raw_data": {"basename": "a.mds", "bytes": 3}, "zip_data": null},
		{"format": "mds", "raw_data": {"basename": "sub/b.mds", "bytes": 9},
			"zip_data": {"basename": "sub/b.mds.zstd", "bytes": 4}},
		{"format": "csv", "raw_data": {"basename": "c.csv", "bytes": 9}}]}`
	for name, tc := range map[string]struct {
		index, uri  string
		a, zip, raw string
		want        string // "": the shards are read
	}{
		"all are there":        {index: index, a: "123", zip: "1234"},
		"unpacked":             {index: index, a: "123", raw: "123456789"},
		"one is missing":       {index: index, a: "123", want: "sub/b.mds.zstd, which it names, is missing"},
		"one is cut off":       {index: index, a: "12", zip: "1234", want: "shard a.mds has 2 bytes, and 3"},
		"of a glob":            {index: index, a: "12", uri: "*.mds"},
		"of a file":            {index: index, a: "12", uri: "a.mds"},
		"the index is cut":     {index: index[:99], a: "123", want: "write it again"},
		"another index":        {index: `{"files": ["x"]}`, a: "123"},
		"it names others":      {index: strings.ReplaceAll(index, "sub", ".."), a: "123", want: "not below its folder"},
		"one that has no .mds": {index: "no index", raw: "1", uri: "sub"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, data := range map[string]string{
				"index.json": tc.index, "a.mds": tc.a, "sub/b.mds.zstd": tc.zip, "sub/b.mds": tc.raw,
			} {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if data == "" {
					continue
				}
				if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			st, err := storage.New(storage.Config{})
			if err != nil {
				t.Fatal(err)
			}
			files, left, err := st.Tell(t.Context(), &pb.Dataset{Uri: []string{filepath.Join(dir, tc.uri)}})
			switch {
			case tc.want == "" && (err != nil || len(files) == 0 || len(left.Words()) > 0):
				t.Errorf("%v, left out %q: %v", files, left.Words(), err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// FuzzShardIndex: whatever an index.json says, the listing ends.
func FuzzShardIndex(f *testing.F) {
	f.Add([]byte(`{"shards": [{"format": "mds", "raw_data": {"basename": "a.mds", "bytes": 3}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{"index.json": data, "a.mds": []byte("123")} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		st, err := storage.New(storage.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if files, _, err := st.Tell(t.Context(), &pb.Dataset{Uri: []string{dir}}); err == nil && len(files) != 1 {
			t.Errorf("%d files", len(files))
		}
	})
}
