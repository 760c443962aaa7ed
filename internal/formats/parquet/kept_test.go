package parquet

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/apache/arrow/go/v15/parquet/file"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/storage/keys"
	"github.com/penstock-ml/penstock/internal/storage/keys/keystest"
)

// readFor reads the footer of a file for some sources.
func readFor(data []byte, w want) (*Footer, error) { return readWith(data, false, noKeys{}, w) }

func readWith(data []byte, encrypted bool, ring Keys, w want) (*Footer, error) {
	p := parser{
		secrets: secrets{ctx: context.Background(), keys: ring}, take: func(int64) error { return nil }, want: w,
		end: math.MaxInt64,
	}
	return p.read(data, encrypted)
}

// serialised returns the FileMetaData of a file.
func serialised(data []byte) []byte {
	n := int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	return data[len(data)-8-n : len(data)-8]
}

// sourcesOf are columns that can be read, of those that choose picks.
func sourcesOf(f *Footer, choose func(column int) bool) (out []*pb.Source) {
	for i := range f.Schema.Columns {
		c := &f.Schema.Columns[i]
		if c.Unsupported != "" || !choose(i) {
			continue
		}
		s := &pb.Source{
			Name: c.Name, Path: c.Path, Field: c.Field, Type: c.Type.Proto(), Meaning: c.Meaning,
		}
		if c.Key != pb.Kind_KIND_UNSPECIFIED {
			s.Key = proto.String("1")
		}
		out = append(out, s)
	}
	return out
}

// sameOf compares what a footer for sources says with what one of everything does.
func sameOf(t rapidOrTesting, all, some *Footer, sources []*pb.Source) {
	t.Helper()
	if !reflect.DeepEqual(all.Columns, some.Columns) || !reflect.DeepEqual(all.Leaves, some.Leaves) ||
		!reflect.DeepEqual(all.stored, some.stored) || all.Rows != some.Rows ||
		len(all.RowGroups) != len(some.RowGroups) {
		t.Fatalf("the files differ:\n%+v\n%+v", all, some)
	}
	if !some.Knows(sources) {
		t.Fatalf("it does not know %v", sources)
	}
	for g := range all.RowGroups {
		if a, b := &all.RowGroups[g], &some.RowGroups[g]; a.Rows != b.Rows || a.FirstRow != b.FirstRow {
			t.Fatalf("row group %d: %d rows from %d, and %d from %d", g, a.Rows, a.FirstRow, b.Rows, b.FirstRow)
		}
		for leaf := range all.Leaves {
			if some.slot(leaf) >= 0 && !reflect.DeepEqual(all.ChunkOf(g, leaf), some.ChunkOf(g, leaf)) {
				t.Fatalf("row group %d, leaf %d: %+v, and %+v", g, leaf, all.ChunkOf(g, leaf), some.ChunkOf(g, leaf))
			}
		}
	}
	a, errA := all.Bind(sources)
	b, errB := some.Bind(sources)
	if errA != nil || errB != nil {
		if errA == nil || errB == nil || errA.Error() != errB.Error() {
			t.Fatalf("bound to %v: %v, and %v", sources, errA, errB)
		}
		return
	}
	for g := range all.RowGroups {
		if a.Cost(g) != b.Cost(g) {
			t.Fatalf("row group %d costs %+v, and %+v", g, a.Cost(g), b.Cost(g))
		}
		for i := range sources {
			x, okX := a.Stats(g, i)
			y, okY := b.Stats(g, i)
			if okX != okY || !reflect.DeepEqual(x, y) || a.Window(g, i, 1) != b.Window(g, i, 1) {
				t.Fatalf("row group %d, %s: %+v, and %+v", g, sources[i].GetName(), x, y)
			}
		}
	}
}

type rapidOrTesting interface {
	Helper()
	Fatalf(format string, args ...any)
}

// TestReadForSomeSources: a footer that was read for some sources says the same of these, and of the file, as one of
// everything, whose chunks are where arrow finds them. Others cannot be bound, until it is read for them, too.
func TestReadForSomeSources(t *testing.T) {
	var files [][]byte
	var footers []*Footer
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 1))
		schema := filetest.Schema(r)
		written := filetest.Parquet(t, schema, filetest.Records(r, schema, 20, 0, 7))
		f, err := Read(serialised(written))
		if err != nil {
			t.Fatal(err)
		}
		sameAsArrow(t, f, written)
		files, footers = append(files, serialised(written)), append(footers, f)
	}
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(files)-1).Draw(t, "file")
		data, all := files[at], footers[at]
		chosen := rapid.SliceOfN(rapid.Bool(), len(all.Schema.Columns), len(all.Schema.Columns)).Draw(t, "chosen")
		sources := sourcesOf(all, func(i int) bool { return chosen[i] })
		some, err := readFor(data, want{sources: sources, before: &Footer{slots: []int32{0}}}) // another file's
		if err != nil {
			t.Fatal(err)
		}
		sameOf(t, all, some, sources)
		others := sourcesOf(all, func(i int) bool { return !some.keeps(i) })
		for _, s := range others {
			if _, err := some.Bind([]*pb.Source{s}); err == nil || some.Knows([]*pb.Source{s}) {
				t.Fatalf("%s is known, and was not asked for: %v", s.GetName(), err)
			}
		}
		more, err := readFor(data, want{sources: others, before: some})
		if err != nil {
			t.Fatal(err)
		}
		sameOf(t, all, more, append(sources, others...))
	})
}

// sameAsArrow compares where chunks are with what arrow reads.
func sameAsArrow(t *testing.T, f *Footer, written []byte) {
	r, err := file.NewParquetReader(bytes.NewReader(written))
	if err != nil {
		t.Fatal(err)
	}
	for g := range f.RowGroups {
		for leaf := range f.Leaves {
			theirs, err := r.MetaData().RowGroup(g).ColumnChunk(leaf)
			if err != nil {
				t.Fatal(err)
			}
			from := theirs.DataPageOffset()
			if theirs.HasDictionaryPage() {
				from = min(from, theirs.DictionaryPageOffset())
			}
			c := f.ChunkOf(g, leaf)
			if c.Values != theirs.NumValues() || c.Values > 0 && (c.Offset != from ||
				c.Length != theirs.TotalCompressedSize() || c.Uncompressed != theirs.TotalUncompressedSize()) {
				t.Fatalf("row group %d, leaf %d: %+v; arrow has %d values from byte %d", g, leaf, c, theirs.NumValues(), from)
			}
		}
	}
}

// TestReadEncryptedForSomeSources: the same holds of encrypted files, of which keys may be missing.
func TestReadEncryptedForSomeSources(t *testing.T) {
	dir := keystest.Files(t)
	for _, name := range []string{"uniform", "columns", "columns_plaintext", "ctr_plaintext"} {
		for _, have := range [][]string{nil, {"footer", "texts"}} {
			written, err := os.ReadFile(filepath.Join(dir, name+".parquet"))
			if err != nil {
				t.Fatal(err)
			}
			ring, err := keys.New(keys.Config{File: keystest.KeyFile(t, have...)})
			if err != nil {
				t.Fatal(err)
			}
			defer ring.Close()
			data, encrypted := serialised(written), string(written[len(written)-4:]) == magicEncrypted
			all, err := readWith(data, encrypted, ring, want{all: true})
			if err != nil {
				t.Fatal(err)
			}
			for column := range all.Schema.Columns {
				sources := sourcesOf(all, func(i int) bool { return i == column })
				some, err := readWith(data, encrypted, ring, want{sources: sources})
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(all.locked, some.locked) {
					t.Errorf("%s, keys %q: locked are %v, and %v", name, have, all.locked, some.locked)
				}
				sameOf(t, all, some, sources)
			}
		}
	}
}

// FuzzReadForSomeSources: whatever bytes a footer has that can be read as a whole, it can be read for some sources, and
// says the same of them.
func FuzzReadForSomeSources(f *testing.F) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		schema := filetest.Schema(r)
		f.Add(serialised(filetest.Parquet(f, schema, filetest.Records(r, schema, 10, 3))), uint64(0x5555))
	}
	f.Fuzz(func(t *testing.T, data []byte, chosen uint64) {
		all, err := Read(data)
		if err != nil {
			return
		}
		sources := sourcesOf(all, func(i int) bool { return chosen>>(i%64)&1 != 0 })
		some, err := readFor(data, want{sources: sources})
		if err != nil {
			t.Fatalf("all of it can be read, but not some: %v", err)
		}
		sameOf(t, all, some, sources)
	})
}
