package convert

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// encoder writes files of one format, one after another, which all have the same columns.
type encoder interface {
	// open reports whether a file was begun.
	open() bool
	begin(to io.Writer, l *layout) error
	// rowGroup writes rows, unless there are none. What is wrong with one of them is a rowError.
	rowGroup(l *layout, group []arrow.Record) error
	end() error
	// abandon forgets a file that was not ended.
	abandon()
}

// outputFormat is one that files are written in.
type outputFormat struct {
	name string   // as --to has it
	ends []string // of files' names; new ones have the first
	// encoder returns one that goes on behind so many rows.
	encoder func(o *Options, rows int64) encoder
	// beside is a further file of an output; nil: there is none.
	beside func(o *Options, l *layout, files []finished) (*attached, error)
}

// attached is a small file that an output has beside those with rows.
type attached struct {
	name string
	text []byte
}

// sized is an encoder that holds what it writes back, or compresses it.
type sized interface {
	// size is how many bytes the file has so far, or had when it ended, as they were before.
	size() int64
}

// outputFormats are all; the first one is the default.
func outputFormats() []outputFormat {
	return []outputFormat{
		{
			name: "parquet", ends: []string{".parquet", ".parq", ".pq"},
			encoder: func(*Options, int64) encoder { return &parquetEncoder{} },
		},
		{
			name: "arrow", ends: []string{".arrow", ".feather", ".ipc"},
			encoder: func(*Options, int64) encoder { return &arrowEncoder{} },
		},
		{
			name: asLines, ends: []string{".jsonl", ".ndjson"},
			encoder: func(*Options, int64) encoder { return &linesEncoder{} },
		},
		{
			name: asTar, ends: []string{".tar"},
			encoder: func(_ *Options, rows int64) encoder { return &tarEncoder{row: rows} },
		},
		{
			name: asMDS, ends: []string{mdsEnd, mdsEnd + zstdEnd},
			encoder: func(o *Options, _ int64) encoder { return &mdsEncoder{compression: o.zipped()} },
			beside:  mdsIndexOf,
		},
	}
}

// Formats of outputs that do not keep all types. An output of MDS is never one file.
const (
	asLines = "jsonl"
	asTar   = "tar"
	asMDS   = "mds"
)

// zipped is what compresses files as a whole, or "".
func (o *Options) zipped() string {
	if o.Compression == asZstd {
		return asZstd
	}
	return ""
}

// ending is that of new files' names.
func (o *Options) ending() string {
	if o.To == asMDS && o.zipped() != "" {
		return mdsEnd + zstdEnd
	}
	return o.to().ends[0]
}

// Formats are the names of those that Run writes.
func Formats() (names []string) {
	for _, f := range outputFormats() {
		names = append(names, f.name)
	}
	return names
}

// formatOfFile is the format that a file's name tells.
func formatOfFile(name string) (outputFormat, bool) {
	for _, f := range outputFormats() {
		for _, end := range f.ends {
			if strings.HasSuffix(strings.ToLower(name), end) {
				return f, true
			}
		}
	}
	return outputFormat{}, false
}

// isOne reports whether an output is one file, by its name.
func isOne(output string) bool {
	_, ok := formatOfFile(output)
	return ok
}

// checkTo settles the format: that of --to, or else the one that the output's name tells.
func (o *Options) checkTo() error {
	told, one := formatOfFile(o.Output)
	if o.To == "" {
		o.To = outputFormats()[0].name
		if one {
			o.To = told.name
		}
	}
	switch at := slices.Index(Formats(), o.To); {
	case at < 0:
		return fmt.Errorf("--to names %q; files can be written as %s", o.To, strings.Join(Formats(), ", "))
	case one && told.name != o.To:
		return fmt.Errorf("output %s has the name of a file of %s, and --to says %s: give it another name, or leave "+
			"--to out", o.Output, told.name, o.To)
	case one && o.To == asMDS:
		return fmt.Errorf("output %s is one file, and MDS is a directory of shards with an %s: name a directory by "+
			"--out", o.Output, mdsIndex)
	case o.To == asMDS && len(o.PartitionBy) > 0:
		return errors.New("--partition-by makes folders, of which MDS has none: leave it out")
	case o.Compression != "" && o.Compression != "none" && o.Compression != asZstd:
		return fmt.Errorf("--compression %q: want zstd or none", o.Compression)
	case o.Compression == asZstd && o.To != asMDS:
		return fmt.Errorf("--compression is for MDS, not for %s: leave it out", o.To)
	case o.Order != nil && o.To != outputFormats()[0].name:
		return fmt.Errorf("--order is for Parquet, of which columns can be read by themselves, not for %s", o.To)
	}
	return nil
}

// to is the format, once it is settled.
func (o *Options) to() outputFormat {
	return outputFormats()[slices.Index(Formats(), o.To)]
}

// recordsOf are the output's columns of a row group.
func (l *layout) recordsOf(group []arrow.Record) ([]arrow.Record, error) {
	if len(group) == 0 {
		return nil, nil
	}
	if err := l.begin(group); err != nil {
		return nil, err
	}
	columns := make([][]arrow.Array, len(group))
	for _, c := range l.columns {
		values, err := c.values(group)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.field.Name, err)
		}
		for i := range group {
			columns[i] = append(columns[i], values[i])
		}
	}
	out := make([]arrow.Record, len(group))
	for i, rec := range group {
		out[i] = array.NewRecord(l.schema(), columns[i], rec.NumRows())
	}
	return out, l.begin(nil)
}

// rowError is what is wrong with a row of a row group.
type rowError struct {
	record int // of the row group
	row    int // of the record
	err    error
}

func (e *rowError) Error() string { return fmt.Sprintf("record %d row %d: %v", e.record, e.row, e.err) }

func (e *rowError) Unwrap() error { return e.err }

// eachRow writes a row group row by row.
func (l *layout) eachRow(group []arrow.Record, write func(rec arrow.Record, row int) error) error {
	records, err := l.recordsOf(group)
	if err != nil {
		return err
	}
	for i, rec := range records {
		for row := range int(rec.NumRows()) {
			if err := write(rec, row); err != nil {
				return &rowError{i, row, err}
			}
		}
	}
	return nil
}
