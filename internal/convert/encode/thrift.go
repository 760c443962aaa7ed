package encode

import "encoding/binary"

// Types of Thrift's compact protocol.
const (
	typeTrue   = 1
	typeFalse  = 2
	typeI32    = 5
	typeI64    = 6
	typeBinary = 8
	typeList   = 9
	typeStruct = 12
)

// message is a struct in Thrift's compact protocol that is being written. Fields follow each other by their ids.
type message struct {
	out  []byte
	last []int // ids of the last fields, of this struct and of those around it
}

func newMessage(out []byte) *message { return &message{out, []int{0}} }

func (m *message) field(id, typ int) {
	last := &m.last[len(m.last)-1]
	m.out = append(m.out, byte((id-*last)<<4|typ)) // no field is more than 15 behind another
	*last = id
}

func (m *message) int32(id int, v int) {
	m.field(id, typeI32)
	m.out = binary.AppendVarint(m.out, int64(v))
}

func (m *message) int64(id int, v int64) {
	m.field(id, typeI64)
	m.out = binary.AppendVarint(m.out, v)
}

func (m *message) bool(id int, v bool) {
	if v {
		m.field(id, typeTrue)
	} else {
		m.field(id, typeFalse)
	}
}

func (m *message) bytes(id int, v []byte) {
	m.field(id, typeBinary)
	m.out = appendBytes(m.out, v)
}

// list begins a list, whose elements are to follow.
func (m *message) list(id, n, typ int) {
	m.field(id, typeList)
	m.out = appendList(m.out, n, typ)
}

// begin begins a struct that is a field.
func (m *message) begin(id int) {
	m.field(id, typeStruct)
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
	m.list(id, len(all), typeI32)
	for _, v := range all {
		m.out = appendInt64(m.out, int64(v))
	}
}

// finish ends the message.
func (m *message) finish() []byte { return append(m.out, 0) }

func appendInt64(out []byte, v int64) []byte { return binary.AppendVarint(out, v) }

func appendList(out []byte, n, typ int) []byte {
	if n < 15 {
		return append(out, byte(n<<4|typ))
	}
	return binary.AppendUvarint(append(out, byte(15<<4|typ)), uint64(n))
}

func appendBytes[T string | []byte](out []byte, v T) []byte {
	return append(binary.AppendUvarint(out, uint64(len(v))), v...)
}
