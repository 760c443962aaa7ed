package cache

import (
	"bytes"
	"testing"
)

// FuzzTrailer: only what was written for a key and size is taken for it.
func FuzzTrailer(f *testing.F) {
	f.Add([]byte{}, int64(0))
	f.Add(appendTail(nil, keyOf(0), 0), int64(0))
	f.Add(appendTail([]byte("sums"), keyOf(0), block), int64(block))
	f.Add(appendTail([]byte("sumssums"), keyOf(0), block+1), int64(block+1))
	f.Fuzz(func(t *testing.T, trailer []byte, file int64) {
		size, ok := valueSize(file)
		if ok && fileSize(size) != file {
			t.Fatalf("a file of %d bytes has a value of %d", file, size)
		}
		if !ok {
			size = file
		}
		if size < 0 || size > 1<<50 {
			return
		}
		sums, _, err := parseTrailer(trailer, keyOf(0), size)
		if err != nil {
			return
		}
		if again := appendTail(bytes.Clone(sums), keyOf(0), size); int64(len(sums)) != 4*blocks(size) || !bytes.Equal(again, trailer) {
			t.Fatalf("%x was taken for the trailer of %d bytes", trailer, size)
		}
		if _, _, err := parseTrailer(trailer, keyOf(1), size); err == nil {
			t.Fatal("it was taken for another key's, too")
		}
	})
}

// TestSizes: a file's size tells its value's.
func TestSizes(t *testing.T) {
	for _, size := range []int64{0, 1, block - 1, block, block + 1, 7*block - 3, 1 << 40} {
		if got, ok := valueSize(fileSize(size)); !ok || got != size {
			t.Errorf("%d bytes are taken for %d: %v", size, got, ok)
		}
	}
	for _, file := range []int64{0, int64(tailSize) - 1, int64(tailSize) + 1, fileSize(block) + 1} {
		if got, ok := valueSize(file); ok {
			t.Errorf("a file of %d bytes is taken for one of %d", file, got)
		}
	}
}
