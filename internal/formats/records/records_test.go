package records_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/internal/formats/records/recordstest"
)

func input(data []byte) *format.Input {
	st := &filetest.One{URI: "mem://file.lines", Data: data}
	return &format.Input{Storage: st, File: st.File()}
}

func describe(t *testing.T, data []byte, extent int64) *records.File {
	t.Helper()
	f, err := recordstest.Describe(t, input(data), extent)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// scan returns the extents of what a reader gives.
func scan(f *records.File, in io.Reader) (places []format.Place, err error) {
	err = f.ScanReader(in, func(int64) error { return nil }, func(p format.Place) error {
		places = append(places, p)
		return nil
	})
	return places, err
}

// of decompresses an extent's records from the bytes that it says.
func of(t *rapid.T, f *records.File, data []byte, p format.Place) []byte {
	if f.Codec == records.Plain {
		return data[p.Stored.Offset : p.Stored.Offset+p.Bytes]
	}
	stored := data[p.Stored.Offset : p.Stored.Offset+p.Stored.Length]
	u := records.NewUnpacked(f.Codec, bytes.NewReader(stored), p.Stored.Offset, f.Limits, nil)
	defer u.Close()
	u.Part(p, f.IsLast(p))
	out := make([]byte, p.Skip+p.Bytes)
	if _, err := io.ReadFull(u, out); err != nil {
		t.Fatalf("extent %+v: %v", p, err)
	}
	return out[p.Skip:]
}

// TestExtentsTileTheFile: however a file is compressed, and in whatever pieces it is read, its extents are the same,
// have all records in their order, and each can be read by itself.
func TestExtentsTileTheFile(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := recordstest.Text(r)
		data := recordstest.Packed(r, text)
		f := describe(t, data, rapid.SampledFrom([]int64{1, 100, 1000, 1 << 20}).Draw(r, "extent"))
		places, err := scan(f, bytes.NewReader(data))
		if err != nil {
			r.Fatal(err)
		}
		for _, in := range []io.Reader{
			iotest.OneByteReader(bytes.NewReader(data)), iotest.DataErrReader(bytes.NewReader(data)),
			iotest.HalfReader(bytes.NewReader(data)),
		} {
			if again, err := scan(f, in); err != nil || !reflect.DeepEqual(again, places) {
				r.Fatalf("%v in other pieces: %+v, want %+v", err, again, places)
			}
		}
		var all []byte
		rows := int64(0)
		for i, p := range places {
			part := of(r, f, data, p)
			lines := recordstest.Records(part) // the first extent has the head
			if i > 0 {
				lines = recordstest.Records(append([]byte("\n"), part...))
			}
			if p.Index != i || p.FirstRow != rows || int64(len(lines)) != p.Rows {
				r.Fatalf("extent %d of %d rows is %+v: %q", i, rows, p, part)
			}
			rows += p.Rows
			all = append(all, part...)
		}
		want := recordstest.Records(text)
		if len(want) > 0 && !bytes.Equal(text, all) {
			r.Fatalf("extents leave something out: %q of %q", all, text)
		}
		at, err := f.At(places)
		if err != nil {
			r.Fatal(err)
		}
		if format.Rows(at) != int64(len(want)) {
			r.Fatalf("%d rows, want %d", format.Rows(at), len(want))
		}
	})
}

// packings are a text in each codec, with members that cut lines.
func packings(text []byte) map[string][]byte {
	third := len(text) / 3
	pieces := [][]byte{text[:third], nil, text[third : 2*third], text[2*third:]}
	return map[string][]byte{
		"gzip": recordstest.Gzip(pieces...), "flushed gzip": recordstest.Flushed(pieces...), "sized zstd": recordstest.Zstd(true, 5, pieces...),
		"zstd": recordstest.Zstd(false, -1, pieces...),
	}
}

var text = []byte("head\n" + strings.Repeat("some line\nanother\n\n", 20))

// TestTruncated: a file that is cut off is an error, unless it is cut between members.
func TestTruncated(t *testing.T) {
	for name, data := range packings(text) {
		whole := 0
		for n := range data {
			f, err := recordstest.Describe(t, input(data[:n]), 50)
			if err == nil {
				_, err = scan(f, bytes.NewReader(data[:n]))
			}
			if err == nil {
				whole++
			} else if !errors.Is(err, io.ErrUnexpectedEOF) && n > 4 {
				t.Errorf("%s cut at byte %d: %v", name, n, err)
			}
		}
		if whole > 12 { // members, skippable frames, and what is too short to tell the codec by
			t.Errorf("%s: cut at %d places it is whole", name, whole)
		}
	}
}

// TestFlipped: of a file with a flipped bit a scan fails, or finds as many bytes as the file has: sums are checked.
func TestFlipped(t *testing.T) {
	for name, data := range packings(text) {
		want, err := scan(describe(t, data, 50), bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < 8*len(data); i += 7 {
			bad := bytes.Clone(data)
			bad[i/8] ^= 1 << (i % 8)
			f, err := recordstest.Describe(t, input(bad), 50)
			if err != nil || f.Codec == records.Plain {
				continue
			}
			if got, err := scan(f, bytes.NewReader(bad)); err == nil && !reflect.DeepEqual(got, want) && i >= 64 {
				t.Errorf("%s with bit %d flipped: %d extents, want %d", name, i, len(got), len(want))
			}
		}
	}
}

// TestBounds: what would take too much is an error that says what to raise, or waits for memory.
func TestBounds(t *testing.T) {
	zeros := make([]byte, 40<<20)
	copy(zeros, "head\n")
	for name, of := range map[string]struct {
		data []byte
		want string
	}{
		"ratio": {recordstest.Zstd(true, -1, zeros), "raise dataset.format.max_ratio above 1000"},
		"record": {zeros, "byte 5: a record has more than 1000000 bytes: if it is to be trusted, raise dataset.format." +
			"max_record_bytes"},
	} {
		f := describe(t, of.data, 4<<20)
		f.Limits.Record = 1e6
		if name == "ratio" {
			f.Limits.Record = 1 << 30
		}
		if _, err := scan(f, bytes.NewReader(of.data)); err == nil || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%s: %v, want %s", name, err, of.want)
		}
	}
	errFull := errors.New("no memory")
	f := describe(t, zeros, 4<<20)
	err := f.ScanReader(bytes.NewReader(zeros), func(int64) error { return errFull }, func(format.Place) error { return nil })
	if !errors.Is(err, errFull) {
		t.Errorf("a long record in no memory: %v", err)
	}
	// A frame of four bytes that wants a window of 128 MiB.
	wide := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 17 << 3, 0x21, 0x00, 0x00, 'h', 'e', 'a', '\n'}
	f = describe(t, wide, 4<<20)
	took := int64(0)
	err = f.ScanReader(bytes.NewReader(wide), func(n int64) error {
		took += n
		return nil
	}, func(format.Place) error { return nil })
	if err != nil || took < 126<<20 {
		t.Errorf("a window of 128 MiB: took %d bytes, %v", took, err)
	}
}

// TestMembersAreFew: members that are closer than a part of an extent are one.
func TestMembersAreFew(t *testing.T) {
	pieces := make([][]byte, 500)
	for i := range pieces {
		pieces[i] = []byte("0123456789012345\n"[i%17 : i%17+1])
	}
	data := recordstest.Gzip(pieces...)
	u := records.NewUnpacked(records.Gzip, bytes.NewReader(data), 0, records.Limits{Extent: 256 * 50}, nil)
	n, err := io.Copy(io.Discard, u)
	if got := len(u.Borders()); err != nil || n != 500 || got > 10 {
		t.Errorf("%d bytes, %d members, %v", n, got, err)
	}
}

// TestAtRefusesPlaces that cannot be those of the file.
func TestAtRefusesPlaces(t *testing.T) {
	f := describe(t, text, 50)
	good, err := scan(f, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(p []format.Place){
		"no rows":    func(p []format.Place) { p[1].Rows = 0 },
		"a gap":      func(p []format.Place) { p[1].FirstRow++ },
		"behind it":  func(p []format.Place) { p[1].Stored.Length = 1 << 40 },
		"overflow":   func(p []format.Place) { p[1].Stored.Offset = 1<<63 - 1 },
		"skipped":    func(p []format.Place) { p[1].Skip = 1 },
		"the order":  func(p []format.Place) { p[0], p[1] = p[1], p[0] },
		"few bytes":  func(p []format.Place) { p[1].Bytes = p[1].Rows - 1 },
		"many bytes": func(p []format.Place) { p[1].Bytes = p[1].Stored.Length + 1 },
		"no front":   func(p []format.Place) { p[0].Stored.Offset, p[0].Stored.Length = 1, p[0].Stored.Length-1 },
		"overlap":    func(p []format.Place) { p[1] = p[0]; p[1].Index = 1 },
		"a restart":  func(p []format.Place) { p[1].Restart = format.NewRestart(0, 0, 1, []byte("x")) },
		"not shared": func(p []format.Place) { p[1].Shared, p[1].Over = 1, 1 },
	} {
		places := append([]format.Place(nil), good...)
		change(places)
		if _, err := f.At(places); err == nil {
			t.Errorf("%s: %+v", name, places)
		}
	}
	some, err := f.At(good[2:4])
	if err != nil || some.(*records.File).Place(3) != good[3] || some.(*records.File).Place(1).Rows != 0 {
		t.Errorf("two extents of it: %v", err)
	}
}

// TestOptions: those that a format lacks, or that are no numbers, are errors.
func TestOptions(t *testing.T) {
	for want, v := range map[string]*pb.Format{
		"lines has no option raito; it has max_record_bytes, max_ratio": {Options: map[string]*pb.Value{"raito": {}}},
		"dataset.format.max_ratio: want a whole number": {Options: map[string]*pb.Value{
			"max_ratio": {Kind: &pb.Value_Text{Text: "many"}},
		}},
	} {
		in := input(text)
		in.How = v
		if _, err := recordstest.Describe(t, in, 50); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// FuzzScan: whatever a file has, a scan of it ends, and its extents are those of a file.
func FuzzScan(f *testing.F) {
	f.Add(text)
	for _, data := range packings(text) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := recordstest.Describe(t, input(data), 50)
		if err != nil {
			return
		}
		places, err := scan(file, bytes.NewReader(data))
		if err != nil {
			return
		}
		if _, err := file.At(places); err != nil {
			t.Fatalf("%v: %+v", err, places)
		}
		again, err := scan(file, iotest.HalfReader(bytes.NewReader(data)))
		if err != nil || !reflect.DeepEqual(again, places) {
			t.Fatalf("%v: again %+v, want %+v", err, again, places)
		}
	})
}
