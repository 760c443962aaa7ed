package columns

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"

	"github.com/penstock-ml/penstock/worker/vector"
)

// packers are writers of the codecs that asStored knows, by what they do.
func packers(t testing.TB) map[string]packer {
	t.Helper()
	all := map[string]packer{"snappy": {codecSnappy, 1 << 16, func(page []byte) []byte { return snappy.Encode(nil, page) }}}
	for name, sums := range map[string]bool{"zstd": false, "zstd with checksums": true} {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(sums), zstd.WithSingleSegment(true))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = packer{codecZstd, 128 << 10, func(page []byte) []byte { return w.EncodeAll(page, nil) }}
	}
	return all
}

type packer struct {
	codec int32
	most  int // that it does not cut
	pack  func(page []byte) []byte
}

func noise(n int) []byte {
	out := make([]byte, n)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < n; i++ {
		out[i] = byte(r.Uint32())
	}
	return out
}

func TestStored(t *testing.T) {
	for name, p := range packers(t) {
		for _, size := range []int{1, 2, 59, 60, 61, 62, 255, 256, 257, 258, 511, 512, 1 << 12, p.most - 1, p.most, p.most + 1, 1 << 18} {
			page := noise(size)
			packed := p.pack(page)
			got, ok := asStored(p.codec, packed, size)
			if ok != (size <= p.most) {
				t.Errorf("%s: %d bytes where they lie: %v", name, size, ok)
			}
			if !ok {
				continue
			}
			if !bytes.Equal(got, page) || cap(got) != size && p.codec == codecZstd {
				t.Errorf("%s: %d bytes are not the page's", name, size)
			}
			if at := uintptr(unsafe.Pointer(&got[0])) - uintptr(unsafe.Pointer(&packed[0])); at >= uintptr(len(packed)) {
				t.Errorf("%s: %d bytes are a copy", name, size)
			}
			for _, wrong := range []int{size - 1, size + 1} {
				if _, ok := asStored(p.codec, packed, wrong); ok {
					t.Errorf("%s: %d bytes are taken for %d", name, size, wrong)
				}
			}
		}
		if _, ok := asStored(p.codec, p.pack(make([]byte, 1000)), 1000); ok {
			t.Errorf("%s: a page that is compressed is shown where it lies", name)
		}
	}
}

// TestStoredDamage changes each byte, and cuts each off: what asStored takes is what its codec makes of it.
func TestStoredDamage(t *testing.T) {
	for name, p := range packers(t) {
		packed := p.pack(noise(300))
		for i := range packed {
			for bit := range 8 {
				damaged := bytes.Clone(packed)
				damaged[i] ^= 1 << bit
				if checkStored(t, p.codec, damaged, 300); name == "zstd with checksums" {
					if _, ok := asStored(p.codec, damaged, 300); ok {
						t.Errorf("damage to bit %d of byte %d shows nowhere", bit, i)
					}
				}
			}
			checkStored(t, p.codec, packed[:i], 300)
			checkStored(t, p.codec, packed[:i], max(0, 300-len(packed)+i))
		}
		checkStored(t, p.codec, append(packed, 0), 300)
	}
}

func FuzzStored(f *testing.F) {
	for _, p := range packers(f) {
		for _, size := range []int{0, 1, 60, 61, 256, 257, 600} {
			f.Add(p.codec, p.pack(noise(size)), size)
		}
	}
	f.Fuzz(func(t *testing.T, codec int32, packed []byte, size int) {
		if codec == codecNone || checkSize(codec, len(packed), size) != nil || size < 0 {
			t.Skip()
		}
		checkStored(t, codec, packed, size)
	})
}

// checkStored wants what is shown where it lies to be what the codec's decoder makes of it, which may fail only where nothing is shown.
func checkStored(t *testing.T, codec int32, packed []byte, size int) {
	t.Helper()
	got, ok := asStored(codec, packed, size)
	if !ok {
		return
	}
	var c codecs
	want := make([]byte, size)
	if err := c.decompress(codec, want, packed); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s %x: %x, want %x, %v", codecName(codec), packed, got, want, err)
	}
}

// TestChunkIsLent shows values where they lie in chunks, and leaves a chunk alone once the next row group has begun.
func TestChunkIsLent(t *testing.T) {
	const rows = 1000
	r := rand.New(rand.NewPCG(3, 4))
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for range 2 * rows {
		b.Field(0).(*array.Int64Builder).Append(int64(r.Uint64()))
	}
	table := array.NewTableFromRecords(schema, []arrow.Record{b.NewRecord()})
	for _, codec := range []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Zstd} {
		data := writeTable(t, table, rows, parquet.WithCompression(codec), parquet.WithDictionaryDefault(false))
		f, err := readFooter(data)
		if err != nil {
			t.Fatal(err)
		}
		d := NewDecoder(sourcesOf(f), testMemory)
		var writes sync.WaitGroup
		for rg := range f.RowGroups {
			chunks, err := chunksOf(d, f, rg, data)
			if err == nil {
				err = d.Reset("test.parquet", f, rg, chunks)
			}
			var out []*vector.Vector
			if err == nil {
				out, err = d.Next(rows)
			}
			if err != nil {
				t.Fatalf("%s: %v", codec, err)
			}
			if at := uintptr(unsafe.Pointer(&out[0].I64[0])) - uintptr(unsafe.Pointer(&chunks[0][0])); at >= uintptr(len(chunks[0])) {
				t.Errorf("%s: values of row group %d were copied", codec, rg)
			}
			next := make([]byte, len(chunks[0]))
			writes.Go(func() { copy(chunks[0], next) }) // as whoever reads ahead does: the race detector watches
		}
		writes.Wait()
	}
}
