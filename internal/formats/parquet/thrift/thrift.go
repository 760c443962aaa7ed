// Package thrift reads Thrift's compact protocol, in which Parquet writes its footers and page headers, without
// generated code and without allocating. Package parquet reads footers with it. It trusts nothing: the first
// mistake in the input sticks, everything read after it is zero, and loops over fields and lists end. A Reader
// belongs to one goroutine.
//
// A struct is read by its fields:
//
//	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
//		switch f {
//		case 1<<4 | thrift.I64:
//			rows = r.Int64()
//		default:
//			r.Skip(f)
//		}
//	}
package thrift

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Field is a field's id and type: id<<4 | type.
type Field int32

// Types of fields and list elements.
const (
	True   Field = 1 // a bool's value is its type
	False  Field = 2
	I8     Field = 3
	I16    Field = 4
	I32    Field = 5
	I64    Field = 6
	Double Field = 7
	Binary Field = 8
	List   Field = 9
	Set    Field = 10
	Map    Field = 11
	Struct Field = 12
	UUID   Field = 13

	// Stop ends a struct.
	Stop Field = 0
)

// Type is the field's type without its id.
func (f Field) Type() Field { return f & 15 }

// maxDepth is how deep structs and lists may nest in what is skipped.
const maxDepth = 32

// ErrShort says that the input ends before the message does.
var ErrShort = errors.New("it ends too early")

// Reader reads one message.
type Reader struct {
	data []byte
	pos  int
	err  error
}

// NewReader returns a Reader of data, which it does not change.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// Err returns the first mistake found in the input.
func (r *Reader) Err() error { return r.err }

// Pos is the number of bytes read.
func (r *Reader) Pos() int { return r.pos }

// Next reads the header of the field after prev, of which 0 is the one before the first.
func (r *Reader) Next(prev Field) Field {
	if r.pos >= len(r.data) {
		r.fail(ErrShort)
		return Stop
	}
	b := r.data[r.pos]
	r.pos++
	if b == 0 {
		return Stop
	}
	t := Field(b & 15)
	if t == Stop || t > UUID {
		r.fail(fmt.Errorf("unknown type %d", t))
		return Stop
	}
	id := int64(prev>>4) + int64(b>>4)
	if b>>4 == 0 {
		id = r.Int64()
	}
	if id < math.MinInt16 || id > math.MaxInt16 {
		r.fail(fmt.Errorf("field id %d is out of range", id))
	}
	if r.err != nil {
		return Stop
	}
	return Field(id)<<4 | t
}

// Int64 reads an integer of any width above a byte.
func (r *Reader) Int64() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// Int32 reads an integer that must fit 32 bits.
func (r *Reader) Int32() int32 {
	v := r.Int64()
	if v != int64(int32(v)) {
		r.fail(fmt.Errorf("integer %d is out of range", v))
		return 0
	}
	return int32(v)
}

// Int8 reads a byte.
func (r *Reader) Int8() int8 {
	b := r.take(1)
	if len(b) == 0 {
		return 0
	}
	return int8(b[0])
}

// Bytes reads a string or byte array. The result lies in the input; it is not nil unless reading failed.
func (r *Reader) Bytes() []byte { return r.take(r.uvarint()) }

// List reads the header of a list: the number of its elements, which is at most the number of bytes that are
// left, and their type.
func (r *Reader) List() (n int, elem Field) {
	b := r.take(1)
	if len(b) == 0 {
		return 0, Stop
	}
	size := uint64(b[0] >> 4)
	if size == 15 {
		size = r.uvarint()
	}
	if size > uint64(len(r.data)-r.pos) {
		r.fail(ErrShort)
	}
	if r.err != nil {
		return 0, Stop
	}
	return int(size), Field(b[0] & 15)
}

// ListOf reads the header of a list whose elements must be of type elem, unless there are none.
func (r *Reader) ListOf(elem Field) int {
	n, t := r.List()
	if n > 0 && t != elem {
		r.fail(fmt.Errorf("list of type %d where type %d is due", t, elem))
		return 0
	}
	return n
}

// Skip passes over the field's value.
func (r *Reader) Skip(f Field) {
	if t := f.Type(); t != True && t != False {
		r.skip(t, 0)
	}
}

// skip passes over a value; a bool is a byte here, as it is in lists.
func (r *Reader) skip(t Field, depth int) {
	if depth > maxDepth {
		r.fail(errors.New("values nest too deep"))
		return
	}
	switch t {
	case True, False, I8:
		r.take(1)
	case I16, I32, I64:
		r.uvarint()
	case Double:
		r.take(8)
	case UUID:
		r.take(16)
	case Binary:
		r.Bytes()
	case List, Set:
		n, elem := r.List()
		for i := 0; i < n && r.err == nil; i++ {
			r.skip(elem, depth+1)
		}
	case Map:
		r.skipMap(depth)
	case Struct:
		r.skipStruct(depth)
	default:
		r.fail(fmt.Errorf("unknown type %d", t))
	}
}

// skipStruct passes over a struct. Most of a footer is passed over, so what is common takes no calls.
func (r *Reader) skipStruct(depth int) {
	data, pos, id := r.data, r.pos, int64(0)
	for pos < len(data) {
		b := data[pos]
		pos++
		if b == 0 {
			r.pos = pos
			return
		}
		if id += int64(b >> 4); b>>4 == 0 {
			r.pos = pos
			id = r.Int64()
			pos = r.pos
		}
		if id < math.MinInt16 || id > math.MaxInt16 {
			r.pos = pos
			r.fail(fmt.Errorf("field id %d is out of range", id))
			return
		}
		switch t := Field(b & 15); t {
		case True, False:
		case I16, I32, I64:
			end := pos
			for end < len(data) && data[end] >= 0x80 {
				end++
			}
			if end < len(data) && end-pos < binary.MaxVarintLen64-1 {
				pos = end + 1
				continue
			}
			r.pos = pos
			r.uvarint()
			pos = r.pos
		case Binary:
			if pos < len(data) && data[pos] < 0x80 && int(data[pos]) < len(data)-pos {
				pos += 1 + int(data[pos])
				continue
			}
			r.pos = pos
			r.Bytes()
			pos = r.pos
		default:
			r.pos = pos
			r.skip(t, depth+1)
			pos = r.pos
		}
	}
	r.pos = pos
	r.fail(ErrShort)
}

func (r *Reader) skipMap(depth int) {
	n := r.uvarint()
	if n == 0 {
		return
	}
	types := r.take(1)
	if len(types) == 0 {
		return
	}
	key, value := Field(types[0]>>4), Field(types[0]&15)
	for ; n > 0 && r.err == nil; n-- {
		r.skip(key, depth+1)
		r.skip(value, depth+1)
	}
}

func (r *Reader) uvarint() uint64 {
	if r.pos < len(r.data) && r.data[r.pos] < 0x80 {
		r.pos++
		return uint64(r.data[r.pos-1])
	}
	v, n := binary.Uvarint(r.data[r.pos:])
	if n <= 0 {
		if n == 0 {
			r.fail(ErrShort)
		} else {
			r.fail(errors.New("integer of more than 64 bits"))
		}
		return 0
	}
	r.pos += n
	return v
}

// take returns the next n bytes; none if reading has failed.
func (r *Reader) take(n uint64) []byte {
	if n > uint64(len(r.data)-r.pos) {
		r.fail(ErrShort)
		return nil
	}
	p := r.pos
	r.pos += int(n)
	return r.data[p:r.pos:r.pos]
}

// fail keeps the first mistake, and leaves no more input.
func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = fmt.Errorf("thrift, byte %d: %w", r.pos, err)
	}
	r.pos = len(r.data)
}
