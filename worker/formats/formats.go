// Package formats decodes extents of files into windows, whatever the format. A table names the decoders, each of which
// is a folder below: of bytes that its half in internal/formats found, it makes vectors. Nothing behind a window knows
// of formats. All decoders pass the suite of formattest.
package formats

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/formats/arrow"
	"github.com/penstock-ml/penstock/worker/formats/csv"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/formats/jsonl"
	"github.com/penstock-ml/penstock/worker/formats/mds"
	"github.com/penstock-ml/penstock/worker/formats/parquet"
	"github.com/penstock-ml/penstock/worker/formats/records"
	"github.com/penstock-ml/penstock/worker/formats/tar"
	"github.com/penstock-ml/penstock/worker/formats/tfrecord"
	"github.com/penstock-ml/penstock/worker/formats/tokens"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Decoder decodes the sources of a program from one extent of files of its format after another. It owns all memory
// that it decodes into, and uses it again. It belongs to one goroutine.
type Decoder interface {
	// Reset begins an extent of a file, whose URI is for messages. There is a source for each of the bound's chunks.
	Reset(file string, b format.Bound, extent int, chunks []decode.Source) error
	// Skip passes over rows.
	Skip(rows int) error
	// Next returns vectors of the next rows, one for each source. They are valid until the next call of Next or Skip.
	Next(rows int) ([]*vector.Vector, error)
	// Explain says, source by source, how an extent is decoded.
	Explain(b format.Bound, extent int) ([]string, error)
	// Memory is what the decoder may hold.
	Memory() *decode.Allowance
	// Forget has the decoder know nothing of the last file any more.
	Forget()
}

// Faulty is a decoder that goes on behind rows that it cannot decode.
type Faulty interface {
	// Faults are the rows of the window that Next returned which cannot be decoded because of their bytes: ascending,
	// each once. They are null in all vectors. They are valid until the next call of Next or Skip, and the same from
	// whatever cursor the window is read. A Late decoder has none.
	Faults() []decode.Fault
}

// Rows decodes the next rows, of which the first has this number in its file, and fails if any has a fault.
func Rows(d Decoder, first int64, rows int) ([]*vector.Vector, error) {
	vectors, err := d.Next(rows)
	if of, ok := d.(Faulty); ok && err == nil && len(of.Faults()) > 0 {
		f := of.Faults()[0]
		return nil, fmt.Errorf("row %d: %w", first+int64(f.Row), f.Err)
	}
	return vectors, err
}

// HasFaults reports whether the decoder of a format is Faulty.
func HasFaults(format string) bool {
	d, err := New(format, nil)
	_, faulty := d.(Faulty)
	return err == nil && faulty
}

// Late is a decoder that decodes some sources of a window first, and the others only of windows that keep rows.
type Late interface {
	// DecodeFirst has Next decode these sources only, from the first file on.
	DecodeFirst(sources []int)
	// Rest decodes the others; where it is not called, the window's rows are passed over in them.
	Rest() ([]*vector.Vector, error)
}

// Coded is a decoder that may show sources that are decoded first as codes of a dictionary.
type Coded interface {
	// AsCodes does so, from the first file on. The unread sources are never wanted as values.
	AsCodes(unread []int)
}

// Early is a decoder that takes a step of a source's values on the way.
type Early interface {
	// TakeEarly has it do so where it can, which vectors tell, from the first file on. No filter may read the source.
	TakeEarly(source int, e vector.Early)
}

// Owner is a decoder that may change chunks.
type Owner interface {
	// OwnChunks says whether it may change those that it is given next: nobody else reads them, and none overlap.
	OwnChunks(own bool)
}

// Selective is a decoder of files that are Indexed.
type Selective interface {
	// Select has it pass over what is not wanted of the extent that was begun, of which no more than the wanted bytes
	// is there.
	Select(s format.Selection) error
}

// New returns a decoder of a format's files, by the name of the format.
func New(name string, sources []*pb.Source) (Decoder, error) {
	switch name {
	case "Parquet":
		return parquet.NewDecoder(sources, 0), nil
	case "Arrow":
		return arrow.NewDecoder(sources), nil
	case "tokens":
		return tokens.NewDecoder(sources), nil
	}
	if parser := parserOf(name); parser != nil {
		return records.NewDecoder(sources, parser), nil
	}
	return nil, fmt.Errorf("this worker cannot decode the format %s", name)
}

// parserOf is what finds the values in records of a format; nil: its files are no records.
func parserOf(name string) records.NewParser {
	return map[string]records.NewParser{
		"JSON lines": jsonl.New,
		"MDS":        mds.NewParser,
		"WebDataset": tar.New,
		"CSV":        csv.NewParser,
		"TSV":        csv.NewParser,
		"TFRecord":   tfrecord.NewParser,
	}[name]
}
