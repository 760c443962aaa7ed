package storage_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/storage"
)

// TestLinksLeadNowhere holds that what lies elsewhere is not read by a link, on the way or at the end.
func TestLinksLeadNowhere(t *testing.T) {
	base := t.TempDir()
	mine, others := filepath.Join(base, "mine"), filepath.Join(base, "others")
	for _, dir := range []string{mine, others, filepath.Join(mine, "in")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(mine, "in", "a.parquet"), filepath.Join(others, "secret.parquet")} {
		if err := os.WriteFile(f, []byte(f), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"dir": "../others", "abs": others,
		"file.parquet": "../others/secret.parquet", "inside": "in",
	} {
		if err := os.Symlink(to, filepath.Join(mine, link)); err != nil {
			t.Fatal(err)
		}
	}
	store, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	dataset := "file://" + mine + "/"
	for uri, ok := range map[string]bool{
		mine + "/in/": true, dataset + "in/*.parquet": true, mine + "/inside/": true, dataset +
			"in/a.parquet": true, dataset + "none/": true,
		mine + "/dir/": false, mine + "/dir/*.parquet": false, mine + "/abs/": false, dataset +
			"file.parquet": false, dataset + "dir/secret.parquet": false,
	} {
		if err := storage.Confined(dataset, uri); (err == nil) != ok || !ok && !errors.Is(err, storage.ErrOutside) {
			t.Errorf("%s: %v", uri, err)
		}
	}
	for uri, ok := range map[string]bool{
		"in/": true, "inside/": true, "i*/": true, "": false, "*/": false,
		"d*/": false, "**": false, "file*": false,
	} {
		files, err := store.List(t.Context(), "", []string{dataset + uri})
		if err != nil {
			t.Fatal(err)
		}
		if err := storage.ConfinedFiles(dataset, files); (err == nil) != ok ||
			!ok && !errors.Is(err, storage.ErrOutside) {
			t.Errorf("%s: %d files, %v", uri, len(files), err)
		}
	}
	// A link that is exchanged between the listing and the look at it.
	files, err := store.List(t.Context(), "", []string{dataset + "file.parquet"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(mine, "file.parquet")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("in/a.parquet", filepath.Join(mine, "file.parquet")); err != nil {
		t.Fatal(err)
	}
	if err := storage.ConfinedFiles(dataset, files); err == nil {
		t.Error("the file behind an exchanged link is taken for the one that was listed")
	}
	if err := storage.ConfinedFiles("s3://bucket/", files); err != nil {
		t.Errorf("elsewhere there are no links: %v", err)
	}
}

// TestFilesThatChangeAreNoLinks: a file that is written or removed while a dataset is listed, or cannot be looked at,
// is refused, and not for a link.
func TestFilesThatChangeAreNoLinks(t *testing.T) {
	dir, store := t.TempDir(), newStore(t)
	dataset := "file://" + dir + "/"
	put(t, dir, "a.parquet", []byte("rows"))
	files, err := store.List(t.Context(), "", []string{dataset})
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "a.parquet", []byte("more rows"))
	if err := storage.ConfinedFiles(dataset, files); !errors.Is(err, storage.ErrChanged) ||
		errors.Is(err, storage.ErrOutside) {
		t.Errorf("a file that was written: %v, want %v", err, storage.ErrChanged)
	}
	if err := os.Remove(filepath.Join(dir, "a.parquet")); err != nil {
		t.Fatal(err)
	}
	if err := storage.ConfinedFiles(dataset, files); !errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, storage.ErrOutside) {
		t.Errorf("a file that was removed: %v, want %v", err, fs.ErrNotExist)
	}
	if err := storage.Confined(dataset, dataset+strings.Repeat("x", 300)); err == nil ||
		errors.Is(err, storage.ErrOutside) {
		t.Errorf("a name that no file can have: %v", err)
	}
}
