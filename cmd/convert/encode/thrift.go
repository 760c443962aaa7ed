package encode

import (
	"encoding/binary"

	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
)

// message is a struct in Thrift's compact protocol that is being written. Fields follow each other by their ids.
type message struct {
	out  []byte
	last []int // ids of the last fields, of this struct and of those around it
}

func newMessage(out []byte) *message { return &message{out, []int{0}} }

func (m *message) field(id int, typ thrift.Field) {
	last := &m.last[len(m.last)-1]
	m.out = append(m.out, byte(id-*last)<<4|byte(typ)) // no field is more than 15 behind another
	*last = id
}

func (m *message) int32(id int, v int) {
	m.field(id, thrift.I32)
	m.out = binary.AppendVarint(m.out, int64(v))
}

func (m *message) int64(id int, v int64) {
	m.field(id, thrift.I64)
	m.out = binary.AppendVarint(m.out, v)
}

func (m *message) bool(id int, v bool) {
	if v {
		m.field(id, thrift.True)
	} else {
		m.field(id, thrift.False)
	}
}

func (m *message) bytes(id int, v []byte) {
	m.field(id, thrift.Binary)
	m.out = appendBytes(m.out, v)
}

// list begins a list, whose elements are to follow.
func (m *message) list(id, n int, typ thrift.Field) {
	m.field(id, thrift.List)
	m.out = appendList(m.out, n, typ)
}

// begin begins a struct that is a field.
func (m *message) begin(id int) {
	m.field(id, thrift.Struct)
	m.element()
}

// element begins a struct that is an element of a list.
func (m *message) element() { m.last = append(m.last, 0) }

// end ends a struct.
func (m *message) end() {
	m.out = append(m.out, 0)
	m.last = m.last[:len(m.last)-1]
}

// numbers is a list of numbers.
func (m *message) numbers(id int, all []int) {
	m.list(id, len(all), thrift.I32)
	for _, v := range all {
		m.out = appendInt64(m.out, int64(v))
	}
}

// finish ends the message.
func (m *message) finish() []byte { return append(m.out, 0) }

func appendInt64(out []byte, v int64) []byte { return binary.AppendVarint(out, v) }

func appendList(out []byte, n int, typ thrift.Field) []byte {
	if n < 15 {
		return append(out, byte(n)<<4|byte(typ))
	}
	return binary.AppendUvarint(append(out, 15<<4|byte(typ)), uint64(n))
}

func appendBytes[T string | []byte](out []byte, v T) []byte {
	return append(binary.AppendUvarint(out, uint64(len(v))), v...)
}
