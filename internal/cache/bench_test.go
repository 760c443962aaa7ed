package cache

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// BenchmarkRead reads 1 MiB by opening a file and one pread, as a file and as a value. Compare them in one run.
func BenchmarkRead(b *testing.B) {
	const values = 64
	dir := b.TempDir()
	c := mustOpen(b, filepath.Join(dir, "cache"), 1<<30)
	defer c.Close()
	for n := range values {
		value := valueOf(n, block)
		if err := put(c, keyOf(n), value, block); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, keyOf(n).String()), value, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	p := make([]byte, block)
	b.Run("file", func(b *testing.B) {
		b.SetBytes(block)
		for i := range b.N {
			f, err := os.Open(filepath.Join(dir, keyOf(i%values).String()))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := f.ReadAt(p, 0); err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
	})
	value := func(b *testing.B, forget bool) {
		b.SetBytes(block)
		for i := range b.N {
			if forget {
				c.index.entries[c.index.of[keyOf(i%values)]].checked = false
			}
			v, ok := c.Get(keyOf(i % values))
			if !ok {
				b.Fatal("a miss")
			}
			if _, err := v.ReadAt(p, 0); err != nil {
				b.Fatal(err)
			}
			v.Close()
		}
	}
	b.Run("value", func(b *testing.B) { value(b, false) })
	b.Run("value for the first time", func(b *testing.B) { value(b, true) })
}

// BenchmarkIndex says what an entry takes of memory, and what a start's ranking of a million takes.
func BenchmarkIndex(b *testing.B) {
	const entries = 1_000_000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for range b.N {
		b.StopTimer()
		before := heap()
		c := &Cache{index: newIndex(), policy: NewLRU()}
		for n := range entries {
			c.add(entry{key: keyOf(n), size: block, wanted: int64(entries - n)})
		}
		b.StartTimer()
		c.rank()
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/entries, "B/entry")
		runtime.KeepAlive(c)
	}
}
