package parquet

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// binaries decodes byte arrays, of one width or of any.
type binaries struct {
	mem   *decode.Allowance
	width int // 0: any
	fixed stream

	encoding          encoding
	plain             []byte
	prefixes, lengths delta
	last              []byte // DELTA_BYTE_ARRAY: the value before
	ints, ints2       []uint64
	index             runs
	indices           []uint32
	dictData          []byte
	dictEnds          []int32
	slots             slots

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
		err = d.reserve(n, n)
	}
	if err == nil {
		err = d.read(0, n)
	}
	if err != nil {
		return err
	}
	b.dictData, b.dictEnds = d.data, d.ends[:n+1]
	b.slots.begin(b.dictEnds)
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
	case e == encodingDeltaLength && b.width == 0, e == encodingDeltaByteArray && len(data) == 0:
		return b.beginLengths(data, n)
	case e == encodingDeltaByteArray:
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

// beginLengths reads the front of lengths with their bytes behind them. No bytes are no lengths.
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

func (b *binaries) reserve(n, likely int) error {
	ends, err := decode.GrowTo(b.mem, b.ends, n+1, likely+1)
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
	src, ends := b.plain, b.ends[at+1:at+1+n]
	for i := 0; ; i++ {
		read, passed, end := plainShort(ends[i:], b.data, src)
		b.data, src = b.data[:end], src[passed:]
		if i += read; i == n {
			b.plain = src
			return nil
		}
		if len(src) < 4 {
			return errValues
		}
		size := binary.LittleEndian.Uint32(src)
		if src = src[4:]; uint64(size) > uint64(len(src)) {
			return errValues
		}
		if _, err := b.room(at+1+i, int(size)); err != nil {
			return err
		}
		copy(b.data[end:], src[:size])
		src = src[size:]
		ends[i] = int32(len(b.data)) // room refuses more than fits
	}
}

// plainShort appends values of PLAIN to data, each behind its length in src, until one is long, data's capacity or src
// comes near its end, or there are as many as ends. It returns how many there were, how much of src they took, and how
// long data is then. The one chain that goes through all values is from length to length.
func plainShort(ends []int32, data, src []byte) (n, passed, end int) {
	end = len(data)
	lastFrom, lastTo := len(src)-4-copySlack, cap(data)-copySlack
	in, out := unsafe.Pointer(unsafe.SliceData(src)), unsafe.Pointer(unsafe.SliceData(data))
	for i := range ends {
		if passed > lastFrom || end > lastTo {
			return i, passed, end
		}
		size := binary.LittleEndian.Uint32((*[4]byte)(unsafe.Add(in, passed))[:])
		from, to := unsafe.Add(in, passed+4), unsafe.Add(out, end)
		copyStep(to, from, 0)
		if size > stepBytes {
			if size > copySlack {
				return i, passed, end
			}
			copyStep(to, from, stepBytes)
		}
		passed += 4 + int(size)
		end += int(size)
		ends[i] = int32(end)
	}
	return len(ends), passed, end
}

const (
	// stepBytes is what copyStep copies.
	stepBytes = 16
	// copySlack is what may be written behind a short value that is copied by steps, of which it takes two at most.
	copySlack = 2 * stepBytes
)

// copyAgain copies length bytes of dst to d, from distance before that on: what was copied is copied again, twice as
// much each time. It returns where they end.
func copyAgain(dst []byte, d, distance, length int) int {
	end := d + length
	for from := d - distance; d < end; {
		d += copy(dst[d:end], dst[from:d])
	}
	return end
}

// copyStep copies stepBytes bytes, which are there.
func copyStep(to, from unsafe.Pointer, at int) {
	*(*[stepBytes]byte)(unsafe.Add(to, at)) = *(*[stepBytes]byte)(unsafe.Add(from, at))
}

// room makes data n bytes longer, and returns it with copySlack bytes behind. It has the bytes of a number of values
// then.
func (b *binaries) room(values, n int) ([]byte, error) {
	had := len(b.data)
	need := had + n + copySlack
	data, err := decode.GrowTo(b.mem, b.data, need, need*len(b.ends)/max(values, 1))
	if err != nil {
		return nil, err
	}
	b.data = data[:had+n]
	return data[:need], nil
}

// copyShort copies n bytes. Short ones, which most are, take no call; what is behind them is overwritten.
func copyShort(dst, src []byte, n int) {
	if n > copySlack || len(src) < copySlack || len(dst) < copySlack {
		copy(dst[:n], src)
		return
	}
	to, from := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
	copyStep(to, from, 0)
	if n > stepBytes {
		copyStep(to, from, stepBytes)
	}
}

// append adds a value that ends at ends[i].
func (b *binaries) append(i int, value []byte) error {
	n := len(b.data)
	if n+len(value) > cap(b.data) {
		data, err := decode.GrowTo(b.mem, b.data, n+len(value), (n+len(value))*len(b.ends)/i)
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
	return b.take(at, b.indices)
}

// take copies entries of the dictionary to positions from at on.
func (b *binaries) take(at int, codes []uint32) error {
	if b.slots.have(b) {
		return b.takeSlots(at, codes)
	}
	dictEnds, size := b.dictEnds, 0
	for _, j := range codes {
		size += int(dictEnds[j+1] - dictEnds[j])
	}
	pos := len(b.data)
	data, err := b.room(at+len(codes), size)
	if err != nil {
		return err
	}
	dict, ends := b.dictData[:min(len(b.dictData)+copySlack, cap(b.dictData))], b.ends[at+1:at+1+len(codes)]
	for i, j := range codes {
		from := int(dictEnds[j])
		size := int(dictEnds[j+1]) - from
		copyShort(data[pos:], dict[from:], size)
		pos += size
		ends[i] = int32(pos)
	}
	return nil
}

func (b *binaries) entries(v *vector.Vector) {
	v.Rows, v.Ends, v.Data = len(b.dictEnds)-1, b.dictEnds, b.dictData
}

func (b *binaries) lookUp(at int, codes []uint32, valid []uint64) error {
	b.data = b.data[:b.ends[at]]
	for len(codes) > 0 {
		n := min(len(codes), blockSize)
		present := codes[:n]
		if valid != nil {
			b.indices = vector.Grow(b.indices, n)[:0]
			for i, j := range present {
				if k := at + i; valid[k>>6]>>(k&63)&1 != 0 {
					b.indices = append(b.indices, j)
				}
			}
			present = b.indices
		}
		if err := b.take(at, present); err != nil {
			return err
		}
		if len(present) < n {
			b.spread(valid, at, n, len(present))
		}
		at, codes = at+n, codes[n:]
	}
	return nil
}

// readDelta reads DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY, whose values begin as the one before does. Pages whose
// first value begins as the last one of the page before, which parquet-mr before 1.8 wrote (PARQUET-246), are refused:
// pages may have been passed over.
func (b *binaries) readDelta(at, n int) error {
	b.ints, b.ints2 = vector.Grow(b.ints, n), vector.Grow(b.ints2, n)
	if err := nextDeltas(&b.lengths, b.ints); err != nil {
		return err
	}
	if b.encoding == encodingDeltaLength {
		return b.readLengths(at)
	}
	if err := nextDeltas(&b.prefixes, b.ints2); err != nil {
		return err
	}
	for i, size := range b.ints {
		if size > uint64(len(b.plain)) {
			return errValues
		}
		prefix := b.ints2[i]
		if prefix > uint64(len(b.last)) {
			return fmt.Errorf("a value that shares %d bytes with one of %d", int64(prefix), len(b.last))
		}
		b.last = append(b.last[:prefix], b.plain[:size]...)
		b.plain = b.plain[size:]
		if b.width > 0 && len(b.last) != b.width {
			return fmt.Errorf("a value of %d bytes where all have %d", len(b.last), b.width)
		}
		if err := b.append(at+1+i, b.last); err != nil {
			return err
		}
	}
	return nil
}

// readLengths takes values of the lengths that were read; their bytes stand one after another.
func (b *binaries) readLengths(at int) error {
	size, left, end := 0, uint64(len(b.plain)), len(b.data)
	for i, n := range b.ints {
		if n > left {
			return errValues
		}
		left -= n
		size += int(n)
		b.ends[at+1+i] = int32(end + size) // room refuses more than fits
	}
	data, err := b.room(at+len(b.ints), size)
	if err != nil {
		return err
	}
	copy(data[end:], b.plain[:size])
	b.plain = b.plain[size:]
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
