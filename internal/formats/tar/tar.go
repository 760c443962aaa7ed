// Package tar describes tars of samples as WebDataset has them: the members that share a name up to the first dot of
// its base are a sample, which is a record, and what follows that dot names a part of it, which is a column. It finds
// where samples begin and end, and what columns the front of a file shows; the worker's half, worker/formats/tar, finds
// the parts in a sample by the same Walk.
//
// Read are tars of ustar, GNU and PAX, and older ones. Nothing in them is trusted: what a header claims is bounded
// before it is believed.
package tar

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/records"
)

// Name is the format's.
const Name = "WebDataset"

// Kind is the format.
type Kind struct{}

// Name is the format's.
func (Kind) Name() string { return Name }

// Aliases are other names of it in specs.
func (Kind) Aliases() []string { return []string{"tar"} }

// Version is that of the rule by which samples are found.
func (Kind) Version() uint32 { return 1 }

// Extensions are those of files' names.
func (Kind) Extensions() []string { return []string{".tar", ".tgz"} }

// Claims reports whether a file begins with a header of a tar.
func (Kind) Claims(front []byte) bool {
	if len(front) < block {
		return false
	}
	_, err := parseHeader(front[:block], false)
	return err == nil
}

// File is a tar whose front was read.
type File struct {
	limits  limits
	columns format.Columns
	size    int64
}

var errEmpty = errors.New("the file is empty, which no tar is: write it again, or leave it out")

// Open looks at the samples of a file's front.
func (Kind) Open(f *records.Front) (records.Opened, error) {
	limits, err := limitsOf(f)
	if err != nil {
		return nil, err
	}
	if f.Whole && len(f.Data) == 0 {
		return nil, errEmpty
	}
	declared, err := declaredColumns(f)
	if err != nil {
		return nil, err
	}
	opened, seen := &File{limits: limits}, newSeen(declared)
	if err := opened.look(f, seen); err != nil {
		return nil, err
	}
	columns := seen.columns()
	for _, c := range columns {
		opened.size += int64(256 + 3*len(c.Name))
	}
	opened.columns = format.NewColumns(columns)
	return opened, nil
}

// look shows the samples of a file's front.
func (o *File) look(f *records.Front, to *seen) error {
	samples := 0
	for at := 0; at < len(f.Data); {
		n, row, least, err := o.measure(f.Data[at:], f.Whole)
		switch {
		case err != nil:
			return fmt.Errorf("byte %d: %w", at, err)
		case n == 0 && samples == 0 && !f.Whole:
			return &records.FrontError{At: int64(at), Record: int64(least), Ahead: ahead(least, len(f.Data)-at)}
		case n == 0:
			return nil
		}
		if row {
			samples++
			if err := to.sample(f.Data[at : at+n]); err != nil {
				return fmt.Errorf("sample at byte %d: %w", at, err)
			}
		}
		at += n
	}
	if samples == 0 && !f.Whole {
		return &records.FrontError{At: int64(len(f.Data)), Ahead: headers}
	}
	return nil
}

// headers is what those of a member take, mostly: as PAX has them three blocks, and a name may take another one.
const headers = 4 * block

// ahead is what is to be seen behind a sample of which there are so many bytes at least: where the next one begins.
func ahead(least, there int) int64 {
	return int64(max(0, there-least) + headers)
}

// declaredColumns are the columns that the dataset declares. A name with dots is that of one column.
func declaredColumns(f *records.Front) ([]spec.Column, error) {
	columns, err := f.Declared()
	for i := range columns {
		c := &columns[i]
		c.Path = []string{c.Name}
		part, path := PartOf(c.Name)
		if part != strings.ToLower(part) {
			return nil, fmt.Errorf("dataset.format.columns.%s: names of parts are in small letters: declare %s", c.Name,
				strings.ToLower(part)+c.Name[len(part):])
		}
		switch how := kindOfPart(part); {
		case how == isJSON || how == isNpy && len(path) == 0:
		case c.Type.List:
			return nil, fmt.Errorf("dataset.format.columns.%s: it is %s, and lists are those of parts whose names "+
				"end in npy or json; declare it as binary or as a number", c.Name, c.Type)
		}
	}
	return columns, err
}

// Columns are those of the samples in the file's front, and those that the dataset declares.
func (o *File) Columns() []spec.Column { return o.columns.Schema.Columns }

// Size is about what the description takes in memory.
func (o *File) Size() int64 { return o.size }

// Find says how a source is read. What the front does not show may be behind it.
func (o *File) Find(s *pb.Source) (format.Access, error) {
	if s.Key != nil {
		return format.Absent, fmt.Errorf("column %s is no map here", strings.Join(s.GetPath(), "."))
	}
	how, _, err := o.columns.Find(s)
	if err != nil && !o.loose(s) {
		return how, err
	}
	return format.Plain, nil
}

// loose reports whether a source may be of another type than the front shows: what a sample has is looked at.
func (o *File) loose(s *pb.Source) bool {
	i, ok := o.columns.Column(s.GetPath()[0])
	if !ok || len(s.GetPath()) != 1 {
		return false
	}
	c, want := &o.columns.Schema.Columns[i], spec.TypeFromProto(s.GetType())
	return c.Inferred || c.Unsupported == "" && c.Meaning == s.GetMeaning() && c.Type.List == want.List &&
		c.Type.Nested == want.Nested && isNumber(c.Type.Kind) && isNumber(want.Kind)
}

func isNumber(k pb.Kind) bool { return k != pb.Kind_BOOL && spec.Width(k) > 0 }

// IsText reports whether the values of a column are text.
func (o *File) IsText(name string) bool {
	if i, ok := o.columns.Column(name); ok {
		return o.Columns()[i].Text
	}
	part, path := PartOf(name)
	return len(path) == 0 && kindOfPart(part) == isText
}

// Own is the small kind that a column is declared to have; KIND_UNSPECIFIED: none.
func (o *File) Own(name string) pb.Kind {
	if i, ok := o.columns.Column(name); ok {
		return o.Columns()[i].Own
	}
	return pb.Kind_KIND_UNSPECIFIED
}

// Shape is what the file's front says that all arrays of a column have; nil: nothing.
func (o *File) Shape(name string) []int32 {
	if i, ok := o.columns.Column(name); ok {
		return o.Columns()[i].Shape
	}
	return nil
}

// sorted are columns in the order of their names: samples need not have their parts in one order.
func sorted(columns []spec.Column) []spec.Column {
	slices.SortFunc(columns, func(a, b spec.Column) int { return strings.Compare(a.Name, b.Name) })
	return columns
}
