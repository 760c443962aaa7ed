package parquet

import (
	"reflect"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
)

// A decoder that had other files before decodes what one without a past does, and goes on with its columns if the
// files' are alike.
func TestFilesOneAfterTheOther(t *testing.T) {
	random := func(seed uint64, rows int) []byte { return writeTable(t, randomTable(seed, testSchema(), rows), 250) }
	var d *Decoder
	var columns []*column
	for i, file := range []struct {
		data  []byte
		alike bool
	}{{random(1, 600), false}, {random(2, 400), true}, {writeTable(t, smallTable(300), 200), false}, {
		random(3, 500),
		false,
	}, {random(4, 700), true}} {
		f, err := readFooter(file.data)
		if err != nil {
			t.Fatal(err)
		}
		if d == nil {
			d = NewDecoder(sourcesOf(f), testMemory)
		}
		got, err := decodeAll(d, f, file.data, 70, 0)
		if err != nil {
			t.Fatal(err)
		}
		want, err := decodeAll(NewDecoder(d.sources, testMemory), f, file.data, 70, 0)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("file %d: %v, or other values than those of a decoder without a past", i, err)
		}
		if same := len(columns) > 0 && slices.Equal(columns, d.columns); same != file.alike {
			t.Errorf("file %d: the columns are those of the file before: %v", i, same)
		}
		columns = d.columns
		d.Forget()
	}
}

// Indices of a chunk that lacks a dictionary say nothing of the one that another chunk had.
func TestDictionaryOfAnotherChunk(t *testing.T) {
	data := writeTable(t, randomTable(4, testSchema(), 600), 600)
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, source := range sourcesOf(f) {
		d := NewDecoder([]*pb.Source{source}, testMemory)
		if _, err := decodeAll(d, f, data, 600, 0); err != nil {
			t.Fatal(err)
		}
		cut := withoutDictionary(t, d, f, data)
		_, want := decodeAll(NewDecoder(d.sources, testMemory), cut, data, 600, 0)
		if _, err := decodeAll(d, cut, data, 600, 0); (err == nil) != (want == nil) {
			t.Errorf("column %s without its dictionary, behind another chunk: %v; alone: %v",
				source.GetName(), err, want)
		}
		if want != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no column has a dictionary that it needs")
	}
}

// withoutDictionary is a footer by which the chunk of a decoder's one column begins behind its dictionary, if it has
// one.
func withoutDictionary(t *testing.T, d *Decoder, f *footer.Footer, data []byte) *footer.Footer {
	t.Helper()
	chunks, err := chunksOf(d, f, 0, data)
	if err == nil {
		err = d.reset("file", f, 0, chunks)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := d.columns[0]
	if _, err := c.peekHeader(); err != nil {
		t.Fatal(err)
	}
	cut, leaf := *f, d.bound.Uses[0].Leaf
	if c.header.kind == dictionaryPage {
		cut.RowGroups = slices.Clone(f.RowGroups)
		cut.RowGroups[0].Chunks = slices.Clone(f.RowGroups[0].Chunks)
		size := int64(c.header.size + c.header.stored)
		cut.RowGroups[0].Chunks[leaf].Offset += size
		cut.RowGroups[0].Chunks[leaf].Length -= size
	}
	return &cut
}
