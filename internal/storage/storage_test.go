package storage_test

import (
	"os"
	"path/filepath"
	"strings"
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

// TestCredentialsInAURI: they are refused, and not repeated where logs would keep them.
func TestCredentialsInAURI(t *testing.T) {
	st := newStore(t)
	for _, uri := range []string{"s3://AKIA7:hunter2@bucket/data/", "s3://hunter2@bucket/*.parquet", "https://me:hunter2@host/data"} {
		_, err := st.List(t.Context(), "", []string{uri})
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "storage profile") {
			t.Errorf("%s: %v", uri, err)
		}
	}
}
