package convert

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/penstock-ml/penstock/internal/formats/tar"
)

// tarPart is a file of each sample.
type tarPart struct {
	name string // behind the key and a dot
	// encode makes it of a row; nil: the row has none.
	encode func(rec arrow.Record, row int) ([]byte, error)
}

// tarLayout says which columns are which parts. Who reads a tar knows a part's type by the end of its name.
type tarLayout struct {
	key   int // the column of samples' names; -1: they are numbered
	parts []tarPart
}

const (
	textEnd = ".txt"
	intEnd  = ".cls"
	jsonEnd = ".json"
)

func tarLayoutOf(l *layout) (*tarLayout, error) {
	out := &tarLayout{key: -1}
	taken := map[string]string{} // by part, the column
	documents := map[string]*document{}
	for i, c := range l.columns {
		f := c.field
		if namesSamples(f) {
			out.key = i
			continue
		}
		name, err := tarName(f)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		part, path := tar.PartOf(name)
		of := documents[part]
		if other, double := taken[part]; double && (of == nil || len(path) == 0) {
			return nil, fmt.Errorf("columns %q and %q are both to be the file %s of a sample: rename one", other,
				f.Name, part)
		}
		taken[part] = f.Name
		switch {
		case len(path) == 0:
			out.parts = append(out.parts, tarPart{part, partEncoder(part, f.Type, i)})
		case of == nil:
			of = &document{column: -1}
			documents[part] = of
			out.parts = append(out.parts, tarPart{part, of.encode})
			fallthrough
		default:
			if err := of.add(path, i); err != nil {
				return nil, fmt.Errorf("column %q: %w", f.Name, err)
			}
		}
	}
	return out, nil
}

// namesSamples reports whether a column is that of samples' names.
func namesSamples(f arrow.Field) bool { return f.Name == tar.Key && isText(f.Type) }

// tarName is the name of the part that a column is, or of a field of one: one that says its type.
func tarName(f arrow.Field) (string, error) {
	name := f.Name
	if name == "" || name != string(tar.Lower([]byte(name))) || strings.ContainsAny(name, "/\x00") {
		return "", errors.New("its name is to be an extension of files in a tar, which has small letters and no " +
			"slash: rename it")
	}
	if part, path := tar.PartOf(name); len(path) > 0 {
		if err := checkLines(f.Type); err != nil {
			return "", fmt.Errorf("it is a field of the JSON in %s: %w", part, err)
		}
		return name, nil
	}
	end, fits := textEnd, tar.IsText(name)
	switch t := f.Type; {
	case isBytes(t):
		if tar.IsText(name) || tar.IsInt(name) || tar.IsJSON(name) || tar.IsNpy(name) {
			return "", errors.New("it has bytes, and a name whose end says something else: rename it")
		}
		return name, nil
	case arrow.IsInteger(t.ID()):
		end, fits = intEnd, tar.IsInt(name)
	case tar.IsNpy(name) && npyDescr(t) != "":
		return name, nil
	case t.ID() == arrow.BOOL, isFloat(t), isNested(t):
		if err := checkLines(t); err != nil {
			return "", err
		}
		end, fits = jsonEnd, tar.IsJSON(name)
	}
	if !fits {
		name += end
	}
	if _, path := tar.PartOf(name); len(path) > 0 {
		return "", fmt.Errorf("as %s it would be a field of JSON: rename it", name)
	}
	return name, nil
}

func isBytes(t arrow.DataType) bool {
	id := t.ID()
	return id == arrow.BINARY || id == arrow.LARGE_BINARY || id == arrow.FIXED_SIZE_BINARY
}

func isFloat(t arrow.DataType) bool {
	id := t.ID()
	return id == arrow.FLOAT16 || id == arrow.FLOAT32 || id == arrow.FLOAT64
}

func isNested(t arrow.DataType) bool {
	_, nested := t.(arrow.NestedType)
	return nested
}

// partEncoder makes a part of a column.
func partEncoder(name string, t arrow.DataType, column int) func(rec arrow.Record, row int) ([]byte, error) {
	value := wordsOf
	switch {
	case isBytes(t):
		value = rawBytes
	case tar.IsNpy(name):
		value = npyOf
	case t.ID() == arrow.BOOL, isFloat(t), isNested(t):
		value = jsonOf
	}
	return func(rec arrow.Record, row int) ([]byte, error) {
		a := rec.Column(column)
		if isNone(a, row) {
			return nil, nil
		}
		data, err := value(a, row)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", rec.ColumnName(column), err)
		}
		return append([]byte{}, data...), nil // nothing is not none
	}
}

// wordsOf are a value as text.
func wordsOf(a arrow.Array, row int) ([]byte, error) {
	if err := withinInt64(a, row); err != nil {
		return nil, err
	}
	text, err := textInstead(a, row)
	return []byte(text), err
}

// withinInt64 refuses a whole number that readers of text do not take.
func withinInt64(a arrow.Array, row int) error {
	if a, ok := a.(*array.Uint64); ok && a.Value(row) > math.MaxInt64 {
		return fmt.Errorf("%d is beyond int64, which readers take: write Parquet", a.Value(row))
	}
	return nil
}

// rawBytes are a value's bytes, as they are.
func rawBytes(a arrow.Array, row int) ([]byte, error) {
	switch a := a.(type) {
	case *array.FixedSizeBinary:
		return a.Value(row), nil
	case array.BinaryLike:
		return textOf(a, row), nil
	}
	return nil, fmt.Errorf("it is %v, and no bytes", a.DataType())
}

// npyDescr is how NumPy calls the numbers of a list; "": it is no list of numbers.
func npyDescr(t arrow.DataType) string {
	list, ok := t.(arrow.ListLikeType)
	if !ok || t.ID() == arrow.MAP {
		return ""
	}
	_, width := mdsNumber(list.Elem())
	switch id := list.Elem().ID(); {
	case width == 0:
		return ""
	case arrow.IsUnsignedInteger(id):
		return fmt.Sprintf("<u%d", width)
	case arrow.IsInteger(id):
		return fmt.Sprintf("<i%d", width)
	}
	return fmt.Sprintf("<f%d", width)
}

// npyOf is a list of numbers as NumPy saves it: a header of 64 bytes or a multiple of that, and they.
func npyOf(a arrow.Array, row int) ([]byte, error) {
	values, from, n, err := numbersOf(a, row)
	if err != nil {
		return nil, err
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", npyDescr(a.DataType()), n)
	const before = 10 // magic, version, and the header's length
	header += strings.Repeat(" ", 63-(before+len(header))%64) + "\n"
	out := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
	return append(append(out, header...), fixed(values, widthOf(values.DataType()), from, n)...), nil
}

// document is JSON of several columns: a value, or an object with others.
type document struct {
	column int // -1: it is an object
	names  []string
	below  []*document
}

var errInJSON = errors.New("it is a field of JSON, and another column is what it lies in, or lies in it: rename one")

// add adds a column at a path.
func (d *document) add(path []string, column int) error {
	if d.column >= 0 {
		return errInJSON
	}
	for i, name := range d.names {
		if name == path[0] {
			if len(path) == 1 {
				return errInJSON
			}
			return d.below[i].add(path[1:], column)
		}
	}
	of := &document{column: -1}
	d.names, d.below = append(d.names, path[0]), append(d.below, of)
	if len(path) == 1 {
		of.column = column
		return nil
	}
	return of.add(path[1:], column)
}

// encode writes what of a row is not null; nil: all is.
func (d *document) encode(rec arrow.Record, row int) (out []byte, err error) {
	if d.column >= 0 {
		a := rec.Column(d.column)
		if isNone(a, row) {
			return nil, nil
		}
		if out, err = jsonOf(a, row); err != nil {
			err = fmt.Errorf("column %s: %w", rec.ColumnName(d.column), err)
		}
		return out, err
	}
	for i, name := range d.names {
		value, err := d.below[i].encode(rec, row)
		if err != nil {
			return nil, err
		}
		if value == nil {
			continue
		}
		text, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		out = append(append(append(append(out, ','), text...), ':'), value...)
	}
	if out == nil {
		return nil, nil
	}
	out[0] = '{'
	return append(out, '}'), nil
}
