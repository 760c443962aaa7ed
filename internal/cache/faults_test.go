package cache

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// smallDisk lets a cache have so many bytes of files, fewer than it may have: the disk is somebody else's, too.
func smallDisk(t *testing.T, c *Cache, dir string, bytes int64) {
	c.write = func(f *os.File, p []byte) (int, error) {
		free := max(bytes-onDisk(t, dir), 0)
		n, err := f.Write(p[:min(int64(len(p)), free)])
		if err == nil && n < len(p) {
			err = &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
		}
		return n, err
	}
}

// TestFullDisk: a full disk evicts; that nothing is left to evict is an error, and only for a while.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := mustOpen(t, dir, 1<<30)
		defer c.Close()
		smallDisk(t, c, dir, 3*block)
		for n := range 10 {
			if err := put(c, keyOf(n), valueOf(n, block-n), AnySize); err != nil {
				t.Fatal(err)
			}
			if read(c, keyOf(n), true) == nil {
				t.Fatalf("value %d is not there", n)
			}
		}
		if stats := c.Stats(); stats.Evicted.Total() == 0 || stats.Entries < 2 || stats.Off {
			t.Errorf("%+v", stats)
		}
		if err := put(c, keyOf(10), valueOf(10, 4*block), 4*block); !errors.Is(err, ErrOff) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a value that is larger than the disk: %v", err)
		}
		if err := put(c, keyOf(11), valueOf(11, 1), 1); !errors.Is(err, ErrOff) {
			t.Errorf("while it is off: %v", err)
		}
		time.Sleep(rest)
		if err := put(c, keyOf(11), valueOf(11, 1), 1); err != nil || c.Stats().Bytes != onDisk(t, dir) {
			t.Errorf("after a while: %v; %d bytes on disk: %+v", err, onDisk(t, dir), c.Stats())
		}
	})
}

// TestBrokenDisk: a disk that cannot be written to is read on, and is written to again after a while.
func TestBrokenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustOpen(t, t.TempDir(), 1<<20)
		defer c.Close()
		value := valueOf(1, 5000)
		if err := put(c, keyOf(1), value, 5000); err != nil {
			t.Fatal(err)
		}
		c.write = func(*os.File, []byte) (int, error) { return 0, syscall.EIO }
		for range 2 {
			if err := put(c, keyOf(2), value, 5000); !errors.Is(err, ErrOff) {
				t.Errorf("a write that fails: %v", err)
			}
		}
		c.write = (*os.File).Write
		if err := put(c, keyOf(2), value, 5000); !errors.Is(err, ErrOff) {
			t.Errorf("it was written to soon: %v", err)
		}
		if !bytes.Equal(read(c, keyOf(1), false), value) {
			t.Error("what is there is not read")
		}
		time.Sleep(rest)
		if err := put(c, keyOf(2), value, 5000); err != nil {
			t.Errorf("after a while: %v", err)
		}
		if stats := c.Stats(); stats.Off || stats.Entries != 2 || stats.Bytes != 2*cost(fileSize(5000)) {
			t.Errorf("%+v", stats)
		}
	})
}

// TestStuckFile: what cannot be removed counts on until it can be, and nothing is written meanwhile.
func TestStuckFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := mustOpen(t, dir, 2*cost(fileSize(5000)))
		defer c.Close()
		for n := range 2 {
			if err := put(c, keyOf(n), valueOf(n, 5000), 5000); err != nil {
				t.Fatal(err)
			}
		}
		stuck := c.path(keyOf(0))
		if err := errors.Join(os.Remove(stuck), os.MkdirAll(filepath.Join(stuck, "full"), 0o700)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := put(c, keyOf(2), valueOf(2, 5000), 5000); !errors.Is(err, ErrOff) {
				t.Errorf("a file cannot be removed: %v", err)
			}
			time.Sleep(rest)
		}
		if stats := c.Stats(); stats.Bytes != stats.MaxBytes || read(c, keyOf(1), false) == nil {
			t.Errorf("%+v", stats)
		}
		if err := os.RemoveAll(stuck); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 2} {
			if err := put(c, keyOf(n), valueOf(n, 5000), 5000); err != nil || read(c, keyOf(n), false) == nil {
				t.Errorf("after it was repaired: %v", err)
			}
		}
		if stats := c.Stats(); stats.Bytes != onDisk(t, dir) {
			t.Errorf("%d bytes on disk: %+v", onDisk(t, dir), stats)
		}
	})
}

// TestRemoved: somebody removes all files under a cache that is open. It goes on.
func TestRemoved(t *testing.T) {
	dir := t.TempDir()
	c := mustOpen(t, dir, 1<<20)
	defer c.Close()
	for again := range 3 {
		for n := range 3 {
			if err := put(c, keyOf(n), valueOf(n, 100), 100); err != nil {
				t.Fatal(err)
			}
		}
		half, err := c.Create(keyOf(9), AnySize)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "v1")); err != nil {
			t.Fatal(err)
		}
		for n := range 10 + again {
			if read(c, keyOf(n), false) != nil {
				t.Error("it reads what is not there")
			}
		}
		if err := put(c, keyOf(10+again), valueOf(8, 100), 100); err != nil || read(c, keyOf(10+again), false) == nil {
			t.Errorf("after all was removed: %v", err)
		}
		if err := half.Commit(); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("what was removed while it was written: %v", err)
		}
		half.Close()
		c.mu.Lock()
		c.trouble = trouble{}
		c.mu.Unlock()
	}
	if stats := c.Stats(); stats.Bytes != onDisk(t, dir) || stats.Spoiled != 3*3+2 {
		t.Errorf("%d bytes on disk: %+v", onDisk(t, dir), stats)
	}
}

// TestNoFolder: an error says what to do.
func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []Config{{Dir: filepath.Join(file, "x"), MaxBytes: 1}, {MaxBytes: 1}, {Dir: t.TempDir()}} {
		if c, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "; name a folder") {
			t.Errorf("%+v: %v, %v", cfg, c, err)
		}
	}
}
