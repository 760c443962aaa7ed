package python

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// A column lies in a segment as Arrow's buffers, depth first: of each level of lists a validity bitmap and offsets, and
// of the values a bitmap, the ends of byte strings, and what they are. Pictures lie as byte strings of their pixels,
// and behind them their heights and widths. Its places are where they begin and how many bytes they have, in this
// order; a bitmap that is not there begins at -1. Nothing between processes is other than little endian: this is memory
// of one machine.

// align is of what each buffer's place is a multiple.
const align = 64

// levels is how many levels of lists a type has.
func levels(t spec.Type) int {
	if !t.List {
		return 0
	}
	return 1 + int(t.Nested)
}

// buffers is how many places a column of a type has.
func buffers(t spec.Type) int {
	n := 2*levels(t) + 2
	if t.Kind == pb.Kind_BINARY {
		n++
	}
	return n
}

// crosses says why values of a type cannot be handed over; nil: they can.
func crosses(t spec.Type) error {
	switch t.Kind {
	case pb.Kind_KIND_UNSPECIFIED, pb.Kind_PICTURE, pb.Kind_BFLOAT16:
		return fmt.Errorf("functions neither take nor make values of %v", t)
	}
	return nil
}

// room is at most how many bytes a column takes in a segment.
func room(v *vector.Vector) int {
	n := 0
	add := func(bytes int) { n += bytes + align }
	rows := v.Rows
	for l := range levels(v.Type) {
		add(8 * vector.Words(rows))
		add(4 * (rows + 1))
		rows = int(offsetsOf(v, l)[rows])
	}
	add(8 * vector.Words(rows))
	if v.Type.Kind == pb.Kind_PICTURE {
		add(8 * rows)
	}
	if v.Type.Kind == pb.Kind_BINARY || v.Type.Kind == pb.Kind_PICTURE {
		add(4 * (rows + 1))
		if rows > 0 {
			add(int(v.Ends[rows] - v.Ends[0]))
		}
		return n + align
	}
	add(spec.Width(v.Type.Kind) * rows)
	return n
}

// roomOfSeeds is at most how many bytes a column of seeds takes.
func roomOfSeeds(seeds []uint64) int { return 8*len(seeds) + align }

// offsetsOf is where the lists of a level begin, of Rows or of the level above.
func offsetsOf(v *vector.Vector, level int) []int32 {
	if level == 0 {
		return v.Offsets
	}
	return v.Nested[level-1].Offsets
}

// layer lays columns out in memory that has room for them.
type layer struct {
	to     []byte
	at     int
	places []int64
}

// next is the place of a buffer.
func (l *layer) next(bytes int) []byte {
	l.at = (l.at + align - 1) &^ (align - 1)
	out := l.to[l.at : l.at+bytes : l.at+bytes]
	l.places = append(l.places, int64(l.at), int64(bytes))
	l.at += bytes
	return out
}

// bits lays out a bitmap of n bits, with zeros behind them.
func (l *layer) bits(valid []uint64, n int) {
	if valid == nil {
		l.places = append(l.places, -1, 0)
		return
	}
	out := l.next((n + 7) / 8)
	copy(out, bytesOf(valid))
	if n&7 != 0 {
		out[n>>3] &= 1<<(n&7) - 1
	}
}

// column lays out a column. Where it is null there is no value: zero, or an empty one.
func (l *layer) column(v *vector.Vector) {
	rows, valid := v.Rows, v.Valid
	for i := range levels(v.Type) {
		offsets := offsetsOf(v, i)[:rows+1]
		l.bits(valid, rows)
		copy(l.next(4*len(offsets)), bytesOf(offsets))
		rows = int(offsets[rows])
		if i < len(v.Nested) {
			valid = v.Nested[i].Valid
		} else {
			valid = v.ElemValid
		}
	}
	l.bits(valid, rows)
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		l.bools(v.Bool[:rows], valid)
	case pb.Kind_INT32:
		numbers(l, v.I32[:rows], valid)
	case pb.Kind_INT64:
		numbers(l, v.I64[:rows], valid)
	case pb.Kind_FLOAT32:
		numbers(l, v.F32[:rows], valid)
	case pb.Kind_FLOAT64:
		numbers(l, v.F64[:rows], valid)
	case pb.Kind_BINARY, pb.Kind_PICTURE:
		l.strings(v, rows, valid)
	default:
		l.small(v, rows, valid)
	}
}

func (l *layer) bools(values []bool, valid []uint64) {
	out := l.next((len(values) + 7) / 8)
	clear(out)
	for i, b := range values {
		if b && (valid == nil || valid[i>>6]>>(i&63)&1 != 0) {
			out[i>>3] |= 1 << (i & 7)
		}
	}
}

func numbers[T any](l *layer, values []T, valid []uint64) {
	out := l.next(int(unsafe.Sizeof(*new(T))) * len(values))
	copy(out, bytesOf(values))
	zero(out, len(values), valid)
}

func (l *layer) small(v *vector.Vector, n int, valid []uint64) {
	size := spec.Width(v.Type.Kind) * n
	out := l.next(size)
	copy(out, v.Small[:size])
	zero(out, n, valid)
}

// sizes lays out heights and widths of pictures.
func (l *layer) sizes(of []int32) { numbers(l, of, nil) }

// seeds lays out a column of seeds, as one of uint64 without nulls.
func (l *layer) seeds(seeds []uint64) {
	l.bits(nil, len(seeds))
	numbers(l, seeds, nil)
}

// zero clears those of n values that are null.
func zero(values []byte, n int, valid []uint64) {
	if valid == nil || n == 0 {
		return
	}
	width := len(values) / n
	for w := range vector.Words(n) {
		if valid[w] == math.MaxUint64 {
			continue
		}
		for i := w << 6; i < min(n, (w+1)<<6); i++ {
			if valid[w]>>(i&63)&1 == 0 {
				clear(values[width*i : width*(i+1)])
			}
		}
	}
}

// strings lays out byte strings, of which null ones become empty.
func (l *layer) strings(v *vector.Vector, n int, valid []uint64) {
	out := l.next(4 * (n + 1))
	ends := unsafe.Slice((*int32)(unsafe.Pointer(&out[0])), n+1) // places are multiples of 64
	ends[0] = 0
	if n == 0 {
		l.next(0)
		return
	}
	from := v.Ends[:n+1]
	if valid == nil {
		for i, end := range from {
			ends[i] = end - from[0]
		}
		copy(l.next(int(ends[n])), v.Data[from[0]:from[n]])
		return
	}
	data, at := l.next(int(from[n]-from[0])), 0
	for i := range n {
		if valid[i>>6]>>(i&63)&1 != 0 {
			at += copy(data[at:], v.Data[from[i]:from[i+1]])
		}
		ends[i+1] = int32(at)
	}
	l.places[len(l.places)-1] = int64(at)
}

// bytesOf is the memory of a slice.
func bytesOf[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), int(unsafe.Sizeof(s[0]))*len(s))
}
