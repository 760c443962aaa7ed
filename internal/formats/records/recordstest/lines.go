// Package recordstest has a kind of records for tests of what all kinds share, and files of it, compressed in the ways
// that writers have.
package recordstest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/records"
)

// Lines are files of lines. Of what stands between records they have all: a head in the file's first line, and blank
// lines. A line's one column is its text.
type Lines struct{}

// Name is the kind's.
func (Lines) Name() string { return "lines" }

// Version is the kind's.
func (Lines) Version() uint32 { return 1 }

// Extensions are the kind's.
func (Lines) Extensions() []string { return []string{".lines"} }

// Options are none.
func (Lines) Options() []records.Option { return nil }

// Claims is never so.
func (Lines) Claims([]byte) bool { return false }

// Open finds nothing in a front.
func (Lines) Open(*records.Front) (records.Opened, error) { return opened{}, nil }

type opened struct{}

func (opened) Columns() []spec.Column {
	return []spec.Column{{Name: "line", Path: []string{"line"}, Type: spec.Type{Kind: pb.Kind_BINARY}}}
}

func (opened) Find(*pb.Source) (format.Access, error) { return format.Plain, nil }
func (opened) Size() int64                            { return 0 }

// errBad is of a line that cannot be cut.
var errBad = errors.New("a line begins with a mark")

func (opened) Cut(data []byte, at int64, end bool) (n int, row bool, err error) {
	n = bytes.IndexByte(data, '\n') + 1
	switch {
	case n == 0 && !end:
		return 0, false, nil
	case n == 0:
		n = len(data)
	case data[0] == '!':
		return 0, false, errBad
	}
	return n, at > 0 && n > 1, nil
}

// Records are the lines of a text that are records.
func Records(text []byte) (lines []string) {
	for i, line := range bytes.SplitAfter(text, []byte("\n")) {
		if i > 0 && len(line) > 1 {
			lines = append(lines, string(line))
		}
	}
	return lines
}

// Text draws a file of lines.
func Text(t *rapid.T) []byte {
	text := []byte("head\n")
	for range rapid.IntRange(0, 60).Draw(t, "lines") {
		n := rapid.SampledFrom([]int{0, 1, 2, 5, 30, 200}).Draw(t, "length")
		for range n {
			text = append(text, byte(rapid.IntRange('a', 'f').Draw(t, "byte")))
		}
		text = append(text, '\n')
	}
	return text
}

// Packed draws a way to compress a text, and does so: its members begin where they like, and some are empty.
func Packed(t *rapid.T, text []byte) []byte {
	how := rapid.SampledFrom([]string{"plain", "gzip", "zstd"}).Draw(t, "codec")
	if how == "plain" {
		return text
	}
	var pieces [][]byte
	for left := text; ; {
		n := rapid.SampledFrom([]int{0, 1, 40, 400, len(text)}).Draw(t, "member")
		n = min(n, len(left))
		pieces, left = append(pieces, left[:n]), left[n:]
		if len(left) == 0 {
			break
		}
	}
	if how == "gzip" {
		out := Gzip(pieces...)
		if rapid.Bool().Draw(t, "flushed") {
			out = Flushed(pieces...)
		}
		return append(out, make([]byte, rapid.SampledFrom([]int{0, 0, 512}).Draw(t, "padding"))...)
	}
	return Zstd(rapid.Bool().Draw(t, "sized"), rapid.SampledFrom([]int{-1, 0, 9}).Draw(t, "skippable"), pieces...)
}

// Gzip compresses pieces as a member each.
func Gzip(pieces ...[]byte) []byte {
	var out bytes.Buffer
	for _, p := range pieces {
		w := gzip.NewWriter(&out)
		must(w.Write(p))
		must(0, w.Close())
	}
	return out.Bytes()
}

// Flushed compresses pieces as blocks of one member of gzip.
func Flushed(pieces ...[]byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	for _, p := range pieces {
		must(w.Write(p))
		must(0, w.Flush())
	}
	must(0, w.Close())
	return out.Bytes()
}

// Zstd compresses pieces as a frame each, which says how long it is if sized is set, behind a skippable one of so many
// bytes, unless that is less than 0.
func Zstd(sized bool, skippable int, pieces ...[]byte) []byte {
	var out bytes.Buffer
	for _, p := range pieces {
		if skippable >= 0 {
			out.Write(binary.LittleEndian.AppendUint32([]byte{0x50, 0x2a, 0x4d, 0x18}, uint32(skippable)))
			out.Write(make([]byte, skippable))
		}
		w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true),
			zstd.WithSingleSegment(sized))
		must(0, err)
		if sized {
			out.Write(w.EncodeAll(p, nil))
			continue
		}
		must(w.Write(p))
		must(0, w.Close())
	}
	return out.Bytes()
}

func must(_ int, err error) {
	if err != nil {
		panic(err)
	}
}

// Describe describes a file of lines, whose extents have about so many bytes, and restarts if it is one of gzip.
func Describe(t testing.TB, in *format.Input, extent int64) (*records.File, error) {
	t.Helper()
	in.Take = func(int64) error { return nil }
	f, err := records.Format{Kind: Lines{}}.Describe(t.Context(), in)
	if err != nil {
		return nil, err
	}
	file := f.(*records.File)
	file.Limits.Extent = extent
	if file.Codec == records.Gzip {
		file.Limits.Spacing = extent/8 + 1
	}
	return file, nil
}
