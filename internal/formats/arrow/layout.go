package arrow

import (
	"errors"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/arrowipc"
)

// layout says where the columns of a schema are in its batches, whose arrays and buffers are numbered depth first.
type layout struct {
	columns      []spec.Column
	arraysOf     [][]*Array // of each column: one, or of a map its keys and its values
	spans        []span     // the buffers of each column
	shape                   // of a record batch
	dictionaries map[int64]shape
	size         int64 // about, of this in memory
}

// shape is how many arrays and buffers a batch has, and after which buffers those of views come, whose number varies.
type shape struct {
	arrays, buffers int
	views           []int
}

// span is a run of buffers.
type span struct{ from, to int }

// Array holds values of a column. All its numbers are those of arrays and buffers of a batch.
type Array struct {
	Type    arrow.DataType // of the values
	Kind    pb.Kind        // that they are read as; unspecified if there are none
	Structs []int          // validity of the structs around rows, the outermost first
	Lists   []*List        // the outermost first; none: a row has one value
	Inner   []int          // validity of the structs around elements of lists
	Index   arrow.DataType // of the codes of a dictionary; nil: the values are here
	ID      int64          // of the dictionary
	Array   int
	Buffers int // the first: validity, then values or codes, or ends and bytes
}

// List says which elements are whose.
type List struct {
	Array    int
	Around   []int // validity of the structs around it, within the list around these
	Validity int
	Offsets  int   // -1 if all lists are of one size
	Large    bool  // the offsets are int64
	Size     int64 // of each list
}

// errFields says that the parts of a schema do not fit each other.
var errFields = errors.New("its schema is cut short: the file is damaged")

// layoutOf finds the columns of a schema, which the table is; v5 is the version of its metadata, or a later one.
func layoutOf(s *arrow.Schema, t arrowipc.Table, v5 bool) (*layout, error) {
	l := &layout{dictionaries: map[int64]shape{}}
	w := &walk{layout: l, v5: v5}
	tables, ok := t.Tables(1)
	if !ok || len(tables) != len(s.Fields()) {
		return nil, errFields
	}
	for i, f := range s.Fields() {
		if err := w.column(field{f, tables[i]}, place{}); err != nil {
			return nil, err
		}
	}
	l.shape = w.shape
	for i, c := range l.columns {
		l.size += 256 + 3*int64(len(c.Name)+len(c.Unsupported)) + 256*int64(len(l.arraysOf[i]))
	}
	return l, w.err
}

// field is a field of a schema, and the table that it was read from.
type field struct {
	arrow.Field
	table arrowipc.Table
}

// children are the fields below one.
func (f field) children() ([]field, error) {
	nested, ok := f.kind().(arrow.NestedType)
	if !ok {
		return nil, nil
	}
	tables, ok := f.table.Tables(5)
	fields := nested.Fields()
	if !ok || len(tables) != len(fields) {
		return nil, errFields
	}
	out := make([]field, len(fields))
	for i := range out {
		out[i] = field{fields[i], tables[i]}
	}
	return out, nil
}

// kind is the field's type, or that by which an extension's values are stored.
func (f field) kind() arrow.DataType { return storedAs(f.Type) }

func storedAs(t arrow.DataType) arrow.DataType {
	if e, ok := t.(arrow.ExtensionType); ok {
		return storedAs(e.StorageType())
	}
	return t
}

// place is where a field stands.
type place struct {
	path    []string // without the inner levels of lists and maps
	structs []int    // validity of the structs around it, within the list if it is in one
	lists   []*List  // that it is in
	outer   []int    // validity of the structs around these
	shape   []int32  // of a row, if all have one
}

func (p place) enter(name string) place {
	p.path = append(slices.Clip(p.path), name)
	return p
}

// walk numbers arrays and buffers as it comes to them.
type walk struct {
	*layout
	shape
	v5    bool
	names int   // bytes of columns' names
	err   error // why there are too many
}

// take numbers an array and its buffers, and returns the first of these.
func (w *walk) take(buffers int) (first int) {
	first = w.buffers
	w.arrays++
	w.buffers += buffers
	return first
}

// column adds the columns at and below a field that is in no list.
func (w *walk) column(f field, above place) error {
	p := above.enter(f.Name)
	switch f.kind().(type) {
	case *arrow.StructType:
		return w.structs(f, p, w.column)
	case *arrow.MapType:
		return w.mapped(f, p)
	}
	if l := listOf(f.kind()); l != nil {
		p.shape = arrowipc.Shape(f.table)
		return w.list(f, p, l)
	}
	return w.leaf(f, p)
}

// listOf is what a type says of its lists; nil: it has none that can be read.
func listOf(t arrow.DataType) *List {
	switch t := t.(type) {
	case *arrow.ListType:
		return &List{}
	case *arrow.LargeListType:
		return &List{Large: true}
	case *arrow.FixedSizeListType:
		return &List{Offsets: -1, Size: int64(t.Len())}
	}
	return nil
}

// structs adds what the fields of structs are, each by add.
func (w *walk) structs(f field, p place, add func(field, place) error) error {
	children, err := f.children()
	if err != nil {
		return err
	}
	if len(children) == 0 {
		return w.unsupported(f, p, "a struct without fields")
	}
	validity := w.take(1)
	p.structs = append(slices.Clip(p.structs), validity)
	for _, child := range children {
		if err := add(child, p); err != nil {
			return err
		}
	}
	return nil
}
