package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var errShort = errors.New("it ends too early")

// runs reads Parquet's hybrid of run-length and bit-packed runs. A run is taken in pieces of any length: left
// values are still to be taken of it, each value if it is not packed, else those of bits from number at on.
type runs struct {
	src    []byte // behind the run
	width  int
	flags  bool // they are booleans: parquet-go repeats 255 for true
	left   int
	packed bool
	value  uint64
	bits   []byte // the run, and what follows it: fast loads may go beyond it
	at     int
}

// begin takes the runs of values of width bits, 0 to 32, in src.
func (r *runs) begin(src []byte, width int) { *r = runs{src: src, width: width} }

// next begins the next run. It may be empty.
func (r *runs) next() error {
	if len(r.src) > 1 && r.src[0] < 0x80 && r.width <= 8 {
		return r.nextShort()
	}
	h, n := binary.Uvarint(r.src)
	if n <= 0 {
		return errShort
	}
	r.src = r.src[n:]
	count := h >> 1
	if h&1 == 0 {
		return r.repeat(count)
	}
	if r.width == 0 {
		r.packed, r.value, r.left = false, 0, int(min(count, 1<<31))*8
		return nil
	}
	size := len(r.src)
	if count <= uint64(size/r.width) {
		size = int(count) * r.width
	}
	// Some writers cut the last run short; what it lacks is missed when it is needed.
	r.packed, r.at, r.left = true, 0, size*8/r.width
	r.bits, r.src = r.src, r.src[size:]
	return nil
}

// nextShort does so where the run's length is in one byte and a value in another, as it mostly is for levels.
func (r *runs) nextShort() error {
	count, packed := int(r.src[0]>>1), r.src[0]&1 != 0
	switch {
	case r.width == 0:
		r.packed, r.value, r.src = false, 0, r.src[1:]
		if r.left = count; packed {
			r.left *= 8
		}
		return nil
	case !packed:
		r.packed, r.value, r.left, r.src = false, uint64(r.src[1]), count, r.src[2:]
		if r.value>>r.width != 0 && !r.flags {
			return fmt.Errorf("a value of more than %d bits", r.width)
		}
		return nil
	}
	r.src = r.src[1:]
	size := count * r.width
	// cut short, as by some writers: what it lacks is missed when it is needed
	if r.left = count * 8; size > len(r.src) {
		size = len(r.src)
		r.left = size * 8 / r.width
	}
	r.packed, r.at, r.bits, r.src = true, 0, r.src, r.src[size:]
	return nil
}

// repeat begins a run of count times one value.
func (r *runs) repeat(count uint64) error {
	size := (r.width + 7) >> 3
	if len(r.src) < size {
		return errShort
	}
	r.value = 0
	for i, b := range r.src[:size] {
		r.value |= uint64(b) << (8 * i)
	}
	if r.value>>r.width != 0 && !r.flags {
		return fmt.Errorf("a value of more than %d bits", r.width)
	}
	r.packed, r.left, r.src = false, int(min(count, 1<<31)), r.src[size:]
	return nil
}

// take moves n values on in the run.
func (r *runs) take(n int) {
	r.left -= n
	r.at += n
}

// beginIndices takes the dictionary indices of a page: the width stands in front.
func (r *runs) beginIndices(data []byte) error {
	if len(data) == 0 { // as for pages of nulls only
		r.begin(nil, 0)
		return nil
	}
	if data[0] > 32 {
		return fmt.Errorf("dictionary indices of %d bits", data[0])
	}
	r.begin(data[1:], int(data[0]))
	return nil
}

// unpack decodes the next n values into dst, each below limit.
func (r *runs) unpack(dst []uint32, limit int) error {
	for len(dst) > 0 {
		if r.left == 0 {
			if err := r.next(); err != nil {
				return err
			}
			continue
		}
		m := min(len(dst), r.left)
		if !r.packed {
			if r.value >= uint64(limit) {
				return errIndex(r.value, limit)
			}
			for i := range m {
				dst[i] = uint32(r.value)
			}
		} else {
			largest := unpack(dst[:m], r.bits, r.at, r.width)
			if uint64(largest) >= uint64(limit) {
				return errIndex(uint64(largest), limit)
			}
		}
		r.take(m)
		dst = dst[m:]
	}
	return nil
}

func errIndex(i uint64, n int) error {
	return fmt.Errorf("index %d into a dictionary of %d values", i, n)
}
