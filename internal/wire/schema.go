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
	w := schemaWalk{left: 4 * len(header)} // writers may share strings
	w.each(schema, 1, 4, func(f table) { w.field(f, 0) })
	w.metadata(schema, 2)
	if w.left < 0 {
		return errSchema
	}
	return nil
}

// schemaWalk counts what a schema is made of: left is how many bytes that may come to. It is negative where that is too much, or lies
// outside.
type schemaWalk struct{ left int }

// each calls f for the tables of a vector, which is a table's field.
func (w *schemaWalk) each(t table, i, size int, f func(table)) {
	pos, p := t.field(i, 4)
	if p == nil {
		return
	}
	to, ok := follow(t.b, pos)
	if !ok {
		w.left = -1
		return
	}
	n := int64(binary.LittleEndian.Uint32(t.b[to:]))
	if n*int64(size) > int64(w.left) {
		w.left = -1
	}
	for k := int64(0); k < n && w.left >= 0; k++ {
		w.left -= size
		if f == nil {
			continue
		}
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
	w.each(f, 5, 4, func(child table) { w.field(child, depth+1) })
	w.metadata(f, 6)
	kind, ok := f.table(3)
	switch {
	case !ok:
	case f.byte(2) == typeTimestamp:
		w.text(kind, 1)
	case f.byte(2) == typeUnion:
		w.each(kind, 1, 4, nil)
	}
}

func (w *schemaWalk) metadata(t table, i int) {
	w.each(t, i, 4, func(pair table) {
		w.text(pair, 0)
		w.text(pair, 1)
	})
}

// text is a string, which is a vector of bytes.
func (w *schemaWalk) text(t table, i int) { w.each(t, i, 1, nil) }

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
