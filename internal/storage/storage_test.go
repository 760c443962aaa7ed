package storage_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStore(t *testing.T) *storage.Store {
	t.Helper()
	s, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestFile(t *testing.T) {
	storagetest.Run(t, func(t *testing.T) storagetest.Fixture {
		dir := t.TempDir()
		return storagetest.Fixture{
			Storage: newStore(t),
			Base:    "file://" + dir,
			Put:     func(t *testing.T, name string, content []byte) { put(t, dir, name, content) },
			Remove: func(t *testing.T, name string) {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func put(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
