package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// Of Arrow's Message.fbs and Schema.fbs.
const (
	headerSchema  = 1
	typeTimestamp = 10
	typeUnion     = 14
	// mostDepth is how deep fields may lie within each other.
	mostDepth = 64
)

var (
	errSchema = errors.New("wire: the first message is no Arrow schema, or it is cut short")
	errEndian = errors.New("wire: the worker's numbers are big-endian, which this client cannot read")
)

// schemaOf reads a schema's message.
func schemaOf(header []byte) (schema *arrow.Schema, err error) {
	if err := checkSchema(header); err != nil {
		return nil, err
	}
	defer func() { // arrow's reader of flatbuffers panics where they point outside
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errSchema, p)
		}
	}()
	r, err := ipc.NewReaderFromMessageReader(&only{ipc.NewMessage(memory.NewBufferBytes(header), memory.NewBufferBytes(nil))})
	if err != nil {
		return nil, fmt.Errorf("wire: schema: %w", err)
	}
	defer r.Release()
	return r.Schema(), nil
}

// checkSchema refuses what arrow's reader would follow for ever, or make endless memory for: fields within themselves, and vectors and
// strings that are longer than the message, or lie on each other.
func checkSchema(header []byte) error {
	root, ok := follow(header, 0)
	if !ok || len(header) > mostHeader {
		return errSchema
	}
	message := table{header, root}
	schema, ok := message.table(2)
	if !ok || message.byte(1) != headerSchema {
		return errSchema
	}
	if _, endian := schema.field(0, 2); endian != nil && binary.LittleEndian.Uint16(endian) != 0 {
		return errEndian
	}
	w := schemaWalk{left: 4 * int64(len(header))} // writers may share strings
	w.each(schema, 1, func(f table) { w.field(f, 0) })
	w.metadata(schema, 2)
	if w.left < 0 {
		return errSchema
	}
	return nil
}

// schemaWalk counts what a schema is made of: left is how many bytes that may come to. It is negative where that is too much, or lies
// outside.
type schemaWalk struct{ left int64 }

// vector counts a vector of elements of a size, which is a table's field, and returns where it is and how many there are.
func (w *schemaWalk) vector(t table, i, size int) (at int, n int64) {
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

// each calls f for the tables of a vector, which is a table's field.
func (w *schemaWalk) each(t table, i int, f func(table)) {
	to, n := w.vector(t, i, 4)
	for k := int64(0); k < n && w.left >= 0; k++ {
		if at, ok := follow(t.b, int64(to)+4+4*k); ok {
			f(table{t.b, at})
		} else {
			w.left = -1
		}
	}
}

func (w *schemaWalk) field(f table, depth int) {
	if depth == mostDepth {
		w.left = -1
		return
	}
	w.text(f, 0)
	w.each(f, 5, func(child table) { w.field(child, depth+1) })
	w.metadata(f, 6)
	pos, p := f.field(3, 4)
	if p == nil {
		return
	}
	to, ok := follow(f.b, pos)
	kind := table{f.b, to}
	switch {
	case !ok:
		w.left = -1
	case f.byte(2) == typeTimestamp:
		w.text(kind, 1)
	case f.byte(2) == typeUnion:
		w.vector(kind, 1, 4)
	}
}

func (w *schemaWalk) metadata(t table, i int) {
	w.each(t, i, func(pair table) {
		w.text(pair, 0)
		w.text(pair, 1)
	})
}

// text is a string, which is a vector of bytes.
func (w *schemaWalk) text(t table, i int) { w.vector(t, i, 1) }

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
