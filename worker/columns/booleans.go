package columns

import (
	"encoding/binary"
	"fmt"

	"github.com/penstock-ml/penstock/worker/vector"
)

// booleans decodes booleans, which are bits in PLAIN and in RLE pages.
type booleans struct {
	mem  *allowance
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
		b.runs.begin(data[:size], 1)
		return nil
	}
	return fmt.Errorf("encoding %s does not fit booleans", e)
}

func (b *booleans) reserve(n int) (err error) {
	b.out, err = grow(b.mem, b.out, n)
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
			for i := range m {
				p := r.at + i
				dst[i] = r.bits[p>>3]>>(p&7)&1 != 0
			}
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

func (b *booleans) spread(valid []uint64, from, n, present int) {
	spread(b.out, valid, from, n, present)
}

func (b *booleans) into(v *vector.Vector, n int) { v.Bool = b.out[:n] }
