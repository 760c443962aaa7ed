package formattest

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/records"
)

// Records holds what any file must whose format is one of runs of records:
//   - where its records end does not depend on how much of the file was read;
//   - its extents tile it, and have its rows, however long they are;
//   - cut off at any byte, it is an error, or has the rows that are there as a whole;
//   - changed, it is an error, or has other rows; it takes no memory that it does not have. Text may be cut within its
//     last value, which no reader can see.
func Records(t *testing.T, file File, isText bool) {
	t.Helper()
	f, in := file.records(t)
	columns, rows := Values(t, file)
	if len(columns) == 0 || len(rows) < 2 {
		t.Fatalf("%d columns and %d rows are nothing to hold", len(columns), len(rows))
	}
	t.Run("cuts", func(t *testing.T) { file.cuts(t, f, len(rows)) })
	t.Run("extents", func(t *testing.T) { file.extents(t, f, in) })
	t.Run("truncated", func(t *testing.T) { file.truncated(t, rows, isText) })
	t.Run("changed", func(t *testing.T) { file.changed(t) })
}

// records describes the file.
func (f File) records(t *testing.T) (*records.File, *format.Input) {
	t.Helper()
	st := &filetest.One{URI: "mem://" + f.Name, Data: f.Data}
	loaded, err := f.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of, ok := loaded.(*records.File)
	if !ok {
		t.Fatalf("%s is no file of records", f.Name)
	}
	return of, &format.Input{
		Storage: st, File: st.File(), How: f.How, Take: func(int64) error { return nil }, All: true,
	}
}

// unpacked is the file decompressed.
func (f File) unpacked(t *testing.T, of *records.File) []byte {
	t.Helper()
	var out bytes.Buffer
	u := records.NewUnpacked(of.Codec, bytes.NewReader(f.Data), 0, of.Limits, nil)
	defer u.Close()
	if _, err := out.ReadFrom(u); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// cuts shows each record's begin, and more and more of it.
func (f File) cuts(t *testing.T, of *records.File, rows int) {
	data, found := f.unpacked(t, of), 0
	at := 0
	if headed, ok := of.Opened.(records.Headed); ok {
		at = int(headed.Begin())
	}
	for at < len(data) {
		rest := data[at:]
		want, isRow, err := of.Opened.Cut(rest, int64(at), true)
		if err != nil || want < 1 {
			t.Fatalf("byte %d: cut to %d bytes, %v", at, want, err)
		}
		step := 1 + want/50
		for n := 1; n < len(rest) && n < want+2000; n += step {
			size, row, err := of.Opened.Cut(rest[:n:n], int64(at), false)
			if err != nil || size != 0 && (size != want || row != isRow) {
				t.Fatalf("byte %d: with %d bytes of it, cut to %d (%v), want %d (%v): %v",
					at, n, size, row, want, isRow, err)
			}
		}
		if at += want; isRow {
			found++
		}
	}
	if found != rows {
		t.Fatalf("%d records, and %d rows", found, rows)
	}
}

// extents cuts the file into extents of several lengths.
func (f File) extents(t *testing.T, of *records.File, in *format.Input) {
	sources := sourcesOf(of.Columns())[absentSources:]
	rows := decodeAll(t, "whole", of, f.Data, sources, 7, 0, false)
	for _, long := range []int64{1, 300, 5000} {
		short := *of
		short.Limits.Extent = long
		if of.Codec == records.Gzip {
			short.Limits.Spacing = long/8 + 1
		}
		var places []format.Place
		err := short.Scan(t.Context(), in, func(p format.Place) error {
			places = append(places, p)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		row, behind := int64(0), int64(0)
		for i, p := range places {
			if p.FirstRow != row || p.Index != i {
				t.Fatalf("extents of %d bytes: extent %d is %+v, and begins at row %d", long, i, p, row)
			}
			if of.Codec == records.Plain && i > 0 && p.Stored.Offset != behind {
				t.Fatalf("extents of %d bytes: extent %d is %+v, behind byte %d", long, i, p, behind)
			}
			behind = p.Stored.Offset + p.Stored.Length
			row += p.Rows
		}
		if last := places[len(places)-1].Stored; last.Offset+last.Length != int64(len(f.Data)) {
			t.Fatalf("extents of %d bytes end at %+v of %d", long, last, len(f.Data))
		}
		at, err := short.At(places)
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%d extents of about %d bytes", len(places), long)
		compare(t, what, sources, decodeAll(t, what, at, f.Data, sources, 5, 0, true), rows)
	}
}

// truncated cuts the file off.
func (f File) truncated(t *testing.T, rows [][]any, isText bool) {
	step := 1 + len(f.Data)/1500
	failed := 0
	for n := 0; n < len(f.Data); n += step {
		short := f.cut(n)
		if err := f.bounded(t, short); err != nil {
			failed++
			continue
		}
		_, left := Values(t, short)
		if isText && len(left) > 0 {
			left = left[:len(left)-1]
		}
		if len(left) > len(rows) || !slices.EqualFunc(left, rows[:len(left)], sameRow) {
			t.Fatalf("cut at byte %d of %d it has %d rows of %d, or others: %.500s", n, len(f.Data), len(left),
				len(rows), fmt.Sprint(left))
		}
	}
	if failed == 0 {
		t.Error("cut off anywhere it can be read")
	}
}

func sameRow(a, b []any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// changed changes bits, and makes whatever may be a length a long one.
func (f File) changed(t *testing.T) {
	step := 1 + len(f.Data)/250
	for n := 0; n < len(f.Data); n += step {
		for _, with := range [][]byte{
			{f.Data[n] ^ 1<<(n%8)},
			{0xff, 0xff, 0xff, 0xff},
			{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
			[]byte("77777777777"),
		} {
			bad := File{f.Name, bytes.Clone(f.Data), f.How}
			copy(bad.Data[n:], with)
			_ = f.bounded(t, bad)
		}
	}
}

// mostTaken bounds what a damaged file of some KiB may take: a window of zstd, and little beside it.
const mostTaken = 160 << 20

// bounded reads a damaged file. What it takes of memory is bounded, and an error is the file's. Nothing else may run:
// what the process takes is what is measured.
func (f File) bounded(t *testing.T, bad File) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := bad.Read(t.Context())
	if err != nil && (strings.Contains(err.Error(), "a bug") || strings.Contains(err.Error(), "panic")) {
		t.Fatal(err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > mostTaken {
		t.Fatalf("it takes %d bytes: %v", after.TotalAlloc-before.TotalAlloc, err)
	}
	return err
}
