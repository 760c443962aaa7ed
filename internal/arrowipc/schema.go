package arrowipc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// Of Arrow's Schema.fbs.
const (
	metadataV5    = 4
	typeTimestamp = 10
	typeUnion     = 14
	// maxDepth is how deep fields may lie within each other. maxFields bounds them all: each takes hundreds of bytes.
	maxDepth  = 64
	maxFields = 1 << 18
)

var (
	errSchema = errors.New("the first message is no Arrow schema, or it is cut short")
	errEndian = errors.New("its numbers are big-endian, which cannot be read here")
)

// SchemaOf reads a schema that is a table of something else, such as a file's footer.
func SchemaOf(t Table) (*arrow.Schema, error) {
	// What stands in front of the bytes that the table lies in makes them a message with the table for its header:
	//
	//	 0  root: the message is at 16
	//	 4  vtable of the message: version at +10, header_type at +8, header at +4
	//	16  message
	const vtable, message, size = 4, 16, 32
	b := make([]byte, size, size+len(t.b))
	le := binary.LittleEndian
	le.PutUint32(b, message)
	for i, v := range []uint16{10, 12, 10, 8, 4} { // the sizes of the vtable and of the message, and where fields are
		le.PutUint16(b[vtable+2*i:], v)
	}
	le.PutUint32(b[message:], message-vtable)
	le.PutUint32(b[message+4:], uint32(size+t.at-(message+4)))
	b[message+8], b[message+10] = SchemaHeader, metadataV5
	return Schema(append(b, t.b...))
}

// Schema reads a schema's message.
func Schema(header []byte) (schema *arrow.Schema, err error) {
	if err := checkSchema(header); err != nil {
		return nil, err
	}
	defer func() { // arrow's reader of flatbuffers panics where they point outside
		if p := recover(); p != nil {
			err = fmt.Errorf("schema: a field has a type that cannot be read here: %v", p)
		}
	}()
	r, err := ipc.NewReaderFromMessageReader(
		&only{ipc.NewMessage(memory.NewBufferBytes(header), memory.NewBufferBytes(nil))})
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	defer r.Release()
	return r.Schema(), nil
}

// checkSchema refuses what arrow's reader would follow for ever, or make endless memory for: fields within themselves,
// and vectors and strings that are longer than the message, or lie on each other.
func checkSchema(header []byte) error {
	schema, ok := Header(header, SchemaHeader)
	if !ok || len(header) > MaxHeader {
		return errSchema
	}
	if _, endian := schema.field(0, 2); endian != nil && binary.LittleEndian.Uint16(endian) != 0 {
		return errEndian
	}
	w := schemaWalk{left: 4 * int64(len(header)), fields: maxFields} // writers may share strings
	w.each(schema, 1, func(f Table) { w.field(f, 0) })
	w.metadata(schema, 2)
	switch {
	case w.fields < 0:
		return fmt.Errorf("it has more than %d fields, which is more than can be read", maxFields)
	case w.left < 0:
		return errSchema
	}
	return nil
}

// schemaWalk counts what a schema is made of: left is how many bytes that may come to, and fields how many of these.
// Either is negative where that is too much, or lies outside.
type schemaWalk struct {
	left   int64
	fields int
}

// vector counts a vector of elements of a size, which is a Table's field, and returns where it is and how many there
// are.
func (w *schemaWalk) vector(t Table, i, size int) (at int, n int64) {
	pos, p := t.field(i, 4)
	if p == nil {
		return 0, 0
	}
	to, ok := follow(t.b, pos)
	if !ok {
		w.left = -1
		return 0, 0
	}
	n = int64(binary.LittleEndian.Uint32(t.b[to:]))
	w.left -= n * int64(size)
	return to, n
}

// each calls f for the tables of a vector, which is a Table's field.
func (w *schemaWalk) each(t Table, i int, f func(Table)) {
	to, n := w.vector(t, i, 4)
	for k := int64(0); k < n && w.left >= 0; k++ {
		if at, ok := follow(t.b, int64(to)+4+4*k); ok {
			f(Table{t.b, at})
		} else {
			w.left = -1
		}
	}
}

func (w *schemaWalk) field(f Table, depth int) {
	if w.fields--; depth == maxDepth || w.fields < 0 {
		w.left = -1
		return
	}
	w.text(f, 0)
	w.each(f, 5, func(child Table) { w.field(child, depth+1) })
	w.metadata(f, 6)
	pos, p := f.field(3, 4)
	if p == nil {
		return
	}
	to, ok := follow(f.b, pos)
	kind := Table{f.b, to}
	switch {
	case !ok:
		w.left = -1
	case f.Byte(2) == typeTimestamp:
		w.text(kind, 1)
	case f.Byte(2) == typeUnion:
		w.vector(kind, 1, 4)
	}
}

func (w *schemaWalk) metadata(t Table, i int) {
	w.each(t, i, func(pair Table) {
		w.text(pair, 0)
		w.text(pair, 1)
	})
}

// text is a string, which is a vector of bytes.
func (w *schemaWalk) text(t Table, i int) { w.vector(t, i, 1) }

// only is a reader of one message.
type only struct{ message *ipc.Message }

func (o *only) Message() (*ipc.Message, error) {
	m := o.message
	if m == nil {
		return nil, io.EOF
	}
	o.message = nil
	return m, nil
}

func (o *only) Retain()  {}
func (o *only) Release() {}
