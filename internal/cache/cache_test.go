package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func keyOf(n int) Key { return sha256.Sum256(binary.LittleEndian.AppendUint64(nil, uint64(n))) }

// valueOf is the one value that a key has.
func valueOf(n, size int) []byte {
	p := make([]byte, size)
	r := rand.NewChaCha8(keyOf(n))
	_, _ = r.Read(p)
	return p
}

// failer is a test of testing's or of rapid's.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func mustOpen(t failer, dir string, limit int64) *Cache {
	t.Helper()
	c, err := Open(Config{Dir: dir, MaxBytes: limit, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	<-c.Loaded()
	return c
}

func put(c *Cache, key Key, value []byte, size int64) error {
	return c.Put(key, size, func(w io.Writer) error {
		_, err := w.Write(value)
		return err
	})
}

// read returns the value of a key, read in one of the ways there are; nil if it is not there.
func read(c *Cache, key Key, byFile bool) []byte {
	v, ok := c.Get(key)
	if !ok {
		return nil
	}
	defer v.Close()
	got, err := io.ReadAll(io.NewSectionReader(v, 0, v.Size()))
	if byFile {
		var file *os.File
		if file, err = v.File(); err == nil {
			got, err = io.ReadAll(io.NewSectionReader(file, 0, v.Size()))
		}
	}
	if err != nil {
		return nil
	}
	return append([]byte{}, got...)
}

// onDisk is what the files of a cache take, in whole pages.
func onDisk(t failer, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, "v1"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += cost(info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// TestLikeAMap does anything with a small cache, restarts and damages among it: what is there is what was put, nothing
// goes but by what says so, and the files are within the bound.
func TestLikeAMap(t *testing.T) {
	const keys, limit = 10, 2<<20 + 9*page
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "cache")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		sizes := make([]int, keys)
		for i := range sizes {
			sizes[i] = rapid.IntRange(0, 9000).Draw(t, "size")
		}
		for _, i := range []int{0, 1, 2} { // more than fit
			sizes[i] = block + rapid.IntRange(-5, 5).Draw(t, "size")
		}
		values := make([][]byte, keys)
		for i, size := range sizes {
			values[i] = valueOf(i, size)
		}
		c := mustOpen(t, dir, limit)
		defer func() { c.Close() }()
		there, damaged := map[int]bool{}, map[int]bool{} // unless it was evicted; or until somebody saw it
		key := rapid.IntRange(0, keys-1)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				n := key.Draw(t, "key")
				size := int64(sizes[n])
				if rapid.Bool().Draw(t, "any size") {
					size = AnySize
				}
				if err := put(c, keyOf(n), values[n], size); err != nil {
					t.Fatal(err)
				}
				if got := read(c, keyOf(n), false); got == nil && !damaged[n] {
					t.Fatal("what was just put is not there")
				} else if got != nil {
					there[n] = true
				}
				delete(damaged, n)
			},
			"get": func(t *rapid.T) {
				n := key.Draw(t, "key")
				got := read(c, keyOf(n), rapid.Bool().Draw(t, "by file"))
				if got != nil && (!there[n] || !bytes.Equal(got, values[n])) {
					t.Fatalf("key %d: %d bytes that nobody put", n, len(got))
				}
			},
			"read a part": func(t *rapid.T) {
				n := key.Draw(t, "key")
				v, ok := c.Get(keyOf(n))
				if !ok {
					return
				}
				defer v.Close()
				from := rapid.IntRange(0, sizes[n]).Draw(t, "from")
				p := make([]byte, rapid.IntRange(0, sizes[n]).Draw(t, "bytes"))
				got, err := v.ReadAt(p, int64(from))
				if damaged[n] && errors.Is(err, errDamaged) {
					return
				}
				want := values[n][from:]
				want = want[:min(len(want), len(p))]
				if len(p) > 0 && damaged[n] && len(want) == sizes[n] {
					t.Fatal("damage was not seen")
				}
				if !bytes.Equal(p[:got], want) || (err == nil) != (got == len(p) && from < sizes[n]) {
					t.Fatalf("key %d: %d bytes from %d on, not %d: %v", n, got, from, len(want), err)
				}
			},
			"delete": func(t *rapid.T) {
				n := key.Draw(t, "key")
				if err := c.Delete(keyOf(n)); err != nil {
					t.Fatal(err)
				}
				delete(there, n)
				if v, ok := c.Get(keyOf(n)); ok {
					v.Close()
					t.Fatal("what was deleted is there")
				}
			},
			"restart": func(t *rapid.T) {
				for n := range there { // what was evicted
					if v, ok := c.Get(keyOf(n)); ok {
						v.Close()
					} else {
						delete(there, n)
					}
				}
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
				if n := key.Draw(t, "damaged"); there[n] {
					damage(t, c.path(keyOf(n)))
					delete(there, n)
					damaged[n] = true
				}
				c = mustOpen(t, dir, limit)
			},
			"": func(t *rapid.T) {
				stats := c.Stats()
				disk := onDisk(t, dir)
				if stats.Bytes > limit || disk > limit || disk != stats.Bytes {
					t.Fatalf("%d bytes on disk, said to be %d, of at most %d", disk, stats.Bytes, limit)
				}
				if evicted := int(stats.Evicted.Total()); stats.Entries+evicted+int(stats.Spoiled) < len(there) {
					t.Fatalf("%d entries of %d, but %d were evicted", stats.Entries, len(there), evicted)
				}
			},
		})
	})
}

// damage changes a file.
func damage(t *rapid.T, path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
	switch rapid.IntRange(0, 3).Draw(t, "damage") {
	case 0:
		b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	case 1:
		b = b[:at]
	case 2:
		b = append(b, b[at])
	default:
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestEviction: what was wanted least lately goes, also across a restart, and how long ago that was is told.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		fits := cost(fileSize(block))
		c := mustOpen(t, dir, 3*fits)
		for n := range 3 {
			if err := put(c, keyOf(n), valueOf(n, block), block); err != nil {
				t.Fatal(err)
			}
			at := time.Now().Add(time.Duration(n) * time.Second)
			if err := os.Chtimes(c.path(keyOf(n)), at, at); err != nil { // the disk's clock is another one
				t.Fatal(err)
			}
		}
		c.Close()
		c = mustOpen(t, dir, 3*fits)
		defer c.Close()
		time.Sleep(time.Minute)
		if read(c, keyOf(0), false) == nil {
			t.Fatal("key 0 is not there after a restart")
		}
		time.Sleep(time.Minute)
		open, ok := c.Get(keyOf(1))
		if !ok {
			t.Fatal("key 1 is not there after a restart")
		}
		defer open.Close()
		time.Sleep(time.Hour)
		for n := 3; n < 6; n++ { // 2, 0 and 1 go
			if err := put(c, keyOf(n), valueOf(n, block), block); err != nil {
				t.Fatal(err)
			}
			gone := []int{2, 0, 1}[:n-2]
			for _, n := range gone {
				if _, err := os.Stat(c.path(keyOf(n))); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("key %d was not evicted: %v", n, err)
				}
			}
		}
		stats := c.Stats()
		least, ok := stats.Evicted.Min()
		if stats.Entries != 3 || stats.Evicted.Total() != 3 || stats.Evicted.Counts[4] != 1 || stats.Evicted.Counts[5] != 2 || !ok || least != time.Hour ||
			stats.Evicted.Sum != 3*time.Hour+3*time.Minute-2*time.Second {
			t.Errorf("%+v, least %v", stats, least)
		}
		if got := make([]byte, block); true {
			if _, err := open.ReadAt(got, 0); err != nil || !bytes.Equal(got, valueOf(1, block)) {
				t.Errorf("a value that was evicted while it was open: %v", err)
			}
		}
		time.Sleep(2 * lately)
		if _, ok := stats.Evicted.Min(); ok {
			t.Error("the least age of late is of long ago")
		}
	})
}

// TestEntries: there are no more values than may be, those of an earlier process included, however small they are.
func TestEntries(t *testing.T) {
	dir := t.TempDir()
	check := func(most int, values ...int) {
		t.Helper()
		c, err := Open(Config{Dir: dir, MaxBytes: 1 << 30, MaxEntries: most})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		<-c.Loaded()
		for _, n := range values {
			if err := put(c, keyOf(n), valueOf(n, 10), AnySize); err != nil {
				t.Fatal(err)
			}
			if n := c.Stats().Entries; n > most {
				t.Errorf("there are %d values, and %d may be", n, most)
			}
		}
		if n := c.Stats().Entries; n != most || onDisk(t, dir) != int64(most)*page || c.Memory() != int64(most)*entryMemory {
			t.Errorf("there are %d values in %d bytes, not %d", n, onDisk(t, dir), most)
		}
	}
	check(3, 0, 1, 2, 3, 4)
	check(3)
	check(2)
}

// TestTogether has everybody want the same few values of a cache that holds some of them.
func TestTogether(t *testing.T) {
	const size = 3 << 10
	dir := t.TempDir()
	c := mustOpen(t, dir, 8*page)
	defer c.Close()
	var group sync.WaitGroup
	for g := range 8 {
		r := rand.New(rand.NewPCG(1, uint64(g)))
		group.Go(func() {
			for range 300 {
				n := r.IntN(12)
				key := keyOf(n)
				switch r.IntN(8) {
				case 0:
					if err := c.Delete(key); err != nil {
						t.Error(err)
					}
				case 1, 2, 3:
					if err := put(c, key, valueOf(n, size), size); err != nil && !errors.Is(err, ErrFull) {
						t.Error(err)
					}
				default:
					if got := read(c, key, r.IntN(2) == 0); got != nil && !bytes.Equal(got, valueOf(n, size)) {
						t.Errorf("%d bytes that nobody put", len(got))
					}
				}
			}
		})
	}
	group.Wait()
	if stats := c.Stats(); stats.Bytes != onDisk(t, dir) || stats.Bytes > stats.MaxBytes || stats.Hits == 0 || stats.Off {
		t.Errorf("%d bytes on disk: %+v", onDisk(t, dir), stats)
	}
}

// TestServesAtOnce: what there is, is there as soon as the cache is open, whether its folder was walked or not.
func TestServesAtOnce(t *testing.T) {
	dir := t.TempDir()
	c := mustOpen(t, dir, 1<<20)
	for n := range 50 {
		if err := put(c, keyOf(n), valueOf(n, 10), 10); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	c, err := Open(Config{Dir: dir, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Delete(keyOf(0)); err != nil {
		t.Fatal(err)
	}
	if err := put(c, keyOf(50), valueOf(50, 10), 10); err != nil && !errors.Is(err, ErrLoading) {
		t.Error(err)
	}
	for n := range 50 {
		if got := read(c, keyOf(n), false); (got == nil) != (n == 0) {
			t.Errorf("value %d is there: %q", n, got)
		}
	}
}

// TestOneProcess: the second that opens a folder is told so; what is not a cache's stays as it is.
func TestOneProcess(t *testing.T) {
	dir := t.TempDir()
	c := mustOpen(t, dir, 1<<20)
	if _, err := Open(Config{Dir: dir, MaxBytes: 1}); err == nil || !strings.Contains(err.Error(), dir+" open; give each") {
		t.Errorf("the second to open it: %v", err)
	}
	if err := put(c, keyOf(1), []byte("v"), 1); err != nil {
		t.Fatal(err)
	}
	ours := c.path(keyOf(1))
	foreign := []string{
		filepath.Join(dir, "v2", "something"), filepath.Join(c.newDir(), "notes.txt"), ours + ".bak",
		filepath.Join(filepath.Dir(ours), strings.ToUpper(filepath.Base(ours))),
		filepath.Join(c.folderDir(int(keyOf(1)[0])+1&0xff), filepath.Base(ours)),
	}
	for _, path := range foreign {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	half, err := c.Create(keyOf(2), 10)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := half.Commit(); err == nil {
		t.Error("a part of a value was kept")
	}
	c = mustOpen(t, dir, 1<<20)
	defer c.Close()
	for _, path := range append(foreign, ours) {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(c.newDir()); len(left) != 1 {
		t.Errorf("what was half written is there yet: %v", left)
	}
	half.Close()
	if got := read(c, keyOf(1), true); string(got) != "v" {
		t.Errorf("%q is there", got)
	}
}

// TestWrongSizes: a value of another size than was said is not kept, nor one that is larger than the cache; what such a
// writer had set aside is free again.
func TestWrongSizes(t *testing.T) {
	c := mustOpen(t, t.TempDir(), 4*block)
	defer c.Close()
	for _, size := range []int64{99, 101, 0, 5 * block} {
		if err := put(c, keyOf(1), valueOf(1, 100), size); err == nil {
			t.Errorf("100 bytes were kept as %d", size)
		}
	}
	failed := errors.New("the origin failed")
	if err := c.Put(keyOf(2), 5, func(io.Writer) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("%v is not %v", err, failed)
	}
	if err := put(c, keyOf(1), valueOf(1, 5*block), AnySize); !errors.Is(err, ErrFull) {
		t.Errorf("a value that is larger than the cache: %v", err)
	}
	if err := put(c, keyOf(1), valueOf(1, 4*block-page), AnySize); err != nil {
		t.Errorf("a value of just the cache's size: %v", err)
	}
	if stats := c.Stats(); stats.Entries != 1 || stats.Bytes != 4*block {
		t.Errorf("%+v", stats)
	}
}

// TestExists: of two that write a key the first is kept, and the other can compare.
func TestExists(t *testing.T) {
	c := mustOpen(t, t.TempDir(), 1<<20)
	defer c.Close()
	w, err := c.Create(keyOf(1), AnySize)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	fmt.Fprint(w, "the second")
	if err := put(c, keyOf(1), []byte("the first"), 9); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); !errors.Is(err, ErrExists) {
		t.Errorf("the second commits: %v", err)
	}
	mine := make([]byte, 20)
	if n, err := w.ReadAt(mine, 0); string(mine[:n]) != "the second" || !errors.Is(err, io.EOF) {
		t.Errorf("%q: %v", mine[:n], err)
	}
	if got := read(c, keyOf(1), false); string(got) != "the first" {
		t.Errorf("%q is kept", got)
	}
}
