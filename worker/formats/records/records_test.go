package records_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/internal/formats/records/recordstest"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
	worker "github.com/penstock-ml/penstock/worker/formats/records"
)

// sources are a line's text, its bytes as a list, and its words, which are lists in a list.
var sources = []*pb.Source{
	{Name: "line", Path: []string{"line"}, Type: &pb.Type{Kind: pb.Kind_BINARY}},
	{Name: "bytes", Path: []string{"bytes"}, Type: &pb.Type{Kind: pb.Kind_INT8, List: true}},
	{Name: "words", Path: []string{"words"}, Type: &pb.Type{Kind: pb.Kind_INT64, List: true, Nested: 1}},
}

// parser sets what it can of a line up to the first b, which is an error. Words end with an a; each c is null, as is a
// word before a d.
type parser struct{}

var errB = errors.New("there is a b")

func (parser) Parse(record []byte, columns []*worker.Column) error {
	line, raw, words := columns[0], columns[1], columns[2]
	errs := []error{raw.Open(), words.Open(), words.Open()}
	for _, b := range bytes.TrimSuffix(record, []byte("\n")) {
		switch b {
		case 'a':
			words.Close()
			errs = append(errs, words.Open())
		case 'b':
			return errB
		case 'c':
			errs = append(errs, words.Null(), raw.Null())
			continue
		case 'd':
			words.Close()
			errs = append(errs, words.Null(), words.Open())
		default:
			errs = append(errs, words.Int(int64(b)))
		}
		errs = append(errs, raw.Int(int64(b)))
	}
	raw.Close()
	words.Close()
	words.Close()
	return errors.Join(append(errs, line.Bytes(record))...)
}

// want is what parser sets, nil of a line with a b.
func want(line string) []any {
	if strings.Contains(line, "b") {
		return []any{nil, nil, nil}
	}
	raw, word := []any{}, []any{}
	var words []any
	for _, b := range strings.TrimSuffix(line, "\n") {
		switch b {
		case 'a':
			words, word = append(words, word), []any{}
		case 'c':
			word, raw = append(word, nil), append(raw, nil)
			continue
		case 'd':
			words, word = append(words, word, nil), []any{}
		default:
			word = append(word, int64(b))
		}
		raw = append(raw, b)
	}
	return []any{line, raw, append(words, word)}
}

// file is one of lines, in memory.
type file struct {
	data  []byte
	bound *records.Bound
}

func open(t testing.TB, data []byte, extent int64) (*file, error) {
	t.Helper()
	f, in, err := described(t, data, extent)
	if err != nil {
		return nil, err
	}
	return scanned(t, f, in)
}

func described(t testing.TB, data []byte, extent int64) (*records.File, *format.Input, error) {
	t.Helper()
	st := &filetest.One{URI: "mem://file.lines", Data: data}
	in := &format.Input{Storage: st, File: st.File()}
	f, err := recordstest.Describe(t, in, extent)
	return f, in, err
}

// scanned is a file with its extents.
func scanned(t testing.TB, f *records.File, in *format.Input) (*file, error) {
	t.Helper()
	var places []format.Place
	err := f.Scan(t.Context(), in, func(p format.Place) error {
		places = append(places, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	at, err := f.At(places)
	if err != nil {
		return nil, err
	}
	b, err := at.Bind(sources)
	if err != nil {
		return nil, err
	}
	return &file{in.Storage.(*filetest.One).Data, b.(*records.Bound)}, nil
}

func (f *file) chunk(extent int) []decode.Source {
	c := f.bound.Chunk(extent, 0)
	whole := decode.Whole(f.data[c.Offset : c.Offset+c.Length])
	return []decode.Source{&whole}
}

func newDecoder() *worker.Decoder {
	d := worker.NewDecoder(sources, func(*records.File, []*pb.Source) (worker.Parser, error) { return parser{}, nil })
	d.Memory().Allow(64 << 20)
	return d
}

// TestDecodesFromAnyCursor: from whatever row of an extent, in whatever windows, each row is as its line says, and one
// that is wrong is null and a fault of its own.
func TestDecodesFromAnyCursor(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := recordstest.Text(r)
		f, err := open(t, recordstest.Packed(r, text), rapid.SampledFrom([]int64{1, 200, 1 << 20}).Draw(r, "extent"))
		if err != nil {
			r.Fatal(err)
		}
		lines := recordstest.Records(text)
		window := rapid.SampledFrom([]int{1, 3, 70}).Draw(r, "window")
		d := newDecoder()
		for extent, e := range f.bound.Extents() {
			skip := rapid.IntRange(0, int(e.Rows)).Draw(r, "skip")
			if err := errors.Join(d.Reset("file", f.bound, extent, f.chunk(extent)), d.Skip(skip)); err != nil {
				r.Fatal(err)
			}
			for at := skip; at < int(e.Rows); at += window {
				compare(r, d, lines[int(e.FirstRow)+at:], min(window, int(e.Rows)-at))
			}
		}
		d.Forget()
		if held := d.Memory().Held(); held != 0 {
			r.Fatalf("%d bytes are held of nothing", held)
		}
	})
}

// compare holds the next rows against their lines.
func compare(r *rapid.T, d *worker.Decoder, lines []string, rows int) {
	vectors, err := d.Next(rows)
	if err != nil {
		r.Fatal(err)
	}
	var got [3][]any
	for i, v := range vectors {
		got[i] = rowtest.Of(v)
	}
	var faults []int
	for i, line := range lines[:rows] {
		row := []any{got[0][i], got[1][i], got[2][i]}
		if !reflect.DeepEqual(norm(row), norm(want(line))) {
			r.Fatalf("line %q is %v, want %v", line, row, want(line))
		}
		if row[0] == nil {
			faults = append(faults, i)
		}
	}
	var have []int
	for _, f := range d.Faults() {
		if have = append(have, f.Row); !errors.Is(f.Err, errB) || !strings.Contains(f.Err.Error(), "record at byte ") {
			r.Fatal(f.Err)
		}
	}
	if !reflect.DeepEqual(have, faults) {
		r.Fatalf("faults are %v, want %v", have, faults)
	}
}

func norm(row []any) string { return fmt.Sprintf("%q", row) }

// TestMemory: where there is none for a row, that is no fault of the row.
func TestMemory(t *testing.T) {
	text := []byte("head\n" + strings.Repeat("e", 1<<14) + "\n")
	f, err := open(t, text, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	d := newDecoder()
	d.Memory().Allow(1 << 14)
	if err := d.Reset("file", f.bound, 0, f.chunk(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Next(1); err == nil || !strings.Contains(err.Error(), "file extent 0: row 0: record at byte 5: ") ||
		len(d.Faults()) > 0 {
		t.Errorf("%v, %v", err, d.Faults())
	}
	if _, again := d.Next(0); again == nil {
		t.Error("an extent that failed goes on")
	}
}

// FuzzDecode: whatever bytes are in the place of those that were scanned, decoding ends with an error or as many rows.
func FuzzDecode(f *testing.F) {
	text := []byte("head\n" + strings.Repeat("eaf\ncd\n\n", 20))
	f.Add(text, uint16(7), byte('x'))
	f.Add(recordstest.Gzip(text[:50], text[50:]), uint16(70), byte(0))
	f.Add(recordstest.Flushed(text[:50], text[50:]), uint16(70), byte(0))
	f.Add(recordstest.Zstd(true, 3, text[:50], text[50:]), uint16(70), byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, change byte) {
		of, err := open(t, bytes.Clone(data), 40)
		if err != nil || len(data) == 0 {
			return
		}
		of.data[int(at)%len(data)] ^= change
		d := newDecoder()
		for extent, e := range of.bound.Extents() {
			if d.Reset("file", of.bound, extent, of.chunk(extent)) != nil {
				continue
			}
			vectors, err := d.Next(int(e.Rows))
			for _, v := range vectors {
				if err == nil && (v.Rows != int(e.Rows) || len(rowtest.Of(v)) != v.Rows) {
					t.Fatalf("%d rows, want %d", v.Rows, e.Rows)
				}
			}
		}
	})
}

// TestRowsThatCannotEnd end the extent, although rows that are wrong may be left out: columns would shift else.
func TestRowsThatCannotEnd(t *testing.T) {
	f, err := open(t, []byte("head\nx\nx\n"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	of := []*pb.Source{sources[0], {
		Name: "small", Path: []string{"small"}, Type: spec.Type{Kind: pb.Kind_INT8}.Proto(),
		Default: &pb.Value{Kind: &pb.Value_Int{Int: 300}},
	}}
	b, err := f.bound.Bind(of)
	if err != nil {
		t.Fatal(err)
	}
	d := worker.NewDecoder(of, func(*records.File, []*pb.Source) (worker.Parser, error) { return first{}, nil })
	d.Memory().Allow(64 << 20)
	if err := d.Reset("mem://file.lines", b, 0, f.chunk(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Next(2); err == nil || !strings.Contains(err.Error(), "row 0: feature small: 300, which it does not have") {
		t.Errorf("a default that does not fit: %v", err)
	}
}

// TestRatio: a member that decompresses to more than the file's limit allows of it alone is read, since the scan took
// it: the limit is for the file.
func TestRatio(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	dense := []byte("head\n")
	for len(dense) < 100<<10 {
		dense = append(dense, byte('a'+r.IntN(26)))
	}
	sparse := []byte(strings.Repeat(strings.Repeat("e", 1<<20-1)+"\n", 20))
	f, err := open(t, recordstest.Zstd(true, -1, append(dense, '\n'), sparse), 1)
	if err != nil {
		t.Fatal(err)
	}
	extents := f.bound.Extents()
	last := len(extents) - 1
	place := f.bound.Place(last)
	if place.Stored.Offset == 0 || place.Bytes/f.bound.Limits.Ratio < place.Stored.Length {
		t.Fatalf("its member is not dense enough: %+v", place)
	}
	d := newDecoder()
	err = errors.Join(d.Reset("file", f.bound, last, f.chunk(last)), d.Skip(int(extents[last].Rows)))
	if err != nil {
		t.Error(err)
	}
}

// TestManyFaults end the extent, whether or not the file has what is read of it.
func TestManyFaults(t *testing.T) {
	f, err := open(t, []byte("head\n"+strings.Repeat("x\n", 1<<14)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.bound.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	d := worker.NewDecoder(nil, func(*records.File, []*pb.Source) (worker.Parser, error) { return wrong{}, nil })
	if err := d.Reset("file", b, 0, f.chunk(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Next(1 << 14); !errors.Is(err, errB) || !strings.Contains(err.Error(), "row 8192: ") {
		t.Errorf("%d faults, and %v", len(d.Faults()), err)
	}
}

// wrong takes no record.
type wrong struct{}

func (wrong) Parse([]byte, []*worker.Column) error { return errB }

// first sets the first column.
type first struct{}

func (first) Parse(record []byte, columns []*worker.Column) error { return columns[0].Bytes(record) }
