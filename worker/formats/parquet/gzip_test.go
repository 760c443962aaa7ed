package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// gzipPages are pages with short and long codes, near and far copies, runs, and bytes that do not compress.
func gzipPages() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	bytesOf := func(n int, f func(i int) byte) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = f(i)
		}
		return out
	}
	ids := make([]byte, 0, 80000)
	for range 10000 {
		ids = binary.LittleEndian.AppendUint64(ids, uint64(r.ExpFloat64()*1e6))
	}
	skewed := func(int) byte { // codes of 15 bits
		return byte(min(255, int(r.ExpFloat64()*3)))
	}
	return map[string][]byte{
		"empty":     {},
		"a byte":    {7},
		"zeros":     make([]byte, 70000),
		"noise":     bytesOf(70000, func(int) byte { return byte(r.Uint32()) }),
		"text":      []byte(strings.Repeat("feature, label, row; ", 3000)),
		"ids":       ids,
		"skewed":    bytesOf(200000, skewed),
		"few bytes": bytesOf(3000, func(i int) byte { return byte(i * i >> 5) }),
		"far": append(append(bytesOf(30000, func(int) byte { return byte(r.Uint32()) }), make([]byte, 300)...),
			bytesOf(30000, func(i int) byte { return byte(i % 7) })...),
		"periods": bytesOf(60000, func(i int) byte { return byte(i % (1 + i>>11)) }),
	}
}

func gzipped(tb testing.TB, page []byte, level int) []byte {
	tb.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, level)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := w.Write(page); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func TestGunzip(t *testing.T) {
	var c codecs
	gunzip := func(dst, src []byte) error { return c.decompress(codecGzip, dst, src) }
	for name, page := range gzipPages() {
		for level := gzip.HuffmanOnly; level <= gzip.BestCompression; level++ {
			packed := gzipped(t, page, level)
			got := make([]byte, len(page))
			if err := gunzip(got, packed); err != nil || !bytes.Equal(got, page) {
				t.Errorf("%s, level %d: %v", name, level, err)
			}
			twice := make([]byte, 2*len(page))
			if err := gunzip(twice, bytes.Repeat(packed, 2)); err != nil || !bytes.Equal(twice, bytes.Repeat(page, 2)) {
				t.Errorf("%s, level %d, two members: %v", name, level, err)
			}
			if len(page) < 2 {
				continue
			}
			if err := gunzip(got[1:], packed); !errors.Is(err, errLonger) {
				t.Errorf("%s, level %d, for a byte too few: %v", name, level, err)
			}
			if err := gunzip(make([]byte, len(page)+1), packed); err == nil {
				t.Errorf("%s, level %d: no error for a byte too many", name, level)
			}
			for _, n := range []int{0, 1, 9, len(packed) / 2, len(packed) - 9, len(packed) - 8, len(packed) - 1} {
				if err := gunzip(got, packed[:n]); err == nil {
					t.Errorf("%s, level %d: no error for %d of %d bytes", name, level, n, len(packed))
				}
			}
			packed[len(packed)-5]++
			if err := gunzip(got, packed); err == nil || !strings.Contains(err.Error(), "checksum") {
				t.Errorf("%s, level %d, with a wrong checksum: %v", name, level, err)
			}
		}
	}
}

// Behind a damaged page the next one is decoded as well as ever, and no page has the decoder allocate.
func TestGunzipUsesItsReaderAgain(t *testing.T) {
	var c codecs
	page := gzipPages()["text"]
	packed, got := gzipped(t, page, gzip.BestSpeed), make([]byte, len(page))
	for _, damaged := range [][]byte{nil, {0x1f}, []byte("no gzip at all"), packed[:len(packed)/2]} {
		if err := c.decompress(codecGzip, got, damaged); err == nil {
			t.Errorf("no error for %d bytes", len(damaged))
		}
		if err := c.decompress(codecGzip, got, packed); err != nil || !bytes.Equal(got, page) {
			t.Errorf("behind a damaged page: %v", err)
		}
	}
	if n := testing.AllocsPerRun(20, func() { _ = c.decompress(codecGzip, got, packed) }); n > 0 {
		t.Errorf("%v allocations a page", n)
	}
}

func BenchmarkGunzip(b *testing.B) {
	for name, page := range gzipPages() {
		packed := gzipped(b, page, gzip.DefaultCompression)
		out := make([]byte, len(page))
		if len(page) < 10000 {
			continue
		}
		b.Run(name, func(b *testing.B) {
			var c codecs
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			for b.Loop() {
				if err := c.decompress(codecGzip, out, packed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
