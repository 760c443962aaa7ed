package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"
	"github.com/cespare/xxhash/v2"
	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"

	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/worker/vector"
)

// packers are writers of the codecs that asStored knows, by what they do.
func packers(t testing.TB) map[string]packer {
	t.Helper()
	all := map[string]packer{
		"snappy":           {codecSnappy, 1 << 16, false, func(page []byte) []byte { return snappy.Encode(nil, page) }},
		"snappy in halves": {codecSnappy, 1, false, literals},
		"zstd in halves":   {codecZstd, 1, true, blocks},
	}
	for name, options := range map[string][]zstd.EOption{
		"zstd":                {zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true)},
		"zstd with checksums": {zstd.WithSingleSegment(true)},
		"zstd with windows":   {zstd.WithWindowSize(128 << 10)},
	} {
		w, err := zstd.NewWriter(nil, options...)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = packer{
			codecZstd, 128 << 10, name != "zstd",
			func(page []byte) []byte { return w.EncodeAll(page, nil) },
		}
	}
	return all
}

type packer struct {
	codec int32
	most  int // that it does not cut
	sums  bool
	pack  func(page []byte) []byte
}

// literals are the two halves of a page as snappy has them.
func literals(page []byte) []byte {
	out := binary.AppendUvarint(nil, uint64(len(page)))
	for half := range slices.Chunk(page, (len(page)+1)/2) {
		n := len(half) - 1
		out = append(out, (snappyLong+2)<<2, byte(n), byte(n>>8), byte(n>>16))
		out = append(out, half...)
	}
	return out
}

// blocks are the two halves of a page as zstd has them, with a checksum.
func blocks(page []byte) []byte {
	out := []byte{0x28, 0xB5, 0x2F, 0xFD, 2<<6 | 1<<5 | 1<<2}
	out = binary.LittleEndian.AppendUint32(out, uint32(len(page)))
	header := 0
	for half := range slices.Chunk(page, (len(page)+1)/2) {
		header = len(out)
		n := len(half) << 3
		out = append(out, byte(n), byte(n>>8), byte(n>>16))
		out = append(out, half...)
	}
	out[header] |= 1 // the last one
	return binary.LittleEndian.AppendUint32(out, uint32(xxhash.Sum64(page)))
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
		for _, size := range []int{
			1, 2, 59, 60, 61, 62, 255, 256, 257, 258, 511, 512, 1 << 12, 1 << 16,
			max(1, p.most-1), p.most, p.most + 1, 1 << 18,
		} {
			page := noise(size)
			packed := p.pack(page)
			testStored(t, fmt.Sprintf("%s: %d bytes", name, size), p, packed, page)
			for _, wrong := range []int{size - 1, size + 1} {
				if _, ok, err := new(codecs).asStored(p.codec, packed, wrong, true); ok || err != nil {
					t.Errorf("%s: %d bytes are taken for %d: %v", name, size, wrong, err)
				}
			}
		}
		if _, ok, err := new(codecs).asStored(p.codec, p.pack(make([]byte, 1000)), 1000, true); ok && p.most > 1 ||
			err != nil {
			t.Errorf("%s: a page that is compressed is shown where it lies: %v", name, err)
		}
	}
}

// testStored wants a page to be shown where it lies, if need be after it was moved.
func testStored(t *testing.T, what string, p packer, packed, page []byte) {
	for _, movable := range []bool{false, true} {
		src := bytes.Clone(packed)
		got, ok, err := new(codecs).asStored(p.codec, src, len(page), movable)
		if err != nil || ok != (movable || len(page) <= p.most) {
			t.Errorf("%s, movable %v, are shown where they lie: %v, %v", what, movable, ok, err)
		}
		if !movable && !bytes.Equal(src, packed) {
			t.Errorf("%s were moved", what)
		}
		if !ok {
			continue
		}
		if !bytes.Equal(got, page) || cap(got) != len(page) {
			t.Errorf("%s, movable %v, are not the page's", what, movable)
		}
		if at := uintptr(unsafe.Pointer(&got[0])) - uintptr(unsafe.Pointer(&src[0])); at >= uintptr(len(src)) {
			t.Errorf("%s, movable %v, are a copy", what, movable)
		}
	}
}

// TestStoredDamage changes each byte, and cuts each off: what asStored takes is what its codec makes of it.
func TestStoredDamage(t *testing.T) {
	for name, p := range packers(t) {
		page := noise(300)
		packed := p.pack(page)
		for i := range packed {
			for bit := range 8 {
				damaged := bytes.Clone(packed)
				damaged[i] ^= 1 << bit
				checkStored(t, p.codec, damaged, 300)
				if got, ok, _ := new(codecs).asStored(p.codec, damaged, 300, true); ok && p.sums &&
					!bytes.Equal(got, page) {
					t.Errorf("%s: damage to bit %d of byte %d shows nowhere", name, bit, i)
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
		for _, size := range []int{1, 60, 61, 256, 257, 600} {
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

// checkStored wants what is shown where it lies, and its errors, to be what the codec's decoder makes of it. What is
// left to that is not changed.
func checkStored(t *testing.T, codec int32, packed []byte, size int) {
	t.Helper()
	var c codecs
	want := make([]byte, size)
	wantErr := c.decompress(codec, want, packed)
	for _, movable := range []bool{false, true} {
		src := bytes.Clone(packed)
		got, ok, err := c.asStored(codec, src, size, movable)
		switch {
		case err != nil && fmt.Sprint(err) != fmt.Sprint(wantErr), ok && (wantErr != nil || !bytes.Equal(got, want)):
			t.Errorf("%s %x, movable %v: %x, %v, want %x, %v", codecName(codec), packed, movable, got, err, want,
				wantErr)
		case !bytes.Equal(src, packed) && (!movable || !ok && err == nil):
			t.Errorf("%s %x, movable %v: moved", codecName(codec), packed, movable)
		}
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
	for _, codec := range []compress.Compression{
		compress.Codecs.Uncompressed, compress.Codecs.Snappy,
		compress.Codecs.Zstd,
	} {
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
				err = d.reset("test.parquet", f, rg, chunks)
			}
			var out []*vector.Vector
			if err == nil {
				out, err = d.Next(rows)
			}
			if err != nil {
				t.Fatalf("%s: %v", codec, err)
			}
			if at := uintptr(unsafe.Pointer(&out[0].I64[0])) - uintptr(unsafe.Pointer(&chunks[0][0])); at >= uintptr(
				len(chunks[0])) {
				t.Errorf("%s: values of row group %d were copied", codec, rg)
			}
			next := make([]byte, len(chunks[0]))
			writes.Go(func() { copy(chunks[0], next) }) // as whoever reads ahead does: the race detector watches
		}
		writes.Wait()
	}
}

// TestOwnChunks: of long pages that were moved together the rows are those of copies.
func TestOwnChunks(t *testing.T) {
	const rows = 20_000
	r := rand.New(rand.NewPCG(5, 6))
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "i", Type: arrow.PrimitiveTypes.Int32},
		{Name: "x", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64), Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	ids := b.Field(2).(*array.ListBuilder)
	for i := range rows {
		b.Field(0).(*array.Int32Builder).Append(int32(r.Uint32()))
		ids.Append(true)
		if ids.ValueBuilder().(*array.Int64Builder).Append(int64(r.Uint64())); i%20 == 0 {
			b.Field(1).AppendNull()
			b.Field(3).AppendNull()
			continue
		}
		b.Field(1).(*array.Float32Builder).Append(math.Float32frombits(r.Uint32()))
		b.Field(3).(*array.StringBuilder).Append(string(noise(1 + i%7)))
	}
	table := array.NewTableFromRecords(schema, []arrow.Record{b.NewRecord()})
	for _, codec := range []compress.Compression{compress.Codecs.Snappy, compress.Codecs.Zstd} {
		for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
			data := writeTable(t, table, rows, parquet.WithCompression(codec), parquet.WithDataPageVersion(version),
				parquet.WithDictionaryDefault(false))
			f, err := readFooter(data)
			if err != nil {
				t.Fatal(err)
			}
			testOwnChunks(t, fmt.Sprintf("%v v%d", codec, version+1), f, data)
		}
	}
}

func testOwnChunks(t *testing.T, what string, f *footer.Footer, data []byte) {
	t.Helper()
	sources := sourcesOf(f)
	want, err := decodeAll(NewDecoder(sources, testMemory), f, data, 4096, 0)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for by, decode := range map[string]func(*Decoder, *footer.Footer, []byte, int, int) ([][]any,
		error){"whole": decodeAll, "pieces": decodePieces} {
		d, own := NewDecoder(sources, testMemory), bytes.Clone(data)
		d.OwnChunks(true)
		got, err := decode(d, f, own, 4096, 0)
		if err != nil {
			t.Fatalf("%s, %s: %v", what, by, err)
		}
		for i, s := range sources {
			compare(t, fmt.Sprintf("%s, %s: %s", what, by, s.GetName()), got[i], want[i])
		}
		if moved := !bytes.Equal(own, data); moved != (by == "whole") { // pieces are copies
			t.Errorf("%s, %s: bytes were moved: %v", what, by, moved)
		}
	}
}

// TestClaimedUncompressed: pages that claim not to be compressed are not if their sizes are equal. Arrow C++ before 3
// has all pages of version 2 claim it (ARROW-10353).
func TestClaimedUncompressed(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "x", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "ids", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.String},
	}, nil)
	table := randomTable(8, schema, 2000)
	for codec, written := range map[int32]compress.Compression{
		codecSnappy: compress.Codecs.Snappy, codecZstd: compress.Codecs.Zstd, codecGzip: compress.Codecs.Gzip,
		codecLZ4: compress.Codecs.Uncompressed,
	} {
		for _, dictionary := range []bool{false, true} {
			data := writeTable(t, table, 2000, parquet.WithCompression(written),
				parquet.WithDataPageVersion(parquet.DataPageV2),
				parquet.WithDataPageSize(4000), parquet.WithDictionaryDefault(dictionary && codec != codecLZ4),
				parquet.WithStats(false))
			for i := range schema.NumFields() {
				d := columnOf(t, data, i, func(chunk []byte) []byte {
					return rewritten(t, chunk, func(h *header) { h.packed = false })
				})
				d.columns[0].chunk.Codec = codec
				got, err := skipAndRead(d, 0, 300)
				if err != nil {
					t.Fatalf("%s: %v", codecName(codec), err)
				}
				compare(t, codecName(codec), got, arrowRows(table.Column(i).Data(), d.sources[0].GetType().GetKind()))
			}
		}
	}
}
