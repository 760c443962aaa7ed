package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Of Arrow's Message.fbs.
const (
	metadataV5        = 4
	headerRecordBatch = 3
)

// A message's header is a flatbuffer. Ours are alike but for their numbers and how many nodes and buffers they have, so they
// are written in one go: this prefix, the nodes, the buffers. All int64 are aligned to 8 bytes, as flatbuffers want it.
//
//	 0  root: the message is at 16
//	 4  vtable of the message: version at +16, header_type at +18, header at +4, bodyLength at +8
//	16  message
//	36  vtable of the record batch: length at +8, nodes at +4, buffers at +16, compression at +20
//	48  record batch
//	72  vtable of the compression: codec at +4, method at +5
//	80  compression
//	92  nodes: their number, then each at a multiple of 8
const (
	atMessage, atBatch, atCompression, atNodes = 16, 48, 80, 92
	vtBatch                                    = 36
)

func appendPrefix(dst []byte) []byte {
	le := binary.LittleEndian
	at := len(dst)
	dst = append(dst, make([]byte, atNodes)...)
	b := dst[at:]
	vtable := func(at, table int, size uint16, fields ...uint16) {
		le.PutUint16(b[at:], uint16(4+2*len(fields)))
		le.PutUint16(b[at+2:], size)
		for i, f := range fields {
			le.PutUint16(b[at+4+2*i:], f)
		}
		le.PutUint32(b[table:], uint32(table-at))
	}
	pointer := func(at, to int) { le.PutUint32(b[at:], uint32(to-at)) }
	pointer(0, atMessage)
	vtable(4, atMessage, 20, 16, 18, 4, 8)
	pointer(atMessage+4, atBatch)
	le.PutUint16(b[atMessage+16:], metadataV5)
	b[atMessage+18] = headerRecordBatch
	vtable(vtBatch, atBatch, 24, 8, 4, 16, 20)
	pointer(atBatch+4, atNodes)
	pointer(atBatch+20, atCompression)
	vtable(72, atCompression, 6, 4, 5)
	return dst
}

// extent is where a buffer lies in a body.
type extent struct{ offset, length int64 }

// appendHeader appends the header of a batch whose body is laid out already.
func appendHeader(dst []byte, b *Batch, body []extent, bodyLength int64, c Compression) []byte {
	le := binary.LittleEndian
	at := len(dst)
	dst = appendPrefix(dst)
	h := dst[at:]
	le.PutUint64(h[atMessage+8:], uint64(bodyLength))
	le.PutUint64(h[atBatch+8:], uint64(b.Rows))
	if c == None {
		le.PutUint16(h[vtBatch+10:], 0) // the field is left out
	} else {
		h[atCompression+4] = c.codec()
	}
	buffers := atNodes + 4 + 16*len(b.Nodes) + 4 // the vector's length; its elements are aligned
	le.PutUint32(h[atBatch+16:], uint32(buffers-(atBatch+16)))
	dst = le.AppendUint32(dst, uint32(len(b.Nodes)))
	for _, n := range b.Nodes {
		dst = le.AppendUint64(le.AppendUint64(dst, uint64(n.Length)), uint64(n.Nulls))
	}
	dst = le.AppendUint32(append(dst, 0, 0, 0, 0), uint32(len(body)))
	for _, e := range body {
		dst = le.AppendUint64(le.AppendUint64(dst, uint64(e.offset)), uint64(e.length))
	}
	return dst
}

// headerSize is that of a header with so many nodes and buffers.
func headerSize(nodes, buffers int) int { return atNodes + 4 + 16*nodes + 8 + 16*buffers }

var errHeader = errors.New("wire: the message's header is no Arrow record batch, or it is cut short")

// table is a flatbuffer's, somewhere in bytes that nobody has checked.
type table struct {
	b  []byte
	at int
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

// field is n bytes of a table's field, or nil if it has no such field: where flatbuffers' own readers find none either, for arrow's reads
// what was checked here.
func (t table) field(i, n int) (int64, []byte) {
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

// table is the one that a field points to.
func (t table) table(i int) (table, bool) {
	pos, p := t.field(i, 4)
	if p == nil {
		return table{}, false
	}
	to, ok := follow(t.b, pos)
	return table{t.b, to}, ok
}

// int64 is a field, or 0, its default.
func (t table) int64(i int) int64 {
	if _, p := t.field(i, 8); p != nil {
		return int64(binary.LittleEndian.Uint64(p))
	}
	return 0
}

func (t table) byte(i int) byte {
	if _, p := t.field(i, 1); p != nil {
		return p[0]
	}
	return 0
}

// pairs is a vector of structs of two int64 each; a field that is left out has none.
func (t table) pairs(i int) ([]byte, error) {
	pos, p := t.field(i, 4)
	if p == nil {
		return nil, nil
	}
	to, ok := follow(t.b, pos)
	if !ok {
		return nil, errHeader
	}
	n := int64(binary.LittleEndian.Uint32(t.b[to:]))
	if n > int64(len(t.b))/16 {
		return nil, errHeader
	}
	v := at(t.b, int64(to)+4, int(16*n))
	if v == nil && n > 0 {
		return nil, errHeader
	}
	return v, nil
}

// parse reads a header and finds the buffers in the body, if there is one. Nothing in either is trusted.
func (b *Batch) parse(header []byte, from *Memory) (Compression, error) {
	root, ok := follow(header, 0)
	if !ok {
		return None, errHeader
	}
	message := table{header, root}
	if message.byte(1) != headerRecordBatch {
		return None, errHeader
	}
	batch, ok := message.table(2)
	if !ok {
		return None, errHeader
	}
	nodes, err := batch.pairs(1)
	if err != nil {
		return None, err
	}
	buffers, err := batch.pairs(2)
	if err != nil {
		return None, err
	}
	b.Rows = batch.int64(0)
	if b.Rows < 0 || b.Rows > math.MaxInt32 {
		return None, fmt.Errorf("wire: a record batch of %d rows", b.Rows)
	}
	var body []byte
	if from != nil {
		body = from.Bytes
	}
	b.Nodes, b.Buffers = from.arrays(len(nodes)/16, len(buffers)/16)
	for i := range b.Nodes {
		n, nulls := pair(nodes, i)
		if n < 0 || n > math.MaxInt32 || nulls < 0 || nulls > n {
			return None, fmt.Errorf("wire: array %d has %d values and %d nulls", i, n, nulls)
		}
		b.Nodes[i] = Node{n, nulls}
	}
	for i := range b.Buffers {
		offset, length := pair(buffers, i)
		if offset < 0 || length < 0 || offset > int64(len(body)) || length > int64(len(body))-offset || offset%8 != 0 {
			return None, fmt.Errorf("wire: buffer %d has %d bytes at %d of a body of %d", i, length, offset, len(body))
		}
		b.Buffers[i] = body[offset : offset+length : offset+length]
	}
	c, compressed := batch.table(3)
	if !compressed {
		return None, nil
	}
	return compressionOf(c.byte(0), c.byte(1))
}

func pair(v []byte, i int) (int64, int64) {
	return int64(binary.LittleEndian.Uint64(v[16*i:])), int64(binary.LittleEndian.Uint64(v[16*i+8:]))
}
