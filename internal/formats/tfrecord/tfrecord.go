// Package tfrecord describes files of TFRecord whose records are of tf.train.Example: which features they have, and of
// which types these are, as the dataset declares or the front of a file shows. It is a Kind of package records; package
// tfrecord of worker/formats reads the values, by what this one knows of the records' bytes, of which it trusts none.
// What it describes is immutable.
package tfrecord

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/records"
)

// Kind is TFRecord.
type Kind struct{}

// Name is the format's.
func (Kind) Name() string { return "TFRecord" }

// Version is that of the rule by which files are cut.
func (Kind) Version() uint32 { return 1 }

// Extensions are those of files' names.
func (Kind) Extensions() []string { return []string{".tfrecord", ".tfrecords", ".tfrec"} }

// Options are none.
func (Kind) Options() []records.Option { return nil }

// Claims takes what begins with a length and its checksum.
func (Kind) Claims(front []byte) bool {
	return len(front) >= headBytes && sumFits(front[:lengthBytes], front[lengthBytes:headBytes])
}

// Opened is a file whose front was read.
type Opened struct {
	columns  format.Columns
	declared map[string]bool
	size     int64
}

// Open reads a file's front.
func (Kind) Open(f *records.Front) (records.Opened, error) {
	o := &Opened{declared: map[string]bool{}}
	columns, err := declared(f)
	if err != nil {
		return nil, err
	}
	for _, c := range columns {
		o.declared[c.Name] = true
	}
	shown, err := o.infer(f)
	if err != nil {
		return nil, err
	}
	for _, c := range shown {
		if !o.declared[c.Name] {
			columns = append(columns, c)
		}
	}
	for _, c := range columns {
		o.size += int64(2*len(c.Name)) + columnBytes
	}
	o.columns = format.NewColumns(columns)
	return o, nil
}

// columnBytes is about what a column takes.
const columnBytes = 400

// declared are the columns that the dataset declares.
func declared(f *records.Front) ([]spec.Column, error) {
	columns, err := f.Declared()
	if err != nil {
		return nil, err
	}
	for i := range columns {
		c := &columns[i]
		c.Path = []string{c.Name} // dots mean nothing
		switch c.Type.Kind {
		case pb.Kind_BINARY, pb.Kind_FLOAT32, pb.Kind_FLOAT64, pb.Kind_INT32, pb.Kind_INT64:
			if c.Type.Nested == 0 && c.Own != pb.Kind_FLOAT16 && c.Own != pb.Kind_BFLOAT16 {
				continue
			}
		}
		return nil, fmt.Errorf("dataset.format.columns.%s: no feature of an Example is %s; there are binary, string, "+
			"integers, float32, float64 and lists of them", c.Name, f.How.GetColumns()[c.Name])
	}
	return columns, nil
}

// shown is what the front shows of a feature.
type shown struct {
	kinds []pb.Kind
	list  bool // a record has another number of values than one
}

// infer finds the features, in the order of their names. What is wrong with a record is told where it is read, but for
// the first one, which tells whether there are Examples.
func (o *Opened) infer(f *records.Front) (columns []spec.Column, err error) {
	found := map[string]*shown{}
	rest, at, n := f.Data, int64(0), 0
	for size := 0; len(rest) > 0; rest, at, n = rest[size:], at+int64(size), n+1 {
		if size, _, err = o.Cut(rest, at, f.Whole); err == nil && size > 0 {
			err = show(found, rest[:size])
		}
		if len(found) > records.MaxColumns {
			return nil, records.CheckColumns(len(found))
		}
		if err != nil && n == 0 {
			return nil, fmt.Errorf("byte %d: %w", at, err)
		}
		if err != nil || size == 0 {
			break
		}
	}
	if n == 0 && len(f.Data) >= headBytes && !f.Whole && len(o.declared) == 0 {
		return nil, &records.FrontError{Record: int64(binary.LittleEndian.Uint64(f.Data)) + headBytes + sumBytes}
	}
	for name, s := range found {
		columns = append(columns, s.column(name))
	}
	slices.SortFunc(columns, func(a, b spec.Column) int { return strings.Compare(a.Name, b.Name) })
	return columns, nil
}

// show adds what a record has.
func show(found map[string]*shown, record []byte) error {
	example, err := Payload(record)
	if err != nil {
		return err
	}
	features := NewFeatures(example)
	for {
		name, feature, ok, err := features.Next()
		if err != nil || !ok {
			return err
		}
		list, err := ListOf(feature)
		if err != nil {
			return err
		}
		count, err := list.Count()
		if err != nil {
			return err
		}
		s := found[string(name)]
		if s == nil {
			if len(found) > records.MaxColumns {
				return nil
			}
			s = &shown{}
			found[string(name)] = s
		}
		if list.Kind != pb.Kind_KIND_UNSPECIFIED {
			s.list = s.list || count != 1
			if !slices.Contains(s.kinds, list.Kind) {
				s.kinds = append(s.kinds, list.Kind)
			}
		}
	}
}

// column is the feature's.
func (s *shown) column(name string) spec.Column {
	c := spec.Column{Name: name, Path: []string{name}, Inferred: true}
	switch len(s.kinds) {
	case 0:
		c.Untyped, c.Unsupported = true, format.Untyped
	case 1:
		c.Type = spec.Type{Kind: s.kinds[0], List: s.list}
	default:
		c.Unsupported = fmt.Sprintf("%s in some records and %s in others", spec.KindName(s.kinds[0]),
			spec.KindName(s.kinds[1]))
	}
	return c
}

// Columns are those of the file.
func (o *Opened) Columns() []spec.Column { return slices.Clone(o.columns.Schema.Columns) }

// Size is about what it takes in memory.
func (o *Opened) Size() int64 { return o.size }

// Find says how a source is read: any record may have a feature that the front does not show.
func (o *Opened) Find(s *pb.Source) (format.Access, error) {
	how, _, err := o.columns.Find(s)
	switch {
	case err == nil && !how.Stored() && len(s.GetPath()) == 1 && s.Key == nil && s.GetMeaning() == "":
		return format.Plain, nil
	case err == nil || len(s.GetPath()) != 1:
		return how, err
	}
	c, ok := o.columns.Column(s.GetPath()[0])
	if !ok || o.declared[s.GetPath()[0]] {
		return how, err
	}
	// One value in each record of the front may be a list of one, and the other way round.
	inferred, want := &o.columns.Schema.Columns[c], spec.TypeFromProto(s.GetType())
	if s.Key == nil && inferred.Unsupported == "" && want.Nested == 0 && s.GetMeaning() == "" &&
		format.Widens(inferred.Type.Kind, want.Kind) {
		return format.Plain, nil
	}
	return how, fmt.Errorf("%w: that is what the file's front shows; declare dataset.format.columns.%s", err,
		inferred.Name)
}

// Shape is how many values each row of a source has, if the dataset declares that; 0: any number.
func (o *Opened) Shape(s *pb.Source) int {
	i, ok := o.columns.Column(s.GetPath()[0])
	if !ok || len(o.columns.Schema.Columns[i].Shape) == 0 {
		return 0
	}
	n := 1
	for _, d := range o.columns.Schema.Columns[i].Shape {
		n *= int(d)
	}
	return n
}
