package columns

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/bits"
	"unsafe"
)

// Gzip (RFC 1952) is a header, a stream of blocks (DEFLATE, RFC 1951), and a checksum; and what stands behind that, if anything, is
// another one. A page's length is known, and all of it is there: so bits are taken eight bytes at a time, and what they mean is looked
// up at once with what is to be done about it, without a call or a check of the ends for each symbol.
const (
	gzipHeader, gzipTrailer = 10, 8
	gzipMagic               = 0x8b1f
	gzipDeflate             = 8 // the only method
	gzipHeaderSum           = 1 << 1
	gzipExtra               = 1 << 2
	gzipName, gzipComment   = 1 << 3, 1 << 4
)

const (
	// inflateLiteralBits and the like are how many bits of a code are looked up at once; what is longer has a second table.
	inflateLiteralBits, inflateDistanceBits, inflateLengthBits = 11, 8, 7
	inflateMostBits                                            = 15
	inflateMostLength                                          = 258
	// A table has second ones for all codes that are longer. No valid set of 288 codes needs more than 2342 entries for all, and none of
	// 32 more than 402 (zlib's examples/enough.c).
	inflateLiteralTable, inflateDistanceTable = 2342, 402
	// inflateIn and inflateOut are what must be left of the input and of the output where their ends are not looked at.
	inflateIn, inflateOut = 16, 3 + inflateMostLength + stepBytes // three are literals
	inflateEnd            = 256                                   // the symbol
)

// An entry of a table says what a code means. Its lowest byte is how many bits that takes, with those that belong to it behind the code.
//
//	literal:  inflateLiteral, and the byte at bit 16
//	length:   how many bits the code has at bit 8, and the least length at bit 16; distances alike
//	other:    inflateOther, and inflateSecond (a second table, of as many bits as stand at bit 8, which begins at the number at bit 16)
//	          or inflateStop, the block's end; neither: there is no such code
const (
	inflateLiteral = 1 << 31
	inflateOther   = 1 << 15
	inflateSecond  = 1 << 14
	inflateStop    = 1 << 13
)

var errInflate = errors.New("it is damaged: cut short, or with codes that cannot be, or it refers to what is not there")

// inflater decompresses gzip. The zero value is ready for use.
type inflater struct {
	literals  [inflateLiteralTable]uint32 // and lengths
	distances [inflateDistanceTable]uint32
	codes     [1 << inflateLengthBits]uint32 // of lengths of codes
	lengths   [288 + 32]uint8
	fixed     bool // literals and distances are those that need not be told

	src  []byte
	at   int // in src
	bits uint64
	n    uint // how many of bits are there
}

// gunzip fills dst with what src decompresses to, and returns how long that is.
func (f *inflater) gunzip(dst, src []byte) (int, error) {
	f.src, f.at = src, 0
	defer func() { f.src = nil }()
	for d := 0; ; {
		if err := f.header(); err != nil {
			return d, err
		}
		begin := d
		var err error
		if d, err = f.inflate(dst, begin); err != nil {
			return d, err
		}
		left := f.src[f.at:]
		if len(left) < gzipTrailer {
			return d, errInflate
		}
		sum, size := binary.LittleEndian.Uint32(left), binary.LittleEndian.Uint32(left[4:])
		if sum != crc32.ChecksumIEEE(dst[begin:d]) || size != uint32(d-begin) {
			return d, errors.New("its checksum is not that of its bytes: the file is damaged")
		}
		if f.at += gzipTrailer; f.at == len(src) {
			return d, nil
		}
	}
}

// header goes past a header.
func (f *inflater) header() error {
	h := f.src[f.at:]
	if len(h) < gzipHeader || binary.LittleEndian.Uint16(h) != gzipMagic || h[2] != gzipDeflate {
		return errors.New("it does not begin as gzip does")
	}
	flags, at := h[3], gzipHeader
	if flags&gzipExtra != 0 {
		if len(h) < at+2 {
			return errInflate
		}
		at += 2 + int(binary.LittleEndian.Uint16(h[at:]))
	}
	for _, text := range []byte{gzipName, gzipComment} {
		if flags&text == 0 {
			continue
		}
		for at < len(h) && h[at] != 0 {
			at++
		}
		at++
	}
	if flags&gzipHeaderSum != 0 {
		if len(h) < at+2 || binary.LittleEndian.Uint16(h[at:]) != uint16(crc32.ChecksumIEEE(h[:at])) {
			return errInflate
		}
		at += 2
	}
	if at > len(h) {
		return errInflate
	}
	f.at += at
	return nil
}

// inflate decompresses a stream of blocks to dst[d:], and returns where that ends.
func (f *inflater) inflate(dst []byte, d int) (int, error) {
	begin := d
	f.bits, f.n = 0, 0
	for last := false; !last; {
		head, ok := f.take(3)
		if !ok {
			return d, errInflate
		}
		last = head&1 != 0
		var err error
		switch head >> 1 {
		case 0:
			d, err = f.stored(dst, d)
		case 1:
			if !f.fixed {
				f.fixLengths()
			}
			d, err = f.block(dst, begin, d)
		case 2:
			if err = f.readLengths(); err == nil {
				d, err = f.block(dst, begin, d)
			}
		default:
			err = errInflate
		}
		if err != nil {
			return d, err
		}
	}
	f.at -= int(f.n / 8) // whole bytes that were not needed
	return d, nil
}

// fill has at least n bits be there, for n up to 56, or all that are left.
func (f *inflater) fill(n uint) {
	for f.n < n && f.at < len(f.src) {
		f.bits |= uint64(f.src[f.at]) << f.n
		f.at++
		f.n += 8
	}
}

// take takes n bits, for n up to 16.
func (f *inflater) take(n uint) (uint, bool) {
	f.fill(n)
	if f.n < n {
		return 0, false
	}
	v := uint(f.bits) & (1<<n - 1)
	f.bits >>= n
	f.n -= n
	return v, true
}

// look takes a symbol by a table of root bits, and the bits that belong to it, which come to value with the least one.
func (f *inflater) look(table []uint32, root uint) (e uint32, value int, ok bool) {
	f.fill(inflateMostBits + 13)
	b, n := f.bits, f.n
	if e = table[b&(1<<root-1)]; e&inflateSecond != 0 {
		if n < root {
			return 0, 0, false
		}
		b, n = b>>root, n-root
		e = table[e>>16+uint32(b)&(1<<(e>>8&15)-1)]
	}
	taken := uint(e & 0xff)
	if taken > n || e&inflateOther != 0 && e&inflateStop == 0 {
		return 0, 0, false
	}
	f.bits, f.n = b>>taken, n-taken
	return e, int(e>>16) + int(b&(1<<taken-1)>>(e>>8&15)), true
}

// stored copies a block that is not compressed.
func (f *inflater) stored(dst []byte, d int) (int, error) {
	f.at -= int(f.n / 8)
	f.bits, f.n = 0, 0
	if len(f.src)-f.at < 4 {
		return d, errInflate
	}
	size := int(binary.LittleEndian.Uint16(f.src[f.at:]))
	if size^0xffff != int(binary.LittleEndian.Uint16(f.src[f.at+2:])) {
		return d, errInflate
	}
	f.at += 4
	if size > len(f.src)-f.at {
		return d, errInflate
	}
	if size > len(dst)-d {
		return d, errLonger
	}
	copy(dst[d:], f.src[f.at:f.at+size])
	f.at += size
	return d + size, nil
}

// fixLengths makes the tables of blocks that bring none.
func (f *inflater) fixLengths() {
	for i := range f.lengths {
		switch {
		case i < 144:
			f.lengths[i] = 8
		case i < 256:
			f.lengths[i] = 9
		case i < 280:
			f.lengths[i] = 7
		case i < 288:
			f.lengths[i] = 8
		default:
			f.lengths[i] = 5
		}
	}
	inflateMake(f.literals[:], f.lengths[:288], inflateLiteralBits, inflateLiterals[:])
	inflateMake(f.distances[:], f.lengths[288:], inflateDistanceBits, inflateDistances[:])
	f.fixed = true
}

// readLengths makes the tables of a block that brings the lengths of its codes, which are coded themselves.
func (f *inflater) readLengths() error {
	f.fixed = false
	head, ok := f.take(14)
	literals, distances, n := head&31+257, head>>5&31+1, head>>10+4
	if !ok || literals > 286 || distances > 30 {
		return errInflate
	}
	clear(f.lengths[:19])
	for _, symbol := range inflateOrder[:n] {
		length, ok := f.take(3)
		if !ok {
			return errInflate
		}
		f.lengths[symbol] = uint8(length)
	}
	if !inflateMake(f.codes[:], f.lengths[:19], inflateLengthBits, inflateLengths[:]) {
		return errInflate
	}
	for i := uint(0); i < literals+distances; {
		_, symbol, ok := f.look(f.codes[:], inflateLengthBits)
		if !ok {
			return errInflate
		}
		if symbol < 16 {
			f.lengths[i] = uint8(symbol)
			i++
			continue
		}
		var more, length uint
		switch symbol {
		case 16: // the one before, again
			if i == 0 {
				return errInflate
			}
			more, ok = f.take(2)
			more, length = more+3, uint(f.lengths[i-1])
		case 17:
			more, ok = f.take(3)
			more += 3
		default:
			more, ok = f.take(7)
			more += 11
		}
		if !ok || more > literals+distances-i {
			return errInflate
		}
		for ; more > 0; more-- {
			f.lengths[i] = uint8(length)
			i++
		}
	}
	if f.lengths[inflateEnd] == 0 ||
		!inflateMake(f.distances[:], f.lengths[literals:literals+distances], inflateDistanceBits, inflateDistances[:]) ||
		!inflateMake(f.literals[:], f.lengths[:literals], inflateLiteralBits, inflateLiterals[:]) {
		return errInflate
	}
	return nil
}

// inflateMake makes a table of root bits of codes of such lengths (0: there is none), which mean what entries say, and reports whether
// there can be such codes. As elsewhere, they may leave bits without a meaning only if there is no code, or one of one bit.
func inflateMake(table []uint32, lengths []uint8, root uint, entries []uint32) bool {
	var count, place [inflateMostBits + 1]uint16
	for _, l := range lengths {
		count[l]++
	}
	left := 1
	for l := 1; l <= inflateMostBits; l++ {
		if left = left<<1 - int(count[l]); left < 0 {
			return false
		}
		if l > 1 {
			place[l] = place[l-1] + count[l-1]
		}
	}
	used := len(lengths) - int(count[0])
	if left > 0 {
		if used > 1 || used == 1 && count[1] == 0 {
			return false
		}
		for i := range table[:1<<root] {
			table[i] = inflateOther
		}
	}
	var sorted [288]uint16 // symbols by length, which is the order of their codes
	for symbol, l := range lengths {
		if l > 0 {
			sorted[place[l]] = uint16(symbol)
			place[l]++
		}
	}
	code, i := uint32(0), 0
	for l := uint(1); l <= root; l++ {
		for range count[l] {
			entry := entries[sorted[i]] + uint32(l)*0x101
			for at := inflateTurned(code, l); at < 1<<root; at += 1 << l {
				table[at] = entry
			}
			code, i = code+1, i+1
		}
		code <<= 1
	}
	// Codes that begin with the same root bits follow each other, the longest last: they share a second table.
	prefix, second, end := ^uint32(0), uint32(0), uint32(1)<<root
	for l := root + 1; l <= inflateMostBits; l++ {
		for k := range count[l] {
			at := inflateTurned(code, l)
			if at&(1<<root-1) != prefix {
				prefix, second = at&(1<<root-1), end
				width := l - root
				for free := 1<<width - int(count[l]-k); free > 0 && root+width < inflateMostBits; {
					width++
					free = free<<1 - int(count[root+width])
				}
				end += 1 << width
				table[prefix] = second<<16 | uint32(width)<<8 | inflateOther | inflateSecond | uint32(root)
			}
			entry := entries[sorted[i]] + uint32(l-root)*0x101
			for j := second + at>>root; j < end; j += 1 << (l - root) {
				table[j] = entry
			}
			code, i = code+1, i+1
		}
		code <<= 1
	}
	return true
}

// inflateTurned is a code of l bits with the first bit last, as it is read.
func inflateTurned(code uint32, l uint) uint32 { return bits.Reverse32(code) >> (32 - l) }

// inflateSymbols makes what symbols mean: bases are the least values, each for as many as its bits say.
func inflateSymbols(bases []uint16, extra []uint8) []uint32 {
	out := make([]uint32, 32)
	for i := range out {
		out[i] = inflateOther
		if i < len(bases) {
			out[i] = uint32(bases[i])<<16 | uint32(extra[i])
		}
	}
	return out
}

//nolint:gochecknoglobals // constants
var (
	// inflateLiterals are the symbols' entries, but for the lengths of their codes; inflateDistances and inflateLengths likewise.
	inflateLiterals = func() (out [288]uint32) {
		for i := range inflateEnd {
			out[i] = inflateLiteral | uint32(i)<<16
		}
		out[inflateEnd] = inflateOther | inflateStop
		copy(out[inflateEnd+1:], inflateSymbols(
			[]uint16{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258},
			[]uint8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}))
		return out
	}()
	inflateDistances = inflateSymbols(
		[]uint16{1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577},
		[]uint8{0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13})
	inflateOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	// inflateAgain is the least multiple of a distance that is a step or more.
	inflateAgain   = [stepBytes]uint8{0, 16, 16, 18, 16, 20, 18, 21, 16, 18, 20, 22, 24, 26, 28, 30}
	inflateLengths = func() (out [19]uint32) {
		for i := range out {
			out[i] = uint32(i) << 16
		}
		return out
	}()
)

// block decompresses the rest of a block to dst[d:], and returns where that ends. What it refers to begins at dst[begin:].
func (f *inflater) block(dst []byte, begin, d int) (int, error) {
	for {
		var done bool
		var err error
		if d, done, err = f.fast(dst, begin, d); done || err != nil {
			return d, err
		}
		if d, done, err = f.symbol(dst, begin, d); done || err != nil {
			return d, err
		}
	}
}

// fast decompresses symbols as long as enough of the input and of the output is left, or to the block's end: then it is done.
func (f *inflater) fast(dst []byte, begin, d int) (_ int, done bool, _ error) {
	src, at, b, n := f.src, f.at, f.bits, uint32(f.n)
	literals, distances := &f.literals, &f.distances
	for at <= len(src)-inflateIn && d <= len(dst)-inflateOut {
		b |= binary.LittleEndian.Uint64(src[at:]) << (n & 63)
		at += int(63-n) >> 3
		n |= 56
		e := literals[b&(1<<inflateLiteralBits-1)]
		if e&inflateLiteral != 0 {
			b, n = b>>(e&63), n-e&0xff
			dst[d] = byte(e >> 16)
			d++
			if e = literals[b&(1<<inflateLiteralBits-1)]; e&inflateLiteral != 0 {
				b, n = b>>(e&63), n-e&0xff
				dst[d] = byte(e >> 16)
				d++
				if e = literals[b&(1<<inflateLiteralBits-1)]; e&inflateLiteral != 0 {
					b, n = b>>(e&63), n-e&0xff
					dst[d] = byte(e >> 16)
					d++
					continue
				}
			}
			b |= binary.LittleEndian.Uint64(src[at:]) << (n & 63) // for a length and a distance, which have up to 48
			at += int(63-n) >> 3
			n |= 56
		}
		if e&inflateOther != 0 {
			if e&inflateSecond != 0 {
				b, n = b>>inflateLiteralBits, n-inflateLiteralBits
				e = literals[e>>16+uint32(b)&(1<<(e>>8&15)-1)]
			}
			if e&inflateLiteral != 0 {
				b, n = b>>(e&63), n-e&0xff
				dst[d] = byte(e >> 16)
				d++
				continue
			}
			if e&inflateOther != 0 {
				f.at, f.bits, f.n = at, b>>(e&63), uint(n-e&0xff)
				if e&inflateStop == 0 {
					return d, false, errInflate
				}
				return d, true, nil
			}
		}
		length := int(e>>16) + int(b&(1<<(e&63)-1)>>(e>>8&15))
		b, n = b>>(e&63), n-e&0xff
		e = distances[b&(1<<inflateDistanceBits-1)]
		if e&inflateOther != 0 {
			if e&inflateSecond == 0 {
				return d, false, errInflate
			}
			b, n = b>>inflateDistanceBits, n-inflateDistanceBits
			if e = distances[e>>16+uint32(b)&(1<<(e>>8&15)-1)]; e&inflateOther != 0 {
				return d, false, errInflate
			}
		}
		distance := int(e>>16) + int(b&(1<<(e&63)-1)>>(e>>8&15))
		b, n = b>>(e&63), n-e&0xff
		if distance > d-begin {
			return d, false, errInflate
		}
		d = inflateCopy(dst, d, distance, length)
	}
	f.at, f.bits, f.n = at, b, uint(n)
	return d, false, nil
}

// inflateCopy copies bytes of dst from distance before d on, behind which there is room for a step more.
func inflateCopy(dst []byte, d, distance, length int) int {
	end := d + length
	if length > 4*stepBytes {
		return copyAgain(dst, d, distance, length)
	}
	if distance < stepBytes {
		for i := d; i < d+stepBytes; i++ {
			dst[i] = dst[i-distance]
		}
		d, distance = d+stepBytes, int(inflateAgain[distance])
	}
	p := unsafe.Pointer(unsafe.SliceData(dst))
	for ; d < end; d += stepBytes {
		copyStep(unsafe.Add(p, d), unsafe.Add(p, d-distance), 0)
	}
	return end
}

// symbol decompresses one symbol, wherever it is.
func (f *inflater) symbol(dst []byte, begin, d int) (_ int, done bool, _ error) {
	e, length, ok := f.look(f.literals[:], inflateLiteralBits)
	switch {
	case !ok:
		return d, false, errInflate
	case e&inflateLiteral != 0:
		if d == len(dst) {
			return d, false, errLonger
		}
		dst[d] = byte(e >> 16)
		return d + 1, false, nil
	case e&inflateOther != 0:
		return d, true, nil
	}
	_, distance, ok := f.look(f.distances[:], inflateDistanceBits)
	switch {
	case !ok || distance > d-begin:
		return d, false, errInflate
	case length > len(dst)-d:
		return d, false, errLonger
	}
	return copyAgain(dst, d, distance, length), false, nil
}
