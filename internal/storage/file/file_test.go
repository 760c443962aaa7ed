package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// TestDirectoryVanishes has one go, or become a file, between being listed and being read: what comes after it is
// listed.
func TestDirectoryVanishes(t *testing.T) {
	for name, change := range map[string]func(dir string) error{
		"it is gone":   os.RemoveAll,
		"it is a file": func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
	} {
		root := t.TempDir()
		for _, dir := range []string{"a", "b", "c"} {
			if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, dir, "part"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b := filepath.Join(root, "b")
		q := object.Query{Prefix: Scheme + root + "/", Enter: func(dir string) bool {
			if dir == Scheme+b+"/" {
				if err := os.RemoveAll(b); err != nil {
					t.Error(err)
				}
				if err := change(b); err != nil {
					t.Error(err)
				}
			}
			return true
		}}
		var got []string
		err := Disk{}.List(t.Context(), q, func(f *pb.File) error {
			got = append(got, f.GetUri())
			return nil
		})
		want := []string{Scheme + root + "/a/part", Scheme + root + "/c/part"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; expected %q", name, got, err, want)
		}
	}
}

// TestListPassesErrorsOn of whoever takes the files, also if a file is missing there.
func TestListPassesErrorsOn(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "part"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := Disk{}.List(t.Context(), object.Query{Prefix: Scheme + root + "/"},
		func(*pb.File) error { return fs.ErrNotExist })
	if err == nil {
		t.Error("no error")
	}
}

// TestPipeInPlaceOfAFile has one take a listed file's place: to open it for reading waits for who writes, if it may.
func TestPipeInPlaceOfAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "part")
	if err := os.WriteFile(name, []byte("bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := (Disk{}).Stat(t.Context(), Scheme+name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Disk{}).ReadAt(t.Context(), f, make([]byte, 5), 0); !errors.Is(err, object.ErrChanged) {
		t.Errorf("got %v, want %v", err, object.ErrChanged)
	}
}
