package parquet

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// booleans decodes booleans, which are bits in PLAIN and in RLE pages.
type booleans struct {
	mem  *decode.Allowance
	runs runs
	out  []bool
}

func (b *booleans) dictionary([]byte, encoding, int) error {
	return fmt.Errorf("booleans have none")
}

func (b *booleans) page(data []byte, e encoding, n int) error {
	switch e {
	case encodingPlain: // as one packed run
		b.runs = runs{width: 1, packed: true, bits: data, left: len(data) * 8}
		return nil
	case encodingRLE:
		if len(data) == 0 { // as for pages of nulls only
			b.runs.begin(nil, 1)
			return nil
		}
		if len(data) < 4 {
			return errShort
		}
		size := binary.LittleEndian.Uint32(data)
		if data = data[4:]; uint64(size) > uint64(len(data)) {
			return errShort
		}
		b.runs = runs{src: data[:size], width: 1, flags: true}
		return nil
	}
	return fmt.Errorf("encoding %s does not fit booleans", e)
}

func (b *booleans) reserve(n, likely int) (err error) {
	b.out, err = decode.GrowTo(b.mem, b.out, n, likely)
	return err
}

func (b *booleans) read(at, n int) error {
	dst := b.out[at : at+n]
	for r := &b.runs; len(dst) > 0; {
		if r.left == 0 {
			if err := r.next(); err != nil {
				return err
			}
			continue
		}
		m := min(len(dst), r.left)
		if r.packed {
			takeBits(dst[:m], r.bits, r.at)
		} else {
			for i := range m {
				dst[i] = r.value != 0
			}
		}
		r.take(m)
		dst = dst[m:]
	}
	return nil
}

// takeBits writes bits of packed, from number at on, which has them all.
func takeBits(dst []bool, packed []byte, at int) {
	i := 0
	for ; i < len(dst) && (at+i)&7 != 0; i++ {
		dst[i] = packed[(at+i)>>3]>>((at+i)&7)&1 != 0
	}
	out := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), len(dst))
	for ; i+8 <= len(dst); i += 8 {
		// Bit k of the byte is left in byte k, and carries into the highest bit there.
		v := uint64(packed[(at+i)>>3]) * 0x0101010101010101 & 0x8040201008040201
		binary.LittleEndian.PutUint64(out[i:], (v+0x7f7f7f7f7f7f7f7f)>>7&0x0101010101010101)
	}
	for ; i < len(dst); i++ {
		dst[i] = packed[(at+i)>>3]>>((at+i)&7)&1 != 0
	}
}

func (b *booleans) spread(valid []uint64, from, n, present int) {
	spread(b.out, valid, from, n, present)
}

func (b *booleans) into(v *vector.Vector, n int) { v.Bool = b.out[:n] }
