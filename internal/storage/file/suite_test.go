package file_test

import (
	"os"
	"path/filepath"
	"testing"

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
