package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		t.Helper()
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(), open()
	if err := Lock(first); err != nil {
		t.Fatal(err)
	}
	if err := Lock(second); !errors.Is(err, ErrLocked) {
		t.Errorf("of a locked file: %v", err)
	}
	if err := errors.Join(os.Remove(name), first.Close()); err != nil {
		t.Fatal(err)
	}
	if err := Lock(second); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that was removed: %v", err)
	}
	third := open()
	if err := Lock(second); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that was made anew: %v", err)
	}
	if err := Lock(third); err != nil {
		t.Errorf("of the new one: %v", err)
	}
}
