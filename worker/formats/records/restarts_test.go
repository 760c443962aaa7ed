package records_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/records/recordstest"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
)

// long draws how a text is compressed by gzip, and where restarts of it lie.
func long(t testing.TB, r *rapid.T, text []byte) (*file, error) {
	t.Helper()
	extent := rapid.SampledFrom([]int64{1, 20e3, 100e3}).Draw(r, "extent")
	f, in, err := described(t, recordstest.LongGzip(r, text), extent)
	if err != nil {
		return nil, err
	}
	f.Limits.Spacing = rapid.SampledFrom([]int64{1, 1000, 20e3}).Draw(r, "spacing")
	return scanned(t, f, in)
}

// TestRestarts: whatever compressed a file, each extent is read by itself, and has its lines and what the next one
// begins with.
func TestRestarts(t *testing.T) {
	kinds := map[bool]int{}
	rapid.Check(t, func(r *rapid.T) {
		text := recordstest.LongText(r)
		f, err := long(t, r, text)
		if err != nil {
			r.Fatal(err)
		}
		lines, n := recordstest.Records(text), int64(0)
		for extent, e := range f.bound.Extents() {
			if p := f.bound.Place(extent); p.Restart != nil {
				kinds[p.Restart.Bit > 0]++
			}
			d, skip := newDecoder(), rapid.IntRange(0, int(e.Rows)).Draw(r, "skip")
			err := errors.Join(d.Reset("file", placed(r, f, f.bound.Place(extent)), extent, f.chunk(extent)), d.Skip(skip))
			if err != nil {
				r.Fatal(err)
			}
			vectors, err := d.Next(int(e.Rows) - skip)
			if err != nil {
				r.Fatal(err)
			}
			for i, line := range rowtest.Of(vectors[0]) {
				if want := want(lines[int(e.FirstRow)+skip+i])[0]; line != want {
					r.Fatalf("row %d is %q, want %q", int(e.FirstRow)+skip+i, line, want)
				}
			}
			n += e.Rows
		}
		if n != int64(len(lines)) {
			r.Fatalf("%d rows, want %d", n, len(lines))
		}
	})
	if kinds[true] == 0 || kinds[false] == 0 {
		t.Errorf("%d restarts begin within a byte, and %d with one", kinds[true], kinds[false])
	}
}

// TestNextIsChecked: who reads an extent fails if the next one does not begin as it was told.
func TestNextIsChecked(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f, err := long(t, r, recordstest.LongText(r))
		if err != nil {
			r.Fatal(err)
		}
		for extent := range f.bound.Extents() {
			p := f.bound.Place(extent)
			if p.Next == nil {
				continue
			}
			next := *p.Next
			p.Next = &next
			switch rapid.SampledFrom([]string{"bit", "crc", "size", "window", "stored", "bytes"}).Draw(r, "change") {
			case "bit":
				next.Bit ^= 1
			case "crc":
				next.CRC++
			case "size":
				next.Size++
			case "window":
				next.Sum[7]++
			case "stored":
				p.Shared++
			case "bytes":
				p.Over++
			}
			d := newDecoder()
			if err := d.Reset("file", placed(r, f, p), extent, f.chunk(extent)); err != nil {
				r.Fatal(err)
			}
			if _, err := d.Next(int(p.Rows)); err == nil || !strings.Contains(err.Error(), "the index is not that of") {
				r.Fatalf("extent %d, whose next one begins at %+v, of %+v: %v", extent, next, f.bound.Place(extent), err)
			}
		}
	})
}

// placed is a file with one extent, as a ticket tells of it.
func placed(r *rapid.T, f *file, p format.Place) format.Bound {
	told, got := &pb.Extent{Index: uint32(p.Index), Rows: p.Rows, FirstRow: p.FirstRow}, &pb.Extent{}
	p.To(told)
	text, err := proto.Marshal(told)
	if err == nil {
		err = proto.Unmarshal(text, got)
	}
	if err != nil {
		r.Fatal(err)
	}
	at, err := f.bound.At([]format.Place{format.PlaceOf(got)})
	if err != nil {
		r.Fatal(err)
	}
	b, err := at.Bind(sources)
	if err != nil {
		r.Fatal(err)
	}
	return b
}
