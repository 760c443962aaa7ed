package index_test

import (
	"bytes"
	"crypto/sha256"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/storage"
)

// drawn are extents of a file, plain or of members that share bytes, and the file's size.
func drawn(t *rapid.T) (places []format.Place, size int64) {
	end := rapid.Int64Range(0, 1<<20).Draw(t, "header")
	rows, packed := int64(0), rapid.Bool().Draw(t, "packed")
	for i := range rapid.IntRange(0, 20).Draw(t, "extents") {
		p := format.Place{
			Extent: format.Extent{FirstRow: rows, Rows: rapid.Int64Range(1, 1<<20).Draw(t, "rows")}, Index: i,
			Stored: storage.Range{Offset: end, Length: rapid.Int64Range(1, 8<<20).Draw(t, "length")},
		}
		p.Bytes = p.Stored.Length
		if packed {
			p.Skip, p.Bytes = rapid.Int64Range(0, 1<<20).Draw(t, "skip"), rapid.Int64Range(1, 64<<20).Draw(t, "bytes")
			if i > 0 { // the member before has its first records
				last := &places[i-1]
				last.Shared, last.Over = rapid.Int64Range(0, last.Stored.Length-1).Draw(t, "shared"), p.Skip
				p.Stored.Offset -= last.Shared
				p.Stored.Length += last.Shared
				p.Restart = restart(t)
				last.Next = p.Restart
			}
		}
		end, rows = p.Stored.Offset+p.Stored.Length, rows+p.Rows
		places = append(places, p)
	}
	return places, end
}

// restart draws one, or none.
func restart(t *rapid.T) *format.Restart {
	if rapid.Bool().Draw(t, "member") {
		return nil
	}
	size := rapid.SampledFrom([]int64{0, 7, format.MaxWindow, 1 << 40}).Draw(t, "size")
	window := bytes.Repeat([]byte{rapid.Byte().Draw(t, "window")}, int(min(size, format.MaxWindow)))
	return format.NewRestart(rapid.Uint8Range(0, 7).Draw(t, "bit"), rapid.Uint32().Draw(t, "sum"), size, window)
}

// same reports whether extents are the same.
func same(a, b []format.Place) bool { return reflect.DeepEqual(a, b) || len(a)+len(b) == 0 }

func built(t interface{ Fatal(...any) }, of index.Of, places []format.Place) *index.Index {
	b := index.NewBuilder(of)
	for _, p := range places {
		if err := b.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	x, err := b.Index()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestStored: what is parsed is what was built, and no byte of it can be changed or left out.
func TestStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places, size := drawn(t)
		of := index.Of{
			Format: rapid.String().Draw(t, "format"), Version: rapid.Uint32().Draw(t, "version"), Size: size,
			Options: string(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "options")), ETag: rapid.String().Draw(t, "etag"),
		}
		x := built(t, of, places)
		again, err := index.Parse(x.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if again.Of != of || !same(again.Places(), places) || again.Extents() != len(places) {
			t.Fatalf("parsed as %v %v, want %v %v", again.Of, again.Places(), of, places)
		}
		if !bytes.Equal(built(t, of, places).Digest(), x.Digest()) {
			t.Fatal("the digest of one index is another one the second time")
		}
		at := rapid.IntRange(0, len(x.Bytes())-1).Draw(t, "at")
		if _, err := index.Parse(x.Bytes()[:at]); err == nil {
			t.Fatalf("an index that is cut at byte %d of %d was taken", at, len(x.Bytes()))
		}
		changed := slices.Clone(x.Bytes())
		changed[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "change"))
		if _, err := index.Parse(changed); err == nil {
			t.Fatalf("an index whose byte %d was changed was taken", at)
		}
	})
}

// TestPlacesThatCannotBe: an index whose digest is right is refused if its extents leave some of the file out, go
// backwards, or beyond it.
func TestPlacesThatCannotBe(t *testing.T) {
	of := index.Of{Format: "lines", Version: 1, Size: 100, ETag: "e"}
	place := func(rows, offset, length int64) format.Place {
		return format.Place{
			Extent: format.Extent{Rows: rows}, Stored: storage.Range{Offset: offset, Length: length}, Bytes: length,
		}
	}
	for name, places := range map[string][]format.Place{
		"a gap":           {place(1, 0, 40), place(1, 50, 50)},
		"backwards":       {place(1, 50, 50), place(1, 0, 100)},
		"twice":           {place(1, 0, 50), place(1, 0, 100)},
		"too short":       {place(1, 0, 99)},
		"too long":        {place(1, 0, 101)},
		"no rows":         {place(0, 0, 100)},
		"no bytes":        {place(1, 0, 100), place(1, 100, 0)},
		"very many rows":  {place(1<<40, 0, 100)},
		"a negative skip": {{Extent: format.Extent{Rows: 1}, Stored: storage.Range{Length: 100}, Skip: -1, Bytes: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := index.NewBuilder(of)
			for _, p := range places {
				if err := b.Add(p); err != nil {
					t.Fatal(err)
				}
			}
			if x, err := b.Index(); err == nil {
				t.Fatalf("taken: %v", x.Places())
			}
		})
	}
}

// TestIs: an index is refused for another file, version or options.
func TestIs(t *testing.T) {
	of := index.Of{Format: "lines", Version: 1, Size: 3, ETag: "e"}
	x := built(t, of, nil)
	if err := x.Is(of); err != nil {
		t.Fatal(err)
	}
	for _, other := range []index.Of{
		{"tar", 1, "", 3, "e"},
		{"lines", 2, "", 3, "e"},
		{"lines", 1, "x", 3, "e"},
		{"lines", 1, "", 4, "e"},
		{"lines", 1, "", 3, "f"},
	} {
		if x.Is(other) == nil {
			t.Errorf("%v passes for %v", of, other)
		}
	}
}

// FuzzParse: whatever is parsed ends with an index that is built again to the same bytes, or an error. The digest is
// made right, so that what lies behind it is reached.
func FuzzParse(f *testing.F) {
	of := index.Of{Format: "lines", Version: 1, Size: 100, ETag: "e"}
	x := built(f, of, []format.Place{{
		Extent: format.Extent{Rows: 3}, Stored: storage.Range{Length: 100}, Bytes: 100,
	}})
	f.Add(x.Bytes()[:len(x.Bytes())-sha256.Size])
	x = built(f, of, []format.Place{
		{Extent: format.Extent{Rows: 3}, Stored: storage.Range{Length: 60}, Bytes: 300},
		{
			Extent: format.Extent{Rows: 3}, Stored: storage.Range{Offset: 40, Length: 60}, Bytes: 300,
			Restart: format.NewRestart(3, 4, 5, []byte("55555")),
		},
	})
	f.Add(x.Bytes()[:len(x.Bytes())-sha256.Size])
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		x, err := index.Parse(append(bytes.Clone(body), sum[:]...))
		if err != nil {
			return
		}
		places := x.Places()
		if again := built(t, x.Of, places); again.Of != x.Of || !same(again.Places(), places) {
			t.Fatalf("built again, %v is %v", places, again.Places())
		}
	})
}

// TestPack: what is unpacked is what was packed, by name, and no byte of a pack can be changed or left out.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.MapOfN(rapid.String(), rapid.SliceOfN(rapid.Byte(), 47, 80), 0, 5).Draw(t, "indexes")
		var of []index.Packed
		for name, data := range all {
			of = append(of, index.Packed{Name: name, Index: data})
		}
		pack := index.Pack(of)
		got, err := index.Unpack(pack)
		if err != nil || len(got) != len(all) {
			t.Fatalf("unpacked %d of %d indexes: %v", len(got), len(all), err)
		}
		for _, p := range got {
			if data, ok := all[p.Name]; !ok || !bytes.Equal(data, p.Index) || !bytes.HasPrefix(pack[p.At:], data) {
				t.Fatalf("%q is %x, want %x", p.Name, p.Index, data)
			}
		}
		at := rapid.IntRange(0, len(pack)-1).Draw(t, "at")
		if _, err := index.Unpack(pack[:at]); err == nil {
			t.Fatalf("a pack that is cut at byte %d of %d was taken", at, len(pack))
		}
		pack[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "change"))
		if _, err := index.Unpack(pack); err == nil {
			t.Fatalf("a pack whose byte %d was changed was taken", at)
		}
	})
}

// FuzzUnpack: whatever is unpacked ends with what packs to the same names and indexes, or an error.
func FuzzUnpack(f *testing.F) {
	pack := index.Pack([]index.Packed{{Name: "a.jsonl", Index: make([]byte, 47)}, {Name: "", Index: make([]byte, 60)}})
	f.Add(pack[:len(pack)-sha256.Size])
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		got, err := index.Unpack(append(bytes.Clone(body), sum[:]...))
		if err != nil {
			return
		}
		again, err := index.Unpack(index.Pack(got))
		if err != nil || len(again) != len(got) {
			t.Fatalf("packed again, %d indexes are %d: %v", len(got), len(again), err)
		}
	})
}
