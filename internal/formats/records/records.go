// Package records describes files that are runs of records, one after the other, and say nothing about where these are:
// lines of JSON or CSV, samples of a tar, frames of TFRecord, as they are or compressed by gzip or zstd. A folder of
// internal/formats has what is special about each of these formats, as a Kind; all else is here: what compresses a
// file, the scan that cuts it into extents, and what planning needs to know of these. The worker's half is
// worker/formats/records.
//
// Files are scanned from their front, never from their middle: a record may hold whatever looks like the begin of
// another one. Nothing in a file is trusted: what it claims is bounded before memory is taken for it.
package records

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Kind is a format whose files are runs of records. It may have Aliases, too, which are other names of it.
type Kind interface {
	// Name is the format's, as messages have it: "JSON lines".
	Name() string
	// Version is that of what Open says and of how Opened cuts: another one may cut other extents.
	Version() uint32
	// Extensions are those of files' names without the one of their compression, in lower case: ".jsonl".
	Extensions() []string
	// Options are those that the format has beside those of all (see Limits).
	Options() []Option
	// Claims reports whether a file of another name is of this format by its front, decompressed.
	Claims(front []byte) bool
	// Open reads a file's front.
	Open(f *Front) (Opened, error)
}

// Front is the front of a file, decompressed.
type Front struct {
	Data   []byte
	Whole  bool // it is all of the file
	How    *pb.Format
	Limits Limits
}

// Opened is a file whose front was read. It is immutable, and may be used by many goroutines at once.
type Opened interface {
	// Columns are those that the front shows, or the dataset declares.
	Columns() []spec.Column
	// Find says how a source is read. It fails if the file cannot have it.
	Find(s *pb.Source) (format.Access, error)
	// Cut measures what data begins with, which is where the last cut ended: n bytes, which are a record if row is set,
	// and else nothing but what stands between records: a blank line, padding, a header. It returns 0 if it takes more
	// data to tell, of which there is none behind it if end is set: then it must tell, or fail. What it returns must
	// not depend on how much data there is, and it tells once there are 8 MiB behind a record. At is 0 where the file
	// begins, and nowhere else; messages name places from data's begin on.
	Cut(data []byte, at int64, end bool) (n int, row bool, err error)
	// Size is about what it takes in memory.
	Size() int64
}

// Watched is an Opened whose scan sees more than its records do by themselves.
type Watched interface {
	// Watch begins to watch a scan. Take asks for memory before it is used, unless it is little.
	Watch(take func(bytes int64) error) Watch
}

// Watch sees a scan, and fails it.
type Watch interface {
	// Cut sees what was cut, and where in the file it begins, decompressed. It is not valid afterwards.
	Cut(data []byte, at int64, row bool) error
	// End sees where the file ends.
	End(at int64) error
}

// Headed is an Opened of a file that begins with what is no record, and in no extent: a header.
type Headed interface {
	// Begin is where the first record begins, decompressed, or what stands in front of it that Cut knows.
	Begin() int64
}

// Ahead is an Opened whose Cut looks at what is behind a record to tell that it ends.
type Ahead interface {
	// Behind is at how many bytes of it.
	Behind() int
	// Closes reports whether a record may end behind n bytes of data, though what there is behind that does not tell.
	Closes(data []byte, n int) bool
}

// Counted is an Opened whose front says how many records there are.
type Counted interface {
	Records() int64
}

// Option is an option of a format.
type Option struct {
	Name, Doc string
	Default   *pb.Value
	Cuts      bool // extents depend on it, or whether a file has any
}

// Format is a Kind as a format.
type Format struct{ Kind }

// Extensions are those of files' names.
func (f Format) Extensions() []string { return f.Kind.Extensions() }

// Aliases are other names that specs may give the format.
func (f Format) Aliases() []string {
	if of, ok := f.Kind.(interface{ Aliases() []string }); ok {
		return of.Aliases()
	}
	return nil
}

// Claims reports whether a file has a name of the format, or a front of it.
func (f Format) Claims(ctx context.Context, in *format.Input) (bool, error) {
	name := storage.Uncompressed(in.File.GetUri())
	if slices.Contains(f.Kind.Extensions(), path.Ext(name)) {
		return true, nil
	}
	_, front, err := f.front(ctx, in)
	if err != nil {
		return false, err
	}
	return front.Err == nil && len(front.Data) > 0 && f.Kind.Claims(front.Data), nil
}

// Describe reads a file's front.
func (f Format) Describe(ctx context.Context, in *format.Input) (format.File, error) {
	limits, err := f.limits(in.How)
	if err != nil {
		return nil, err
	}
	codec, front, err := f.front(ctx, in)
	if err == nil {
		err = front.Err
	}
	if err != nil {
		return nil, err
	}
	limits.Spacing = spacingOf(codec, in.File.GetSize())
	opened, err := f.open(ctx, in, codec, &Front{Data: front.Data, Whole: front.Whole, How: in.How, Limits: limits})
	if err != nil {
		return nil, err
	}
	columns := opened.Columns()
	if err := CheckColumns(len(columns)); err != nil {
		return nil, err
	}
	file := &File{
		Opened: opened, Codec: codec, Limits: limits, kind: f.Kind, size: in.File.GetSize(),
		columns: format.NewColumns(columns),
	}
	if err := in.Ask(file.Size()); err != nil {
		return nil, err
	}
	return file, nil
}

// MaxColumns bounds the columns of a file.
const MaxColumns = 10_000

// CheckColumns fails for more columns than a file may have. A kind that makes many of little calls it as it does so.
func CheckColumns(n int) error {
	if n > MaxColumns {
		return fmt.Errorf("it has more than %d columns, which is the most: write columns that belong together as one "+
			"list", MaxColumns)
	}
	return nil
}

// Limits bound what a file may make readers hold, and spend.
type Limits struct {
	Record int64 // bytes of one, decompressed
	Ratio  int64 // of a file's bytes to those that they decompress to; 0: any
	Extent int64 // about what the records of an extent have, decompressed
	// Spacing is how many stored bytes lie between the restarts of a long member of gzip; 0: the file has none.
	Spacing int64
}

// What limits are by default, and the options that raise them.
const (
	maxRecord      = 64 << 20
	maxRatio       = 1000
	optionRecord   = "max_record_bytes"
	optionRatio    = "max_ratio"
	ratioFromBytes = 16 << 20 // decompressed: what is short compresses as it likes
)

// Options are those of all kinds.
func Options() []Option {
	return []Option{
		{Name: optionRecord, Doc: "bytes of a record at most, decompressed", Default: intValue(maxRecord)},
		{
			Name: optionRatio, Doc: "how many bytes a byte of a file may decompress to at most",
			Default: intValue(maxRatio),
		},
	}
}

func intValue(n int64) *pb.Value { return &pb.Value{Kind: &pb.Value_Int{Int: n}} }

// limits checks a dataset's options.
func (f Format) limits(how *pb.Format) (Limits, error) {
	limits := Limits{Record: maxRecord, Ratio: maxRatio, Extent: extentBytes}
	known := append(Options(), f.Options()...)
	for name := range how.GetOptions() {
		if !slices.ContainsFunc(known, func(o Option) bool { return o.Name == name }) {
			var names []string
			for _, o := range known {
				names = append(names, o.Name)
			}
			return limits, fmt.Errorf("dataset.format: %s has no option %s; it has %s",
				f.Name(), name, strings.Join(names, ", "))
		}
	}
	for _, of := range []struct {
		name string
		to   *int64
	}{{optionRecord, &limits.Record}, {optionRatio, &limits.Ratio}} {
		v, ok := how.GetOptions()[of.name]
		if !ok {
			continue
		}
		if n, isInt := v.GetKind().(*pb.Value_Int); !isInt || n.Int < 1 || n.Int > 1<<31-1 {
			return limits, fmt.Errorf("dataset.format.%s: want a whole number from 1 to %d", of.name, 1<<31-1)
		}
		*of.to = v.GetInt()
	}
	return limits, nil
}

// Option is the value of an option, or its default; it fails if a dataset gives one of another type.
func (f *Front) Option(o Option) (*pb.Value, error) {
	v, ok := f.How.GetOptions()[o.Name]
	if !ok {
		return o.Default, nil
	}
	if fmt.Sprintf("%T", v.GetKind()) != fmt.Sprintf("%T", o.Default.GetKind()) {
		return nil, fmt.Errorf("dataset.format.%s: want %s", o.Name, o.wants())
	}
	return v, nil
}

// wants says in words what values an option has.
func (o Option) wants() string {
	switch o.Default.GetKind().(type) {
	case *pb.Value_Bool:
		return "true or false"
	case *pb.Value_Int:
		return "a whole number"
	case *pb.Value_List:
		return `a list, such as ["a", "b"]`
	}
	return "text"
}

// Declared are the columns that the dataset declares, in the order of their names.
func (f *Front) Declared() ([]spec.Column, error) {
	var out []spec.Column
	for name, text := range f.How.GetColumns() {
		c, ok := spec.ParseColumn(text)
		if !ok {
			return nil, fmt.Errorf("dataset.format.columns.%s: %q is no type; want one such as int64, float32, "+
				"string, bool, list<int64> or list<string>", name, text)
		}
		c.Name, c.Path = name, strings.Split(name, ".")
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b spec.Column) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

var errCut = errors.New("the file ends inside of a record: it is cut off")
