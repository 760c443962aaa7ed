package cache

import (
	"errors"
	"syscall"
	"testing"
)

// TestSmallFilesystem fills a real one, and then makes it read-only: values are read on.
func TestSmallFilesystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("cache", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a filesystem of this test's own: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	c := mustOpen(t, dir, 1<<30)
	defer c.Close()
	for n := range 12 {
		if err := put(c, keyOf(n), valueOf(n, block), AnySize); err != nil {
			t.Fatal(err)
		}
		if read(c, keyOf(n), false) == nil {
			t.Fatalf("value %d is not there", n)
		}
	}
	stats := c.Stats()
	if stats.Entries < 2 || stats.Evicted.Total() < 8 || stats.Off {
		t.Errorf("%+v", stats)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if err := put(c, keyOf(20), valueOf(20, 10), AnySize); !errors.Is(err, ErrOff) || !errors.Is(err, syscall.EROFS) {
		t.Errorf("a disk that is read-only: %v", err)
	}
	if err := c.Delete(keyOf(10)); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a value that cannot be removed: %v", err)
	}
	if read(c, keyOf(10), false) != nil || read(c, keyOf(11), true) == nil {
		t.Error("what was deleted is read, or what was not is not")
	}
}
