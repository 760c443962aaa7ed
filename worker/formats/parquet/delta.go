package parquet

import (
	"encoding/binary"
	"fmt"

	"github.com/penstock-ml/penstock/internal/simd"
)

// maxDeltaBlock is far above what writers use: 128 or a few hundred.
const maxDeltaBlock = 1 << 20

// delta reads DELTA_BINARY_PACKED.
type delta struct {
	src      []byte // behind the miniblock
	perMini  int
	minis    int
	left     int // values still to be given
	first    bool
	last     int64
	least    int64  // of the block's deltas
	widths   []byte // of the block's further miniblocks
	width    int
	packed   []byte // the miniblock, and what follows it: fast loads may go beyond it
	at, size int    // values given of it, values in it
}

// begin reads the front of src. There must be at most limit values; it returns how many there are.
func (d *delta) begin(src []byte, limit int) (int, error) {
	*d = delta{first: true}
	var head [3]uint64
	for i := range head {
		v, n := binary.Uvarint(src)
		if n <= 0 {
			return 0, errShort
		}
		head[i], src = v, src[n:]
	}
	block, minis, total := head[0], head[1], head[2]
	if block == 0 || block > maxDeltaBlock || minis == 0 || minis > block || block%minis != 0 || block/minis%8 != 0 {
		return 0, fmt.Errorf("delta encoding with blocks of %d values in %d parts", block, minis)
	}
	if total > uint64(limit) {
		return 0, fmt.Errorf("delta encoding of %d values where there are %d", total, limit)
	}
	v, n := binary.Varint(src)
	if n <= 0 {
		return 0, errShort
	}
	d.last, d.src = v, src[n:]
	d.perMini, d.minis, d.left = int(block/minis), int(minis), int(total)
	return d.left, nil
}

// nextDeltas gives the next values of d, or their low bits. Behind low bits, only low bits count: the sum has lost the
// others.
func nextDeltas[T word](d *delta, dst []T) error {
	if len(dst) > d.left {
		return errValues
	}
	d.left -= len(dst)
	if d.first && len(dst) > 0 {
		d.first = false
		dst[0] = T(d.last)
		dst = dst[1:]
	}
	for len(dst) > 0 {
		if d.at == d.size {
			if err := d.nextMini(len(dst) + d.left); err != nil {
				return err
			}
		}
		m := min(len(dst), d.size-d.at)
		if d.width > 0 && d.width <= 32 {
			addNarrow(d, dst[:m])
		} else {
			for i := range m {
				d.last += d.least + int64(wideBitsAt(d.packed, (d.at+i)*d.width, d.width))
				dst[i] = T(d.last)
			}
		}
		d.at += m
		dst = dst[m:]
	}
	return nil
}

// addNarrow gives values of the miniblock, whose deltas are 1 to 32 bits wide.
func addNarrow[T word](d *delta, dst []T) {
	at := d.at
	// groups begin at whole bytes
	if head := -at & 7; simdLevel >= simd.AVX2 && d.width <= maxVectorWidth && len(dst) >= head+8 {
		addSlow(d, dst[:head], at)
		at, dst = at+head, dst[head:]
		first := at >> 3 * d.width
		groups := unpackGroups(len(dst)>>3, len(d.packed)-first, d.width)
		if groups > 0 {
			d.last = addVector(dst[:groups<<3], d.packed[first:], d.width, d.last, d.least)
			at, dst = at+groups<<3, dst[groups<<3:]
		}
	}
	addSlow(d, dst, at)
}

// addSlow does so from number at of the miniblock on, in plain Go.
func addSlow[T word](d *delta, dst []T, at int) {
	last, least := d.last, d.least
	for len(dst) > 0 {
		var codes [32]uint32
		n := min(len(dst), len(codes))
		unpackSlow(codes[:n], d.packed, at, d.width)
		for i, c := range codes[:n] {
			last += least + int64(c)
			dst[i] = T(last)
		}
		at, dst = at+n, dst[n:]
	}
	d.last = last
}

// nextMini begins the next miniblock, of which at most want values are needed.
func (d *delta) nextMini(want int) error {
	if len(d.widths) == 0 {
		v, n := binary.Varint(d.src)
		if n <= 0 || len(d.src)-n < d.minis {
			return errShort
		}
		d.least = v
		d.widths, d.src = d.src[n:n+d.minis], d.src[n+d.minis:]
	}
	d.width = int(d.widths[0])
	d.widths = d.widths[1:]
	if d.width > 64 {
		return fmt.Errorf("deltas of %d bits", d.width)
	}
	d.at, d.size = 0, min(d.perMini, want)
	if (d.size*d.width+7)>>3 > len(d.src) {
		return errShort
	}
	size := min(d.perMini/8*d.width, len(d.src)) // the last may be cut short
	d.packed, d.src = d.src, d.src[size:]
	return nil
}

// rest returns what follows the values. The reader stays where it is, at the first value.
func (d *delta) rest() ([]byte, error) {
	e := *d
	for n := e.left - 1; n > 0; n -= e.size {
		if err := e.nextMini(n); err != nil {
			return nil, err
		}
	}
	return e.src, nil
}

// wideBitsAt returns width bits, 0 to 64, from bit at of packed on, which must be there.
func wideBitsAt(packed []byte, at, width int) uint64 {
	v := bitsAt(packed, at)
	if s := at & 7; width+s > 64 {
		v |= uint64(packed[at>>3+8]) << (64 - s)
	}
	return v & lowBits(width)
}

// putInts writes ints as the low bytes of each.
func putInts(dst []byte, ints []uint64, width int) {
	if width == 4 {
		for i, v := range ints {
			binary.LittleEndian.PutUint32(dst[i*4:], uint32(v))
		}
		return
	}
	for i, v := range ints {
		binary.LittleEndian.PutUint64(dst[i*8:], v)
	}
}
