package columns

import (
	"encoding/binary"
	"fmt"

	"github.com/penstock-ml/penstock/worker/vector"
)

// binaries decodes byte arrays, of one width or of any.
type binaries struct {
	mem   *allowance
	width int // 0: any
	fixed stream

	encoding          encoding
	plain             []byte
	prefixes, lengths delta
	last              []byte // DELTA_BYTE_ARRAY: the value before
	ints, ints2       []int64
	index             runs
	indices           []uint32
	dictData          []byte
	dictEnds          []int32

	data []byte
	ends []int32 // value j is data[ends[j]:ends[j+1]]
}

func (b *binaries) dictionary(data []byte, e encoding, n int) error {
	if !e.dictionary() {
		return fmt.Errorf("encoded as %s", e)
	}
	if n > len(data) { // each takes a byte or more
		return fmt.Errorf("%d values in %d bytes: %w", n, len(data), errShort)
	}
	// The dictionary is read as a page is, to a place of its own.
	d := binaries{mem: b.mem, width: b.width, fixed: stream{width: b.width}, data: b.dictData[:0], ends: b.dictEnds}
	err := d.page(data, encodingPlain, n)
	if err == nil {
		err = d.reserve(n)
	}
	if err == nil {
		err = d.read(0, n)
	}
	if err != nil {
		return err
	}
	b.dictData, b.dictEnds = d.data, d.ends[:n+1]
	return nil
}

func (b *binaries) page(data []byte, e encoding, n int) error {
	b.encoding, b.plain = e, data
	switch {
	case e.indexed():
		return b.index.beginIndices(data)
	case e == encodingPlain && b.width == 0:
		return nil
	case e == encodingPlain || e == encodingStreamSplit && b.width > 0:
		b.fixed.width = b.width
		return b.fixed.begin(data, e, n)
	case e == encodingDeltaLength && b.width == 0:
		return b.beginLengths(data, n)
	case e == encodingDeltaByteArray:
		if len(data) == 0 {
			return nil
		}
		b.last = b.last[:0]
		if _, err := b.prefixes.begin(data, n); err != nil {
			return err
		}
		data, err := b.prefixes.rest()
		if err != nil {
			return err
		}
		return b.beginLengths(data, n)
	}
	return fmt.Errorf("encoding %s does not fit the column's type", e)
}

// beginLengths reads the front of lengths with their bytes behind them.
func (b *binaries) beginLengths(data []byte, n int) error {
	if len(data) == 0 {
		b.lengths = delta{}
		return nil
	}
	if _, err := b.lengths.begin(data, n); err != nil {
		return err
	}
	var err error
	b.plain, err = b.lengths.rest()
	return err
}

func (b *binaries) reserve(n int) error {
	ends, err := grow(b.mem, b.ends, n+1)
	if err != nil {
		return err
	}
	b.ends = ends
	b.ends[0] = 0
	return nil
}

func (b *binaries) read(at, n int) error {
	b.data = b.data[:b.ends[at]]
	for n > 0 {
		m := min(n, blockSize)
		var err error
		switch {
		case b.encoding.indexed():
			err = b.readIndexed(at, m)
		case b.width > 0 && b.encoding != encodingDeltaByteArray:
			err = b.readFixed(at, m)
		case b.encoding == encodingPlain:
			err = b.readPlain(at, m)
		default:
			err = b.readDelta(at, m)
		}
		if err != nil {
			return err
		}
		at, n = at+m, n-m
	}
	return nil
}

func (b *binaries) readPlain(at, n int) error {
	src := b.plain
	for i := at + 1; i <= at+n; i++ {
		if len(src) < 4 {
			return errValues
		}
		size := binary.LittleEndian.Uint32(src)
		if src = src[4:]; uint64(size) > uint64(len(src)) {
			return errValues
		}
		if err := b.append(i, src[:size]); err != nil {
			return err
		}
		src = src[size:]
	}
	b.plain = src
	return nil
}

// append adds a value that ends at ends[i].
func (b *binaries) append(i int, value []byte) error {
	n := len(b.data)
	if n+len(value) > cap(b.data) {
		data, err := grow(b.mem, b.data, n+len(value))
		if err != nil {
			return err
		}
		b.data = data[:n]
	}
	b.data = append(b.data, value...)
	b.ends[i] = int32(len(b.data))
	return nil
}

func (b *binaries) readFixed(at, n int) error {
	src, err := b.fixed.next(n)
	if err != nil {
		return err
	}
	for i := range n {
		if err := b.append(at+1+i, src[i*b.width:][:b.width]); err != nil {
			return err
		}
	}
	return nil
}

func (b *binaries) readIndexed(at, n int) error {
	b.indices = vector.Grow(b.indices, n)
	if err := b.index.unpack(b.indices, max(len(b.dictEnds)-1, 0)); err != nil {
		return err
	}
	for i, j := range b.indices {
		if err := b.append(at+1+i, b.dictData[b.dictEnds[j]:b.dictEnds[j+1]]); err != nil {
			return err
		}
	}
	return nil
}

// readDelta reads DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY, whose values begin as the one before does.
func (b *binaries) readDelta(at, n int) error {
	b.ints, b.ints2 = vector.Grow(b.ints, n), vector.Grow(b.ints2, n)
	if err := b.lengths.next(b.ints); err != nil {
		return err
	}
	shared := b.encoding == encodingDeltaByteArray
	if shared {
		if err := b.prefixes.next(b.ints2); err != nil {
			return err
		}
	}
	for i, size := range b.ints {
		if size < 0 || size > int64(len(b.plain)) {
			return errValues
		}
		value := b.plain[:size]
		b.plain = b.plain[size:]
		if shared {
			prefix := b.ints2[i]
			if prefix < 0 || prefix > int64(len(b.last)) {
				return fmt.Errorf("a value that shares %d bytes with one of %d", prefix, len(b.last))
			}
			b.last = append(b.last[:prefix], value...)
			value = b.last
		}
		if b.width > 0 && len(value) != b.width {
			return fmt.Errorf("a value of %d bytes where all have %d", len(value), b.width)
		}
		if err := b.append(at+1+i, value); err != nil {
			return err
		}
	}
	return nil
}

// spread gives null values the empty string: ends are moved apart as values would be.
func (b *binaries) spread(valid []uint64, from, n, present int) {
	src := from + present
	for i := from + n; i > from; i-- {
		b.ends[i] = b.ends[src]
		src -= int(valid[(i-1)>>6] >> ((i - 1) & 63) & 1)
	}
}

func (b *binaries) into(v *vector.Vector, n int) {
	v.Ends = b.ends[:n+1]
	v.Data = b.data[:v.Ends[n]]
}
