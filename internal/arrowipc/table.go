// Package arrowipc reads the headers of Arrow's IPC messages, which are flatbuffers, without trusting them: what points
// outside is not found, and a schema that arrow's reader would follow for ever is refused. Streams of batches (wire)
// and Arrow files (formats/arrow) are made of such messages. All is a pure function of its arguments.
package arrowipc

import "encoding/binary"

// Of Arrow's Message.fbs: the kinds of headers.
const (
	SchemaHeader    = 1
	DictionaryBatch = 2
	RecordBatch     = 3
)

// MaxHeader bounds a header's bytes.
const MaxHeader = 16 << 20

// Table is a flatbuffer's, somewhere in bytes that nobody has checked.
type Table struct {
	b  []byte
	at int
}

// Root is a flatbuffer's outermost table.
func Root(b []byte) (Table, bool) {
	to, ok := follow(b, 0)
	return Table{b, to}, ok
}

// Header is a message's, if it is of a kind.
func Header(message []byte, kind byte) (Table, bool) {
	root, ok := Root(message)
	if !ok || root.Byte(1) != kind {
		return Table{}, false
	}
	return root.Table(2)
}

// at returns n bytes at a position, or nil.
func at(b []byte, pos int64, n int) []byte {
	if pos < 0 || pos > int64(len(b)-n) {
		return nil
	}
	return b[pos : pos+int64(n)]
}

// follow is the table or vector that the pointer at a position points to; false if that is not inside.
func follow(b []byte, pos int64) (int, bool) {
	p := at(b, pos, 4)
	if p == nil {
		return 0, false
	}
	to := pos + int64(binary.LittleEndian.Uint32(p))
	if at(b, to, 4) == nil {
		return 0, false
	}
	return int(to), true
}

// field is n bytes of a table's field, or nil if it has no such field: where flatbuffers' own readers find none either,
// for arrow's reads what was checked here.
func (t Table) field(i, n int) (int64, []byte) {
	p := at(t.b, int64(t.at), 4)
	if p == nil {
		return 0, nil
	}
	vtable := int64(t.at) - int64(int32(binary.LittleEndian.Uint32(p)))
	size := at(t.b, vtable, 2)
	if size == nil || 4+2*i >= int(binary.LittleEndian.Uint16(size)) {
		return 0, nil
	}
	p = at(t.b, vtable+int64(4+2*i), 2)
	if p == nil || binary.LittleEndian.Uint16(p) == 0 {
		return 0, nil
	}
	pos := int64(t.at) + int64(binary.LittleEndian.Uint16(p))
	return pos, at(t.b, pos, n)
}

// Table is the one that a field points to.
func (t Table) Table(i int) (Table, bool) {
	pos, p := t.field(i, 4)
	if p == nil {
		return Table{}, false
	}
	to, ok := follow(t.b, pos)
	return Table{t.b, to}, ok
}

// Int64 is a field, or 0, its default.
func (t Table) Int64(i int) int64 {
	if _, p := t.field(i, 8); p != nil {
		return int64(binary.LittleEndian.Uint64(p))
	}
	return 0
}

// Int32 is a field, or 0, its default.
func (t Table) Int32(i int) int32 {
	if _, p := t.field(i, 4); p != nil {
		return int32(binary.LittleEndian.Uint32(p))
	}
	return 0
}

// Text is a string; a field that is left out has none.
func (t Table) Text(i int) []byte {
	v, _ := t.Structs(i, 1)
	return v
}

// Byte is a field, or 0, its default.
func (t Table) Byte(i int) byte {
	if _, p := t.field(i, 1); p != nil {
		return p[0]
	}
	return 0
}

// Int64s is a vector of numbers; a field that is left out has none.
func (t Table) Int64s(i int) ([]int64, bool) {
	v, ok := t.Structs(i, 8)
	out := make([]int64, len(v)/8)
	for k := range out {
		out[k] = int64(binary.LittleEndian.Uint64(v[8*k:]))
	}
	return out, ok
}

// Structs is a vector of structs of a size; a field that is left out has none.
func (t Table) Structs(i, size int) ([]byte, bool) {
	v, _, ok := t.vector(i, size)
	return v, ok
}

// Tables are those of a vector; a field that is left out has none.
func (t Table) Tables(i int) ([]Table, bool) {
	v, first, ok := t.vector(i, 4)
	out := make([]Table, len(v)/4)
	for k := range out {
		at, inside := follow(t.b, first+4*int64(k))
		out[k], ok = Table{t.b, at}, ok && inside
	}
	return out, ok
}

// vector is the elements of one, each of a size, and where the first is; a field that is left out has none.
func (t Table) vector(i, size int) (v []byte, first int64, ok bool) {
	pos, p := t.field(i, 4)
	if p == nil {
		return nil, 0, true
	}
	to, ok := follow(t.b, pos)
	if !ok {
		return nil, 0, false
	}
	n := int64(binary.LittleEndian.Uint32(t.b[to:]))
	if n > int64(len(t.b)/size) {
		return nil, 0, false
	}
	first = int64(to) + 4
	v = at(t.b, first, int(n)*size)
	return v, first, v != nil || n == 0
}
