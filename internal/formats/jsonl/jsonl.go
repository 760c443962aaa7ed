// Package jsonl describes files of JSON lines: a record is an object of JSON on a line of its own. Columns are the
// names at the top, those of objects within by dotted paths, and those of objects in lists as lists. Their types are
// those that the file's front shows, or that the dataset declares. The worker's half is worker/formats/jsonl, which
// reads records by this package's Scanner.
package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/records"
)

// Kind is the format.
type Kind struct{}

// Name is the format's.
func (Kind) Name() string { return "JSON lines" }

// Aliases are what specs may call it, too.
func (Kind) Aliases() []string { return []string{"jsonl", "ndjson", "json"} }

// Version is that of how files are cut.
func (Kind) Version() uint32 { return 1 }

// Extensions are those of files' names. Those in .json are known by what they have.
func (Kind) Extensions() []string { return []string{".jsonl", ".ndjson"} }

// Options are none.
func (Kind) Options() []records.Option { return nil }

// Claims reports whether a front is that of an object, or of a list of objects, which Open refuses and says why.
func (Kind) Claims(front []byte) bool {
	s := &Scanner{Data: bytes.TrimPrefix(front, mark())}
	if s.Peek() == '[' {
		s.At++
	}
	if s.Peek() != '{' {
		return false
	}
	s.At++
	c := s.Peek()
	return c == '"' || c == '}'
}

// mark is what some writers begin a file with.
func mark() []byte { return []byte("\ufeff") }

// File is a file whose front was read.
type File struct {
	columns []spec.Column
}

// Open finds the columns that the front shows.
func (Kind) Open(f *records.Front) (records.Opened, error) {
	declared, err := f.Declared()
	if err != nil {
		return nil, err
	}
	for _, c := range declared {
		if err := canBe(&c); err != nil {
			return nil, err
		}
	}
	seen, err := infer(f)
	if err != nil {
		return nil, err
	}
	return &File{columns: declare(seen, declared)}, nil
}

// canBe fails for declared types that no values of JSON are.
func canBe(c *spec.Column) error {
	switch kind := c.Type.Kind; {
	case len(c.Shape) > 0:
		return fmt.Errorf("dataset.format.columns.%s: a tensor is a list in JSON: declare it list<%s>", c.Name,
			spec.KindName(kind))
	case c.Own == pb.Kind_FLOAT16 || c.Own == pb.Kind_BFLOAT16:
		return fmt.Errorf("dataset.format.columns.%s: JSON has no %s; declare it float32", c.Name, spec.KindName(c.Own))
	}
	return nil
}

// declare puts declared columns in the place of those that were seen.
func declare(seen, declared []spec.Column) []spec.Column {
	for _, d := range declared {
		at := slices.IndexFunc(seen, func(c spec.Column) bool { return c.Name == d.Name })
		if at >= 0 {
			d.Path = seen[at].Path
		}
		seen = slices.DeleteFunc(seen, func(c spec.Column) bool {
			n := min(len(c.Path), len(d.Path))
			return slices.Equal(c.Path[:n], d.Path[:n])
		})
		if at < 0 || at > len(seen) {
			at = len(seen)
		}
		seen = slices.Insert(seen, at, d)
	}
	return seen
}

// Columns are those that the front shows, or the dataset declares.
func (f *File) Columns() []spec.Column { return f.columns }

// Size is about what they take.
func (f *File) Size() (n int64) {
	for _, c := range f.columns {
		n += 256 + int64(2*len(c.Name))
	}
	return n
}

// Own is the small kind that a column is declared to have; KIND_UNSPECIFIED: none.
func (f *File) Own(path []string) pb.Kind {
	for _, c := range f.columns {
		if slices.Equal(c.Path, path) {
			return c.Own
		}
	}
	return pb.Kind_KIND_UNSPECIFIED
}

// Find takes any source that values of JSON can be: the file's front does not show what comes behind it. What a record
// has then is checked where it is read.
func (f *File) Find(s *pb.Source) (format.Access, error) {
	name, want := spec.ColumnName(s.GetPath(), s.GetField()), spec.TypeFromProto(s.GetType())
	switch kind := want.Kind; {
	case s.Key != nil:
		return 0, fmt.Errorf("column %s is an object here, not a map: its names are columns of their own", name)
	case s.GetMeaning() != "":
		return 0, fmt.Errorf("column %s: JSON has no %s", name, s.GetMeaning())
	case kind == pb.Kind_FLOAT16 || kind == pb.Kind_BFLOAT16 || kind == pb.Kind_PICTURE:
		return 0, fmt.Errorf("column %s: JSON has no %s", name, want)
	}
	for i := range f.columns {
		c := &f.columns[i]
		if c.Inferred || !slices.Equal(c.Path, s.GetPath()) {
			continue
		}
		if have := c.Type; want.List != have.List || want.Nested != have.Nested ||
			want.Kind != c.Own && !format.Widens(have.Kind, want.Kind) {
			return 0, fmt.Errorf("column %s is %s here, which cannot be read as %s", name, have, want)
		}
	}
	return format.Plain, nil
}

// Cut finds the end of a line. Blank lines, and the mark at a file's front, are no records.
func (f *File) Cut(data []byte, at int64, end bool) (n int, row bool, err error) {
	if at == 0 && len(data) > 0 && data[0] == mark()[0] {
		if len(data) < len(mark()) && !end {
			return 0, false, nil
		}
		if bytes.HasPrefix(data, mark()) {
			return len(mark()), false, nil
		}
	}
	if n = bytes.IndexByte(data, '\n') + 1; n == 0 {
		if !end {
			return 0, false, nil
		}
		n = len(data)
	}
	s := &Scanner{Data: data[:n]}
	s.Peek()
	return n, s.At < n, nil
}

var (
	errArray = errors.New("it is one list of JSON, not JSON lines: write each of its elements on a line, as " +
		"`jq -c '.[]'` does")
	errDocument = errors.New("its first line is not a whole object of JSON, as if one were written over many lines: " +
		"write each on a line, as `jq -c .` does")
)
