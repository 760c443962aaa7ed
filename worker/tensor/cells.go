package tensor

import (
	"encoding/binary"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/tensors"
	"github.com/penstock-ml/penstock/worker/vector"
)

// cells are the values of a tensor whose rows have one shape, as bytes: each value has width of them. Those of int64
// are narrow where all of a window's are small, see Builder.Narrow; packed ones have 4 bytes until all are there.
type cells struct {
	kind  pb.Kind
	fill  uint64 // its bits stand for what is missing
	width int    // of the window's values, as long as they are not packed
	final int    // of the window's values, as they are sent

	memory []byte // the values of the vector, in its own width
	own    int
	v      *vector.Vector
}

func newCells(kind pb.Kind, fill *pb.Value) cells {
	return cells{kind: kind, fill: tensors.Bits(fill, kind)}
}

// see chooses the width of a window's values.
func (c *cells) see(v *vector.Vector, widths Widths) {
	c.v, c.memory, c.own = v, nil, spec.Width(v.Type.Kind)
	c.final = spec.Width(c.kind)
	if v.Type.Kind == c.kind {
		c.memory = memoryOf(v)
	}
	if v.U32 != nil {
		c.own = 4
	}
	if v.Type.Kind == pb.Kind_INT64 && c.kind == pb.Kind_INT64 {
		c.final = max(widthOf(v, widths), fitting(c.fill, widths))
	}
	if c.width = c.final; c.width == 3 {
		c.width = 4
	}
}

// size is what n values take, and what they do besides while they are laid out.
func (c *cells) size(n int64) (bytes, spare int64) {
	return n * int64(c.final), n * int64(c.width-c.final)
}

// put writes n values of the vector, which begin at one.
func (c *cells) put(dst []byte, at, n int) {
	switch dst = dst[:n*c.width]; {
	case c.own == c.width:
		copy(dst, c.memory[at*c.own:])
	case c.v.U32 != nil:
		putNarrow(dst, c.width, c.v.U32[at:at+n])
	default:
		putNarrow(dst, c.width, c.v.I64[at:at+n])
	}
}

func putNarrow[S int64 | uint32](dst []byte, width int, src []S) {
	switch width {
	case 1:
		convert(recast[uint8](dst), src)
	case 2:
		convert(recast[uint16](dst), src)
	case 4:
		convert(recast[uint32](dst), src)
	default:
		convert(recast[int64](dst), src)
	}
}

// blank fills dst with what stands for what is missing.
func (c *cells) blank(dst []byte) {
	if c.fill == 0 || len(dst) == 0 {
		clear(dst)
		return
	}
	var bits [8]byte
	binary.LittleEndian.PutUint64(bits[:], c.fill)
	for n := copy(dst, bits[:c.width]); n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// blankNulls does so with the null ones among n elements of a list that begin at one.
func (c *cells) blankNulls(dst []byte, at, n int) {
	for j := range n {
		if c.v.ElemIsNull(at + j) {
			c.blank(dst[j*c.width:][:c.width])
		}
	}
}

// sent are n values as they are sent, which have been laid out in dst.
func (c *cells) sent(b *Batch, dst []byte) []byte {
	if c.final == c.width {
		return dst
	}
	values := recast[uint32](dst)
	out := packed(values, values)
	b.keep(len(out))
	return out
}

// memoryOf are the values of a vector of numbers or bools as they lie.
func memoryOf(v *vector.Vector) []byte {
	n := v.Len()
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		return bytesOf(v.Bool[:n])
	case pb.Kind_INT32:
		return bytesOf(v.I32[:n])
	case pb.Kind_INT64:
		if v.U32 != nil {
			return bytesOf(v.U32[:n])
		}
		return bytesOf(v.I64[:n])
	case pb.Kind_FLOAT32:
		return bytesOf(v.F32[:n])
	case pb.Kind_FLOAT64:
		return bytesOf(v.F64[:n])
	}
	return v.Small[:n*spec.Width(v.Type.Kind)]
}

// recast is memory as values of another type, as many as there are whole ones.
func recast[T number](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}
