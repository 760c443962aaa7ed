package parquet

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"

	"github.com/penstock-ml/penstock/api/pb"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
)

// hostileSeeds are small files that between them have most kinds of pages.
func hostileSeeds(t testing.TB, schema *arrow.Schema) [][]byte {
	var files [][]byte
	for i, codec := range []compress.Compression{
		compress.Codecs.Uncompressed, compress.Codecs.Uncompressed,
		compress.Codecs.Snappy, compress.Codecs.Zstd,
	} {
		version := []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2}[i%2]
		encoding := []parquet.Encoding{parquet.Encodings.DeltaByteArray, parquet.Encodings.DeltaLengthByteArray}[i/2]
		options := []parquet.WriterProperty{
			parquet.WithCompression(codec), parquet.WithDataPageVersion(version),
			parquet.WithDictionaryDefault(i%2 == 0),
			parquet.WithDataPageSize(200), parquet.WithBatchSize(64), parquet.WithStats(false),
		}
		for _, f := range schema.Fields() {
			if i%2 == 0 || f.Nullable { // arrow's writer panics on deltas of pages without values
				continue
			}
			switch f.Type.ID() {
			case arrow.STRING:
				options = append(options, parquet.WithEncodingFor(f.Name, encoding))
			case arrow.INT64, arrow.INT32:
				options = append(options, parquet.WithEncodingFor(f.Name, parquet.Encodings.DeltaBinaryPacked))
			}
		}
		files = append(files, writeTable(t, randomTable(uint64(i), schema, 90), 50, options...))
	}
	return files
}

// decodeHostile decodes what may be damaged, up to a number of rows. Errors are fine; panics are not.
func decodeHostile(t testing.TB, f *footer.Footer, data []byte) {
	if f.Rows > 1<<16 {
		return
	}
	plain, codes := NewDecoder(withOwn(f), testMemory), NewDecoder(withOwn(f), testMemory)
	showCodes(codes)
	for _, d := range []*Decoder{plain, codes} {
		_, err := decodeAll(d, f, data, 40, 3)
		if err != nil && strings.Contains(err.Error(), "panicked") {
			t.Fatal(err)
		}
	}
}

// TestDamagedPages changes bytes of pages, which have no checksums here.
func TestDamagedPages(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	r := rand.New(rand.NewPCG(5, 6))
	for _, file := range hostileSeeds(t, testSchema()) {
		f, err := readFooter(file)
		if err != nil {
			t.Fatal(err)
		}
		sources := withOwn(f)
		for range rounds {
			i := r.IntN(len(sources))
			d := NewDecoder(sources[i:i+1], testMemory)
			if r.IntN(2) == 0 {
				showCodes(d)
			}
			chunks, err := chunksOf(d, f, 0, file)
			if err != nil {
				t.Fatal(err)
			}
			chunk := bytes.Clone(chunks[0])
			for range 1 + r.IntN(3) {
				damage(r, chunk)
			}
			checkDamaged(t, d, f, chunk)
		}
	}
}

func damage(r *rand.Rand, data []byte) {
	at := r.IntN(len(data))
	switch r.IntN(4) {
	case 0:
		data[at] = byte(r.Uint32())
	case 1:
		data[at] ^= 1 << r.IntN(8)
	case 2:
		data[at] = 0xff
	default:
		copy(data[at:], data[r.IntN(len(data)):])
	}
}

// checkDamaged decodes a chunk to its end or an error, and walks over what it gives. It is the same if the chunk is not
// in memory as a whole.
func checkDamaged(t *testing.T, d *Decoder, f *footer.Footer, chunk []byte) {
	t.Helper()
	whole, err := decodeDamaged(t, d, f, d.reset("damaged.parquet", f, 0, [][]byte{chunk}))
	parts, partsErr := decodeDamaged(t, d, f,
		d.resetSources("damaged.parquet", f, 0, []decode.Source{&pieces{data: chunk}}))
	if fmt.Sprint(whole, err) != fmt.Sprint(parts, partsErr) {
		t.Fatalf("in memory: %v %v\npiece by piece: %v %v", whole, err, parts, partsErr)
	}
	if err != nil && (strings.Contains(err.Error(), "panicked") ||
		!strings.Contains(err.Error(), "damaged.parquet row group 0 column ")) {
		t.Fatal(err)
	}
}

func decodeDamaged(t *testing.T, d *Decoder, f *footer.Footer, err error) (all []any, _ error) {
	t.Helper()
	for left := int(f.RowGroups[0].Rows); left > 0 && err == nil; {
		n := min(left, 7)
		vectors, nextErr := d.Next(n)
		if err = nextErr; err != nil {
			break
		}
		rows := rowtest.Of(vectors[0])
		if len(rows) != n {
			t.Fatalf("%d rows, want %d", len(rows), n)
		}
		all = append(all, rows...)
		left -= n
	}
	return all, err
}

func FuzzFile(f *testing.F) {
	// int64 in all shapes, and lists of lists: small inputs fuzz well
	all := testSchema().Fields()
	small := arrow.NewSchema(slices.Concat(all[5*8:6*8], all[len(all)-3:]), nil)
	for _, file := range append(hostileSeeds(f, small), splitFile(f)) {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := readFooter(data)
		if err != nil {
			return
		}
		decodeHostile(t, parsed, data)
	})
}

// FuzzChunk replaces a column chunk of a good file.
func FuzzChunk(f *testing.F) {
	files := hostileSeeds(f, testSchema())
	footers, sources := make([]*footer.Footer, len(files)), []*pb.Source(nil)
	for i, file := range files {
		parsed, err := readFooter(file)
		if err != nil {
			f.Fatal(err)
		}
		footers[i], sources = parsed, withOwn(parsed) // which all files have
		for j, c := range parsed.RowGroups[0].Chunks {
			f.Add(uint8(i), uint16(j), file[c.Offset:][:c.Length])
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, j uint16, chunk []byte) {
		foot := *footers[int(i)%len(footers)]
		foot.RowGroups = slices.Clone(foot.RowGroups)
		group := &foot.RowGroups[0]
		group.Chunks = slices.Clone(group.Chunks)
		leaf := int(j) % len(group.Chunks)
		group.Chunks[leaf].Length = int64(len(chunk))
		for _, s := range sources {
			if s.GetName() == sources[leaf].GetName() {
				checkDamaged(t, NewDecoder([]*pb.Source{s}, testMemory), &foot, chunk)
			}
		}
	})
}

// TestSizesOfCompressedPages: JavaScript's writers say of chunks that they are as long decompressed as they are stored.
func TestSizesOfCompressedPages(t *testing.T) {
	file := writeTable(t, randomTable(3, testSchema(), 2000), 2000, parquet.WithCompression(compress.Codecs.Zstd))
	f, err := readFooter(file)
	if err != nil {
		t.Fatal(err)
	}
	sources := sourcesOf(f)
	want, err := decodeAll(NewDecoder(sources, testMemory), f, file, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.RowGroups[0].Chunks {
		f.RowGroups[0].Chunks[i].Uncompressed = f.RowGroups[0].Chunks[i].Length
	}
	got, err := decodeAll(NewDecoder(sources, testMemory), f, file, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sources {
		compare(t, s.GetName(), got[i], want[i])
	}
}

// TestFalseFooters gives chunks that are not what the footer claims.
func TestFalseFooters(t *testing.T) {
	file := hostileSeeds(t, testSchema())[0]
	for name, change := range map[string]func(c *footer.Chunk, g *footer.RowGroup){
		"fewer rows":           func(c *footer.Chunk, g *footer.RowGroup) { g.Rows--; c.Values-- },
		"more rows":            func(c *footer.Chunk, g *footer.RowGroup) { g.Rows++; c.Values++ },
		"fewer values":         func(c *footer.Chunk, g *footer.RowGroup) { c.Values-- },
		"more values":          func(c *footer.Chunk, g *footer.RowGroup) { c.Values++ },
		"another length":       func(c *footer.Chunk, g *footer.RowGroup) { c.Length-- },
		"another codec":        func(c *footer.Chunk, g *footer.RowGroup) { c.Codec = codecZstd },
		"no such codec":        func(c *footer.Chunk, g *footer.RowGroup) { c.Codec = 3 },
		"values of no memory":  func(c *footer.Chunk, g *footer.RowGroup) { c.Values = 1 << 40; g.Rows = 1 << 40 },
		"negative value count": func(c *footer.Chunk, g *footer.RowGroup) { c.Values = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			f, err := readFooter(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range sourcesOf(f) {
				g := f.RowGroups[0]
				g.Chunks = slices.Clone(g.Chunks)
				changed := *f
				changed.RowGroups = []footer.RowGroup{g}
				d := NewDecoder(sourcesOf(f)[i:i+1], testMemory)
				chunks, err := chunksOf(d, f, 0, file)
				if err != nil {
					t.Fatal(err)
				}
				change(&changed.RowGroups[0].Chunks[i], &changed.RowGroups[0])
				err = d.reset("false.parquet", &changed, 0, chunks)
				for row := int64(0); row < changed.RowGroups[0].Rows && err == nil; row += 10 {
					_, err = d.Next(int(min(10, changed.RowGroups[0].Rows-row)))
				}
				want := fmt.Sprintf("false.parquet row group 0 column %s", s.GetPath()[0])
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "panicked") {
					t.Fatalf("%s: %v", s.GetName(), err)
				}
			}
		})
	}
}

// TestChecksum damages a byte that decoding alone would not notice.
func TestChecksum(t *testing.T) {
	d := NewDecoder(nil, testMemory)
	c := &column{pages: pages{
		codecs: &d.codecs, mem: &d.memory, chunk: &footer.Chunk{Uncompressed: 100},
		source: &decode.Whole{'a', 'b', 'c'},
	}}
	for crc, want := range map[uint32]bool{0x352441c2: true, 1: false} { // crc32 of "abc"
		c.nextAt = 0
		c.header = header{kind: dataPage, stored: 3, uncompressed: 3, crc: crc, hasCRC: true}
		if _, _, err := c.body(); (err == nil) != want {
			t.Errorf("checksum %x: %v", crc, err)
		}
	}
}

// TestPagesWithoutValues: a chunk may have any number of pages without values, which say that they have any number of
// bytes. None is opened. Dictionaries behind the first one are refused, for there may be as many.
func TestPagesWithoutValues(t *testing.T) {
	file := hostileSeeds(t, testSchema())[2]
	f, err := readFooter(file)
	if err != nil {
		t.Fatal(err)
	}
	// 16 MiB of 4 bytes, as a page of version 1.
	empty := []byte{
		0x15, 0x00, 0x15, 0x80, 0x80, 0x80, 0x10, 0x15, 0x08, 0x2c, 0x15, 0x00, 0x15, 0x00, 0x15, 0x06,
		0x15, 0x06, 0x00, 0x00, 1, 2, 3, 4,
	}
	tried := 0
	for i, source := range sourcesOf(f) {
		d := NewDecoder(sourcesOf(f)[i:i+1], testMemory)
		leaves, err := leavesOf(f, sourcesOf(f)[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		chunks, err := chunksOf(d, f, 0, file)
		if err != nil {
			t.Fatal(err)
		}
		var h header
		if err := h.read(chunks[0], len(chunks[0])); err != nil {
			t.Fatal(err)
		}
		if len(leaves) > 1 || h.kind != dictionaryPage {
			continue
		}
		tried++
		first := h.size + h.stored
		decode := func(parts ...[]byte) ([]any, error) {
			chunk, c := slices.Concat(parts...), &f.RowGroups[0].Chunks[leaves[0]]
			before := *c
			defer func() { *c = before }()
			c.Length, c.Uncompressed = int64(len(chunk)), 1<<40
			return decodeDamaged(t, d, f, d.reset("f.parquet", f, 0, [][]byte{chunk}))
		}
		want, err := decode(chunks[0])
		if err != nil {
			t.Fatal(err)
		}
		for name, pages := range map[string][][]byte{
			"first":  {bytes.Repeat(empty, 1000), chunks[0]},
			"second": {chunks[0][:first], bytes.Repeat(empty, 1000), chunks[0][first:]},
		} {
			if got, err := decode(pages...); fmt.Sprint(got, err) != fmt.Sprint(want, nil) {
				t.Errorf("%s: with empty pages %s: %v", source.GetName(), name, err)
			}
		}
		if _, err := decode(chunks[0][:first], chunks[0]); err == nil ||
			!strings.Contains(err.Error(), "dictionary: it is not the chunk's first one") {
			t.Errorf("%s: with two dictionaries: %v", source.GetName(), err)
		}
	}
	if tried == 0 {
		t.Error("no column has a dictionary")
	}
}
