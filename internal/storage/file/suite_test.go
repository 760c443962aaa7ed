package file_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

func TestFile(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storagetest.Fixture {
		store, err := storage.New(storage.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		dir := t.TempDir()
		return storagetest.Fixture{
			Storage: store,
			Base:    "file://" + dir,
			Put:     func(t *testing.T, name string, content []byte) { put(t, filepath.Join(dir, name), content) },
			Remove: func(t *testing.T, name string) {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDanglingLinks are told of, but for those that a URI does not stand for.
func TestDanglingLinks(t *testing.T) {
	store, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "day=1", "a.parquet"), []byte("bytes"))
	link := filepath.Join(dir, "day=1", "b.parquet")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]int{dir: 1, dir + "/day=*/": 1, dir + "/*/a.*": 0} {
		files, left, err := store.Tell(t.Context(), &pb.Dataset{Uri: []string{uri}})
		if err != nil || len(files) != 1 || left.Dangling.Count != want {
			t.Errorf("%s: %d files, %v, %v", uri, len(files), left, err)
		}
	}
}
