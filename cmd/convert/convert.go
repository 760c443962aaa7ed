// Package convert turns files of all formats that sessions read into Parquet that is good to train from: typed columns,
// row groups of a chosen size, zstd, v2 pages, dictionaries where they pay, statistics, page indexes. It writes other
// formats (to.go), too. `penstock convert` is its command, and `penstock diff` compares what two datasets hold.
//
// A source makes records of the inputs: of text (text.go), Parquet (parquet.go) and Arrow (arrow.go), whose types it
// keeps all, and of other formats by workers' decoders (decoded.go). Other sources put these in order (sort.go) and in
// the folders of partitions (partition.go). A cutter (pump.go) says where row groups and files end. A writer
// (write.go) collects row groups. A layout (layout.go; flattened.go where maps and structs become columns; order.go)
// makes the output's columns of them, and an encoder (encode.go, package encode) encodes these. An output (output.go)
// is seen when it is complete. A journal tells a later run what is finished (journal.go). Memory is bounded by about
// two row groups, a block of rows that are sorted, of Parquet inputs a page and a dictionary a column, and of MDS a
// shard that is written. Run reads in one goroutine and writes in another and waits for both; calls of Run with
// different outputs do not touch each other.
package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Options says what Run does. Zero values stand for the defaults given.
type Options struct {
	// Inputs are files of one format that sessions read, or tables of text in .txt, one after another. A folder stands
	// for such files below it, but for those whose names, or whose folders' names, begin with "." or "_". A glob stands
	// for the files that match, as in datasets. Files of Parquet, Arrow and text have the same columns. Those of others
	// have the columns that a session would see.
	Inputs []string `json:"-"`
	// Format, if not nil, says how the inputs are read, as a spec's dataset.format: then folders stand for the files
	// that sessions read of them, and text is read as sessions do.
	Format *pb.Format `json:"-"`
	// Split and Subset choose among the files of one folder, as a spec's dataset.split and dataset.subset.
	Split  string `json:"-"`
	Subset string `json:"-"`
	// SkipRows is how many rows that cannot be decoded are left out at most, of formats of which sessions can do so.
	SkipRows int64 `json:",omitempty"`
	// Store reads the inputs; default: one whose profiles follow the environment. Profile is that of the inputs.
	Store   *storage.Store `json:"-"`
	Profile string         `json:"-"`
	// Output is a directory, which will hold part-00000.parquet and so on, or a single file, if it ends with .parquet
	// or as another of the formats does. It may lie in another store, where OutProfile, that of the output, lists what
	// may be written.
	Output     string `json:"-"`
	OutProfile string `json:"-"`
	// To is the format that is written, one of Formats; default: the one that Output's name tells, or else Parquet.
	To string `json:",omitempty"`
	// Delimiter of text files, one character; default: a tab for .tsv and .tab, a comma for .csv.
	Delimiter string
	// Quote is the character that protects fields of text files: default ", or none.
	Quote string
	// Nulls are texts of fields that stand for no value, as an empty field does, unless they are quoted.
	Nulls []string
	// TimeFormats are those of dates and times in text files, as of strptime (%d.%m.%Y); default: ISO 8601.
	TimeFormats times
	// NoHeader says that text files begin with data. Else their first line names the columns. Where that looks like
	// data it is an error, unless Header says that it does name them, or its layout is a preset's.
	NoHeader, Header bool
	// Columns are the names of those that are wanted, or declares columns of text files, as "name:type". Without a
	// header these are all columns in their order (default: col_0, col_1, ...), of which those without a type have it
	// inferred; with one, any of them, and the others stay. Types are bool, int32, int64, float32, float64, string,
	// binary, hex (hexadecimal digits to int64), date, timestamp (to microseconds) and timestamp[ns]. A preset's name
	// alone (criteo) stands for its columns, and for NoHeader.
	Columns []string
	// Hex are names or globs of columns that hold hexadecimal hashes, which become int64.
	Hex []string
	// InferRows is how many rows of the first file are looked at to infer types; default 10,000.
	InferRows int
	// RowGroupRows and RowGroupBytes (in memory) bound a row group; default 65,536 and 64 MiB.
	RowGroupRows  int64
	RowGroupBytes int64
	// Compression of MDS: zstd, or none, which is the default.
	Compression string `json:",omitempty"`
	// FileRows is the number of rows after which another file begins; default: all in one.
	FileRows int64
	// FileBytes is the size after which another file begins, at the end of a row group; default: all in one.
	FileBytes int64 `json:",omitempty"`
	// Shuffle, if not nil, is the seed by which all rows are shuffled. Of the same inputs it makes the same order.
	Shuffle *int64 `json:",omitempty"`
	// SortBy sorts all rows by columns: "column" or "column:desc". Equal rows keep the inputs' order; nulls are last.
	SortBy []string
	// PartitionBy divides the rows by columns, which become folders: day=2026-01-02/country=DE. Within them rows keep
	// the inputs' order, or are sorted.
	PartitionBy []string
	// Overwrite replaces an output that is there already.
	Overwrite bool `json:"-"`
	// Restart drops what an unfinished run with this output left. Else a run goes on behind the files that an earlier
	// one finished, if its inputs and options are the same.
	Restart bool `json:"-"`
	// Verify reads the output back, and compares it with the inputs row by row.
	Verify bool `json:"-"`
	// Flatten makes columns of keys of maps, and of fields of structs, named as specs select them. A map stays, with
	// the keys that are not in columns.
	Flatten []Flattening `json:",omitempty"`
	// RestBelow is the share of rows below which a key that has no more stays in its map.
	RestBelow float64 `json:",omitempty"`
	// Order, if not nil, says how the output's columns follow each other; else they do as those of the inputs.
	Order *Order `json:",omitempty"`
	// DryRun ends before anything is written. Its result has the columns and notes alone.
	DryRun bool `json:"-"`
	// Progress, if not nil, is called after every few thousand rows, by one goroutine at a time.
	Progress func(Progress) `json:"-"`

	together int // files of partitions that a disk is given at once; default: fewFiles
}

// Progress is how far Run is.
type Progress struct {
	Rows              int64
	Read, BytesToRead int64 // bytes of the input files, compressed as they are
	Counting          bool  // keys are counted, before anything is written
}

// Result is what Run made.
type Result struct {
	Files   []string `json:"files"`
	Rows    int64    `json:"rows"`
	Bytes   int64    `json:"bytes"`
	Columns []string `json:"columns"` // "name: type"
	// Skipped is how many rows were left out, since they cannot be decoded.
	Skipped int64 `json:"skipped,omitempty"`
	// Verified says that the output was compared with the inputs, and is equal.
	Verified bool `json:"verified,omitempty"`
	// Notes tell what was assumed, and what of a folder was left out.
	Notes []string `json:"notes,omitempty"`
}

// Defaults of Options.
const (
	defaultInferRows     = 10_000
	defaultRowGroupRows  = 1 << 16
	defaultRowGroupBytes = 64 << 20
	shardBytes           = 64 << 20
)

// check fills in defaults and reports what cannot be.
func (o *Options) check() error {
	if err := errors.Join(o.checkInputs(), o.checkFlatten()); err != nil {
		return err
	}
	switch {
	case o.Output == "":
		return errors.New("no output")
	case o.InferRows < 0 || o.RowGroupRows < 0 || o.RowGroupBytes < 0 || o.FileRows < 0 || o.FileBytes < 0 ||
		o.SkipRows < 0:
		return errors.New("counts of rows and bytes cannot be negative")
	case o.FileRows > 0 && o.FileBytes > 0:
		return errors.New("files end by their rows or by their bytes: give --file-rows or --file-bytes")
	}
	if err := o.checkTo(); err != nil {
		return err
	}
	if o.InferRows == 0 {
		o.InferRows = defaultInferRows
	}
	if o.RowGroupRows == 0 {
		o.RowGroupRows = defaultRowGroupRows
	}
	if o.RowGroupBytes == 0 {
		o.RowGroupBytes = defaultRowGroupBytes
	}
	if o.To == asMDS {
		o.boundShards()
	}
	if len(o.PartitionBy) > 0 && isOne(o.Output) {
		return fmt.Errorf("output %s is one file, and partitions are folders (--partition-by): name a directory by "+
			"--out", o.Output)
	}
	if (o.FileRows > 0 || o.FileBytes > 0) && isOne(o.Output) {
		return fmt.Errorf("output %s is one file, but --file-rows and --file-bytes make several: name a directory by "+
			"--out", o.Output)
	}
	return nil
}

// boundShards has shards of MDS, which are in memory, end after the bytes after which those of mosaicml-streaming do,
// unless something else is said. Files end with row groups, so these are less.
func (o *Options) boundShards() {
	if o.FileRows == 0 && o.FileBytes == 0 {
		o.FileBytes = shardBytes
	}
	if o.FileBytes > 0 {
		o.RowGroupBytes = min(o.RowGroupBytes, max(1<<16, o.FileBytes/16))
	}
}

func (o *Options) checkInputs() error {
	if len(o.Inputs) == 0 {
		return errors.New("no input files")
	}
	if o.Quote != "" && o.Quote != "none" && (len(o.Quote) != 1 || o.Quote[0] >= 0x80 || o.Quote == o.Delimiter ||
		strings.ContainsAny(o.Quote, "\r\n")) {
		return fmt.Errorf("the quote %q is not one ASCII character other than the delimiter and a line end, nor none",
			o.Quote)
	}
	return o.TimeFormats.checked()
}

// quote is the character that protects fields; 0 is none.
func (o *Options) quote() byte {
	switch o.Quote {
	case "":
		return '"'
	case "none":
		return 0
	}
	return o.Quote[0]
}

// errEnd is after the last line or row. It is not io.EOF, which readers of damaged files wrap.
var errEnd = errors.New("end of the input")

// source makes records of input files.
type source interface {
	// schema of all records.
	schema() *arrow.Schema
	// next returns the next rows, at most limit, and errEnd after the last.
	next(ctx context.Context, limit int64) (arrow.Record, error)
	// behind is the place behind the last record.
	behind() place
	// seek goes to the beginning of an input.
	seek(ctx context.Context, input int) error
	// read is the number of input bytes used so far, of how many.
	read() (used, total int64)
	close()
}

// Run converts the inputs. On any error no output appears, and one that was there before stays as it is.
func Run(ctx context.Context, o Options) (r Result, err error) {
	defer func() {
		if err != nil {
			r, err = Result{}, fmt.Errorf("convert: %w", err)
		}
	}()
	if err := o.check(); err != nil {
		return r, err
	}
	if o.Store == nil {
		if o.Store, err = storage.New(storage.Config{}); err != nil {
			return r, err
		}
		defer o.Store.Close()
	}
	in, err := find(ctx, o)
	if err != nil {
		return r, err
	}
	if note := o.recognise(ctx, &in); note != "" {
		in.notes = append(in.notes, note)
	}
	src, err := openSource(ctx, o, &in)
	if err != nil {
		return r, err
	}
	in.notes = append(in.notes, unseen(&o, src)...)
	from := src
	defer func() { src.close() }()
	if o.Verify {
		if _, err := readBackOf(&o, src.schema()); err != nil {
			return r, err
		}
	}
	where, err := arrangementOf(o, src.schema())
	if err != nil {
		return r, err
	}
	if o.DryRun {
		l, _, err := arranged(ctx, o, &in, src, nil)
		if err != nil {
			return r, err
		}
		return Result{Columns: l.described(), Notes: in.notes}, nil
	}
	out, err := newOutput(ctx, o, &in) // before the inputs are read, which may take long
	if err != nil {
		return r, err
	}
	defer func() { err = out.abandon(err) }()
	l, order, err := arranged(ctx, o, &in, src, out.done().order)
	if err != nil {
		return r, err
	}
	if err := out.start(ctx, order); err != nil {
		return r, err
	}
	src = where.of(src, o, &in, out.scratch())
	if len(out.done().files) > 0 {
		in.notes = append(in.notes, out.done().note())
	}
	if err := pump(ctx, o, &in, src, l, out); err != nil {
		return r, err
	}
	left := skippedOf(from, out.done())
	if r, err = result(ctx, o, l, out, append(in.notes, left.notes()...)); err == nil && o.Verify {
		err = verify(ctx, o, &in, r.Files)
		r.Verified = err == nil
	}
	r.Skipped = left.rows
	return r, err
}

// arranged is the layout of an output, with its columns in their order: that of an earlier run, or else the one that is
// asked for.
func arranged(ctx context.Context, o Options, in *inputs, src source, kept []int) (*layout, []int, error) {
	if o.Order != nil && o.Order.Begin != nil && kept == nil {
		if err := o.Order.Begin(ctx); err != nil {
			return nil, nil, err
		}
	}
	l, err := layoutOf(ctx, o, in, src.schema())
	if err != nil {
		return nil, nil, err
	}
	l = l.without(o.PartitionBy)
	order := kept
	if kept != nil {
		in.notes = append(in.notes, "columns lie as the earlier run ordered them")
	} else if order, err = orderOf(ctx, o, src, l); err != nil {
		return nil, nil, err
	}
	return l, order, l.arrange(order)
}

// result publishes the output and tells of it.
func result(ctx context.Context, o Options, l *layout, out output, notes []string) (r Result, err error) {
	var beside *attached
	if of := o.to(); of.beside != nil {
		if beside, err = of.beside(&o, l, out.done().files); err != nil {
			return r, err
		}
	}
	if r.Files, err = out.publish(ctx, beside); err != nil {
		return r, err
	}
	r.Rows, r.Notes = out.done().rows(), notes
	for _, f := range out.done().files {
		r.Bytes += f.Bytes
	}
	r.Columns = l.described()
	return r, nil
}

func openSource(ctx context.Context, o Options, in *inputs) (source, error) {
	if in.table != nil {
		if err := o.noSkips("tables", in.table.URI); err != nil {
			return nil, err
		}
		return openDecoded(ctx, o, in)
	}
	first := o.kindOf(in.files[0].GetUri())
	for i, f := range in.files {
		if other := o.kindOf(f.GetUri()); other != first {
			return nil, differ(in, i, first, other)
		}
	}
	if slices.Contains([]string{"Parquet", "Arrow", asText}, first) {
		if err := o.noSkips(first, in.files[0].GetUri()); err != nil {
			return nil, err
		}
	}
	switch first {
	case "Parquet":
		return openParquet(ctx, o, in)
	case "Arrow":
		return openArrow(ctx, o, in)
	case asText:
		return openText(ctx, o, in)
	}
	return openDecoded(ctx, o, in)
}

// noSkips refuses to leave rows of other files out than those of records.
func (o *Options) noSkips(kind, name string) error {
	switch {
	case o.SkipRows == 0:
		return nil
	case kind == asText:
		as := cmp.Or(strings.ToLower(storage.FormatOf(name)), "csv")
		return fmt.Errorf("--skip-rows leaves no rows out of text whose format is not named: give --format %s, too", as)
	}
	return fmt.Errorf("--skip-rows leaves no rows out of %s, which has no records that are read one by one: leave it "+
		"out", kind)
}

// noText refuses what is said of text files only.
func (o *Options) noText() error {
	if len(o.Columns) > 0 {
		return errors.New("--columns is for text and for records, and these files say themselves which columns they " +
			"have: leave it out, and all are converted")
	}
	return o.noTable()
}

// noTable refuses what is said only of tables of text whose format is not named.
func (o *Options) noTable() error {
	var given []string
	for _, f := range []struct {
		flag  string
		given bool
	}{
		{"--delimiter", o.Delimiter != ""},
		{"--quote", o.Quote != ""},
		{"--null", len(o.Nulls) > 0},
		{"--time-format", len(o.TimeFormats) > 0},
		{"--no-header", o.NoHeader || o.Header},
	} {
		if f.given {
			given = append(given, f.flag)
		}
	}
	if len(given) == 0 {
		return nil
	}
	flags, be := english.WordSeries(given, "and"), english.PluralWord(len(given), "is", "are")
	if name := strings.ToLower(o.Format.GetName()); name == "csv" || name == "tsv" {
		return fmt.Errorf("%s %s not read beside --format %s, which says itself how text is read: write it there, as "+
			"in --format '{name: %s, quote: \"'\", nulls: [NA]}', or leave --format out", flags, be, name, name)
	}
	return fmt.Errorf("%s %s for tables of text, and these files are none: leave %s out", flags, be,
		english.PluralWord(len(given), "it", "them"))
}
