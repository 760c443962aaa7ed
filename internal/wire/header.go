package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/internal/arrowipc"
)

// metadataV5 is of Arrow's Schema.fbs.
const metadataV5 = 4

// A message's header is a flatbuffer. Ours are alike but for their numbers and how many nodes and buffers they have, so
// they are written in one go: this prefix, the nodes, the buffers. All int64 are aligned to 8 bytes, as flatbuffers
// want it.
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
	b[atMessage+18] = arrowipc.RecordBatch
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

// parse reads a header and finds the buffers in the body, if there is one. Nothing in either is trusted.
func (b *Batch) parse(header []byte, from *Memory) (Compression, error) {
	batch, ok := arrowipc.Header(header, arrowipc.RecordBatch)
	if !ok {
		return None, errHeader
	}
	nodes, ok := batch.Structs(1, 16)
	if !ok {
		return None, errHeader
	}
	buffers, ok := batch.Structs(2, 16)
	if !ok {
		return None, errHeader
	}
	b.Rows = batch.Int64(0)
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
	c, compressed := batch.Table(3)
	if !compressed {
		return None, nil
	}
	return compressionOf(c.Byte(0), c.Byte(1))
}

func pair(v []byte, i int) (int64, int64) {
	return int64(binary.LittleEndian.Uint64(v[16*i:])), int64(binary.LittleEndian.Uint64(v[16*i+8:]))
}
