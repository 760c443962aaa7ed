package columns

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
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
	var f inflater
	for name, page := range gzipPages() {
		for level := gzip.HuffmanOnly; level <= gzip.BestCompression; level++ {
			packed := gzipped(t, page, level)
			got := make([]byte, len(page))
			if n, err := f.gunzip(got, packed); n != len(page) || err != nil || !bytes.Equal(got, page) {
				t.Errorf("%s, level %d: %d of %d bytes, %v", name, level, n, len(page), err)
			}
			twice := make([]byte, 2*len(page))
			if n, err := f.gunzip(twice, append(bytes.Clone(packed), packed...)); n != len(twice) || err != nil || !bytes.Equal(twice, append(page, page...)) {
				t.Errorf("%s, level %d, twice: %d of %d bytes, %v", name, level, n, len(twice), err)
			}
			if n, err := f.gunzip(got[:max(0, len(page)-1)], packed); err == nil && len(page) > 0 {
				t.Errorf("%s, level %d, for a byte too few: %d bytes and no error", name, level, n)
			}
			for _, n := range []int{0, 1, 9, len(packed) / 2, len(packed) - 9, len(packed) - 8, len(packed) - 1} {
				if _, err := f.gunzip(got, packed[:n]); err == nil {
					t.Errorf("%s, level %d: no error for %d of %d bytes", name, level, n, len(packed))
				}
			}
			packed[len(packed)-5]++
			if _, err := f.gunzip(got, packed); err == nil {
				t.Errorf("%s, level %d: no error for a wrong checksum", name, level)
			}
		}
	}
}

// A header may have names and more.
func TestGunzipHeader(t *testing.T) {
	page := []byte("page, page, page, page")
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Name, w.Comment, w.Extra = "name", "comment", []byte("extra")
	_, err := w.Write(page)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	packed := out.Bytes()
	header := gzipHeader + 2 + len("extra") + len("name") + 1 + len("comment") + 1
	sum := bytes.Clone(packed[:header])
	sum[3] |= gzipHeaderSum
	sum = binary.LittleEndian.AppendUint16(sum, uint16(crc32.ChecksumIEEE(sum)))
	for _, p := range [][]byte{packed, append(sum, packed[header:]...)} {
		if !checkGunzip(t, p, len(page)) {
			t.Errorf("% x: the library does not take it", p)
		}
		for n := range p {
			checkGunzip(t, p[:n], len(page))
		}
	}
}

// checkGunzip compares with the library, and reports whether that decompresses it to so many bytes.
func checkGunzip(t *testing.T, packed []byte, size int) bool {
	t.Helper()
	want := make([]byte, size)
	r, wrong := gzip.NewReader(bytes.NewReader(packed))
	if wrong == nil {
		if _, wrong = io.ReadFull(r, want); wrong == nil {
			var n int
			if n, wrong = r.Read(make([]byte, 1)); n == 0 && wrong == io.EOF { //nolint:errorlint // it returns it as it is
				wrong = nil
			} else if wrong == nil {
				wrong = fmt.Errorf("more than %d bytes", size)
			}
		}
	}
	// What stands behind the page's memory stays as it is.
	got := bytes.Repeat([]byte{0xa5}, size+64)
	var f inflater
	n, err := f.gunzip(got[:size:size], packed)
	switch {
	case (err == nil && n == size) != (wrong == nil):
		t.Fatalf("%d of %d bytes, %v; the library: %v", n, size, err, wrong)
	case wrong == nil && !bytes.Equal(got[:size], want):
		t.Fatal("other bytes than the library's")
	case bytes.Count(got[size:], []byte{0xa5}) != 64:
		t.Fatal("it wrote behind the page's end")
	}
	return wrong == nil
}

// FuzzInflate decodes blocks that may be anything as the library does. The checksum is made to fit, as far as they go.
func FuzzInflate(f *testing.F) {
	for _, page := range gzipPages() {
		for _, level := range []int{gzip.HuffmanOnly, gzip.NoCompression, gzip.BestSpeed, gzip.BestCompression} {
			if packed := gzipped(f, page, level); len(packed) < 4096 {
				f.Add(packed[gzipHeader : len(packed)-gzipTrailer])
			}
		}
	}
	f.Fuzz(func(t *testing.T, blocks []byte) {
		r := bytes.NewReader(blocks)
		page, wrong := io.ReadAll(io.LimitReader(flate.NewReader(r), 1<<20))
		packed := member(blocks[:len(blocks)-r.Len()], page)
		if taken := checkGunzip(t, packed, len(page)); !taken && wrong == nil && len(page) < 1<<20 {
			t.Fatalf("the libraries do not agree about % x", blocks)
		}
	})
}

func BenchmarkGunzip(b *testing.B) {
	for name, page := range gzipPages() {
		packed := gzipped(b, page, gzip.DefaultCompression)
		out := make([]byte, len(page))
		if len(page) < 10000 {
			continue
		}
		b.Run(name, func(b *testing.B) {
			var f inflater
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.gunzip(out, packed); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/library", func(b *testing.B) {
			r := flate.NewReader(bytes.NewReader(nil))
			in := bytes.NewReader(nil)
			b.SetBytes(int64(len(page)))
			for b.Loop() {
				in.Reset(packed[gzipHeader : len(packed)-gzipTrailer])
				if err := r.(flate.Resetter).Reset(in, nil); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(r, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// member is blocks as gzip has them, with the sum of what they should come to.
func member(blocks, page []byte) []byte {
	packed := append([]byte{0x1f, 0x8b, gzipDeflate, 0, 0, 0, 0, 0, 0, 255}, blocks...)
	packed = binary.LittleEndian.AppendUint32(packed, crc32.ChecksumIEEE(page))
	return binary.LittleEndian.AppendUint32(packed, uint32(len(page)))
}

// blockBits writes DEFLATE by hand.
type blockBits struct {
	out  []byte
	bits uint64
	n    uint
}

// put writes n bits of v, the least first.
func (b *blockBits) put(v uint64, n uint) {
	b.bits |= v << b.n
	for b.n += n; b.n >= 8; b.n -= 8 {
		b.out, b.bits = append(b.out, byte(b.bits)), b.bits>>8
	}
}

// code writes a code of n bits, whose first bit comes first.
func (b *blockBits) code(v uint32, n uint) { b.put(uint64(inflateTurned(v, n)), n) }

// fixed writes a symbol by the codes that need not be told.
func (b *blockBits) fixed(symbol uint32) {
	switch {
	case symbol < 144:
		b.code(48+symbol, 8)
	case symbol < 256:
		b.code(400+symbol-144, 9)
	case symbol < 280:
		b.code(symbol-256, 7)
	default:
		b.code(192+symbol-280, 8)
	}
}

// begin begins the last block: one of fixed codes, or of others, of which it tells the lengths of the codes that they are told by.
func (b *blockBits) begin(literals, distances uint64, codes ...uint64) {
	b.put(1, 1)
	if literals == 0 {
		b.put(1, 2)
		return
	}
	b.put(2, 2)
	b.put(literals-257, 5)
	b.put(distances-1, 5)
	b.put(uint64(len(codes)-4), 4)
	for _, l := range codes {
		b.put(l, 3)
	}
}

// What blocks may be and what not is as the library says, near their ends and far from them.
func TestGunzipBlocks(t *testing.T) {
	// Lengths by codes of 0: 10, of 1: 11, and of so many zeros: 0.
	lengths := []uint64{0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}
	const none, one = 2, 3
	zeros := func(b *blockBits, n uint64) { b.code(0, 1); b.put(n-11, 7) }
	onlyEnd := func(b *blockBits) { // has a code, of one bit
		b.begin(257, 1, lengths...)
		zeros(b, 138)
		zeros(b, 118)
		b.code(one, 2)
		b.code(none, 2)
	}
	for name, c := range map[string]struct {
		write func(b *blockBits)
		taken bool
	}{
		"a literal and its copies": {func(b *blockBits) { b.begin(0, 0); b.fixed('a'); b.fixed(257); b.code(0, 5); b.fixed(256) }, true},
		"no such length":           {func(b *blockBits) { b.begin(0, 0); b.fixed('a'); b.fixed(286); b.code(0, 5); b.fixed(256) }, false},
		"no such distance":         {func(b *blockBits) { b.begin(0, 0); b.fixed('a'); b.fixed(257); b.code(30, 5); b.fixed(256) }, false},
		"too far":                  {func(b *blockBits) { b.begin(0, 0); b.fixed(257); b.code(29, 5); b.put(0, 13); b.fixed(256) }, false},
		"no such block":            {func(b *blockBits) { b.put(7, 3) }, false},
		"a code of one bit":        {func(b *blockBits) { onlyEnd(b); b.code(0, 1) }, true},
		"the other bit":            {func(b *blockBits) { onlyEnd(b); b.code(1, 1) }, false},
		"no end": {func(b *blockBits) {
			b.begin(257, 1, lengths...)
			b.code(one, 2)
			zeros(b, 138)
			zeros(b, 119)
			b.code(0, 1)
		}, false},
		"more zeros than codes": {func(b *blockBits) { b.begin(257, 1, lengths...); zeros(b, 138); zeros(b, 138) }, false},
		"too many codes of one bit": {func(b *blockBits) {
			b.begin(257, 1, lengths...)
			b.code(one, 2)
			b.code(one, 2)
			zeros(b, 138)
			zeros(b, 116)
			b.code(one, 2)
			b.code(none, 2)
		}, false},
		"too few codes of lengths": {func(b *blockBits) { b.begin(257, 1, 0, 0, 2, 2) }, false},
		"again, of none":           {func(b *blockBits) { b.begin(257, 1, 1, 0, 1, 0); b.code(0, 1); b.put(0, 2) }, false},
		"287 lengths and literals": {func(b *blockBits) { b.begin(287, 1, lengths...) }, false},
		"31 distances":             {func(b *blockBits) { b.begin(257, 31, lengths...) }, false},
	} {
		for _, front := range []int{0, 400} {
			for _, behind := range []int{0, 40} {
				b := &blockBits{}
				b.put(2, 3) // not the last
				for i := range front {
					b.fixed(uint32(i % 256))
				}
				b.fixed(256)
				c.write(b)
				b.put(0, 15)
				blocks := append(b.out, make([]byte, behind)...)
				r := bytes.NewReader(blocks)
				want, err := io.ReadAll(flate.NewReader(r))
				if (err == nil) != c.taken {
					t.Fatalf("%s behind %d bytes: %v is what the library says", name, front, err)
				}
				if c.taken { // what is behind is none of it
					blocks = blocks[:len(blocks)-r.Len()]
				}
				var f inflater
				// Where there is room behind what comes, neither end is looked at.
				page := make([]byte, 1<<12)
				n, err := f.gunzip(page, member(blocks, want))
				if (err == nil) != c.taken || c.taken && !bytes.Equal(page[:n], want) {
					t.Errorf("%s behind %d bytes: %d bytes, %v; want %d", name, front, n, err, len(want))
				}
			}
		}
	}
}

// A member refers to no bytes of the one before.
func TestGunzipMembersAreApart(t *testing.T) {
	b := &blockBits{}
	b.begin(0, 0)
	b.fixed('a')
	b.fixed(257) // three, of four before
	b.code(3, 5)
	for range 40 {
		b.fixed('b')
	}
	b.fixed(256)
	b.put(0, 7)
	first := []byte(strings.Repeat("page", 200))
	page := make([]byte, 2*len(first))
	n, err := new(inflater).gunzip(page, append(gzipped(t, first, gzip.BestSpeed), member(b.out, nil)...))
	if !errors.Is(err, errInflate) || n != len(first)+1 {
		t.Errorf("%d bytes, %v; want that it refers to what is not there", n, err)
	}
}
