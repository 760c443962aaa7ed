package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/apache/arrow/go/v15/arrow"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-ml/penstock/internal/shared"
)

// Fields of Flight.proto's FlightData.
const (
	fieldHeader = 2
	fieldMeta   = 3
	fieldBody   = 1000
)

// Codec is gRPC's codec for protobuf, which knows two messages more: a batch to send, and one received. Servers of
// Stream's calls are made with it.
type Codec struct{ fallback encoding.CodecV2 }

// NewCodec returns a codec.
func NewCodec() Codec { return Codec{encoding.GetCodecV2(proto.Name)} }

// Name is that of protobuf, whose bytes these are.
func (Codec) Name() string { return proto.Name }

// Marshal lays a message out.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	if o, ok := v.(*outgoing); ok {
		return o.message(), nil
	}
	return c.fallback.Marshal(v)
}

// Unmarshal takes a message in.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*Message); ok {
		return r.unmarshal(data)
	}
	return c.fallback.Unmarshal(data, v)
}

// small buffers are copied: gRPC counts no references to them.
const small = 1 << 10

// parcel is a message on its way out. gRPC frees each of its pieces once that was written, and the last one frees the
// batch.
type parcel struct {
	meta    []byte   // all that is not the batch's memory: header, app_metadata, small buffers, padding
	pieces  [][]byte // of the message, in order
	length  int      // of all, on a link
	body    []extent
	placed  map[*byte]extent // large offsets that have their place
	memory  *shared.Memory   // that is lent rather than sent
	refs    atomic.Int32
	release func()
	pool    *Pool // that it goes back to
}

// outgoing is what gRPC is asked to send. Once it has taken the parcel, this may be used for another message.
type outgoing struct {
	parcel *parcel
	taken  bool
}

// message is the parcel's bytes. Each piece has a capacity for which gRPC counts references.
func (o *outgoing) message() mem.BufferSlice {
	p := o.parcel
	o.parcel, o.taken = nil, true
	p.refs.Store(int32(len(p.pieces)))
	out := make(mem.BufferSlice, len(p.pieces))
	for i := range p.pieces {
		out[i] = mem.NewBuffer(&p.pieces[i], p)
	}
	return out
}

// Put is called for each piece that was written, or never will be.
func (p *parcel) Put(*[]byte) {
	if p.refs.Add(-1) == 0 {
		p.free()
	}
}

// Get makes a parcel a mem.BufferPool.
func (p *parcel) Get(int) *[]byte { panic("wire: nothing is taken out of a parcel") }

func (p *parcel) free() {
	release := p.release
	p.release, p.memory = nil, nil
	clear(p.pieces)
	clear(p.placed)
	p.pool.parcels.Put(p)
	release()
}

// fill writes the message of a batch for gRPC: its large buffers by reference.
func (p *parcel) fill(b *Batch, c Compression) {
	length, copied := p.place(b)
	header := headerSize(len(b.Nodes), len(p.body))
	m := protowire.AppendTag(p.room(header+len(b.Meta)+40+copied), fieldHeader, protowire.BytesType)
	m = protowire.AppendVarint(m, uint64(header))
	m = appendHeader(m, b, p.body, length, c)
	m = protowire.AppendTag(m, fieldMeta, protowire.BytesType)
	m = protowire.AppendBytes(m, b.Meta)
	m = protowire.AppendTag(m, fieldBody, protowire.BytesType)
	m = protowire.AppendVarint(m, uint64(length))
	p.cut(m, b.Buffers)
}

// place finds each buffer its place in the body, which large offsets on the same memory share. It returns the body's
// length, and how much of it is copied.
func (p *parcel) place(b *Batch) (length int64, copied int) {
	p.body = p.body[:0]
	offsets := int64(arrow.Int32SizeBytes) * (b.Rows + 1)
	for _, buf := range b.Buffers {
		n := int64(len(buf))
		padded := pad(n)
		if n > small {
			padded -= n
		}
		if n > small && n == offsets {
			had, ok := p.placed[unsafe.SliceData(buf)]
			if ok {
				p.body = append(p.body, had)
				continue
			}
			p.placed[unsafe.SliceData(buf)] = extent{length, n}
		}
		p.body = append(p.body, extent{length, n})
		copied += int(padded)
		length += pad(n)
	}
	return length, copied
}

// room is where up to n bytes that are not the batch's memory are written. The rest of its capacity lets gRPC count
// references to the last piece, however short that is.
func (p *parcel) room(n int) []byte {
	if cap(p.meta) < n+small+1 {
		p.meta = make([]byte, 0, n+n/4+small+1)
	}
	return p.meta[:0]
}

// cut lays out the body after what m has already, and cuts m where buffers stand between.
func (p *parcel) cut(m []byte, buffers [][]byte) {
	var zeros [Alignment]byte
	p.pieces = p.pieces[:0]
	from, at := 0, int64(0)
	for i, buf := range buffers {
		if len(buf) == 0 || p.body[i].offset < at { // nothing, or it stands there for another array
			continue
		}
		at += pad(int64(len(buf)))
		if len(buf) <= small {
			m = append(m, buf...)
		} else {
			if from < len(m) {
				p.pieces = append(p.pieces, m[from:len(m):cap(m)])
				from = len(m)
			}
			p.pieces = append(p.pieces, buf[:len(buf):len(buf)])
		}
		m = append(m, zeros[:pad(int64(len(buf)))-int64(len(buf))]...)
	}
	if from < len(m) {
		p.pieces = append(p.pieces, m[from:])
	}
	p.meta = m
}

func pad(n int64) int64 { return (n + Alignment - 1) &^ (Alignment - 1) }

// Message is one as it came.
type Message struct {
	pool   *Pool
	header []byte
	meta   []byte
	body   *Memory // nil: it had none
	size   int64
}

// NewMessage is one to be received into memory of the pool.
func NewMessage(pool *Pool) *Message { return &Message{pool: pool} }

var errMessage = errors.New("wire: the message is no FlightData, or it is cut short")

// unmarshal copies a message once, its body into aligned memory.
func (m *Message) unmarshal(data mem.BufferSlice) error {
	r := data.Reader()
	defer r.Close() //nolint:errcheck // it has nothing to say
	m.header, m.meta, m.size = nil, nil, int64(r.Remaining())
	m.free()
	for r.Remaining() > 0 {
		tag, err := binary.ReadUvarint(r)
		if err != nil {
			return errMessage
		}
		field, typ := protowire.DecodeTag(tag)
		n, err := m.length(r, typ)
		if err != nil {
			return err
		}
		switch {
		case typ == protowire.BytesType && field == fieldHeader:
			m.header = make([]byte, n)
			_, err = io.ReadFull(r, m.header)
		case typ == protowire.BytesType && field == fieldMeta:
			m.meta = make([]byte, n)
			_, err = io.ReadFull(r, m.meta)
		case typ == protowire.BytesType && field == fieldBody:
			m.free()
			m.body = m.pool.Get(n)
			_, err = io.ReadFull(r, m.body.Bytes)
		default:
			_, err = r.Discard(n)
		}
		if err != nil {
			return errMessage
		}
	}
	return nil
}

// length is how many bytes a field of a wire type has that come next.
func (m *Message) length(r *mem.Reader, typ protowire.Type) (int, error) {
	n := uint64(0)
	var err error
	switch typ {
	case protowire.BytesType:
		n, err = binary.ReadUvarint(r)
	case protowire.VarintType:
		_, err = binary.ReadUvarint(r)
	case protowire.Fixed32Type:
		n = 4
	case protowire.Fixed64Type:
		n = 8
	default:
		err = errMessage
	}
	if err != nil || n > math.MaxInt32 || int(n) > r.Remaining() {
		return 0, errMessage
	}
	return int(n), nil
}

func (m *Message) free() {
	if m.body != nil {
		m.body.Free()
		m.body = nil
	}
}
