package parquet

import (
	"encoding/binary"
	"errors"
	"unsafe"
)

// Snappy's elements are a tag, whose low two bits are its type, and what the rest of it says: a literal stands behind
// it, a copy is of what was decompressed before. In columns of numbers most are of a few bytes, and nobody can tell
// which type comes next. So those are decoded without a branch on it, and by copies of more bytes than they have: what
// is too much is overwritten.
const (
	snappyLiteral = iota
	snappyCopy1   // an offset of 11 bits, three of them in the tag
	snappyCopy2   // of 16 bits
	snappyCopy4   // of 32 bits
)

const (
	// maxSnappy is the longest element that is copied so; room for two stays free behind what is read and written.
	maxSnappy  = 64
	snappySlop = 2 * maxSnappy
	// snappyStep is the least offset of a copy that may be by steps.
	snappyStep = stepBytes
	// snappyLong is the tag's length of literals whose length stands behind the tag.
	snappyLong = 60
)

// snappyTag is what a tag says: for literals that are shorter than snappyLong, a step counts as their offset.
type snappyTag struct {
	length, advance uint8  // advance is to the next tag
	high            uint16 // bits of the offset
	mask            uint32 // of the bytes behind the tag that are the offset
}

var snappyTags = func() (tags [256]snappyTag) { //nolint:gochecknoglobals // a constant
	for i := range tags {
		t, rest := &tags[i], uint8(i>>2)
		switch i & 3 {
		case snappyLiteral:
			*t = snappyTag{length: rest + 1, advance: rest + 2, high: snappyStep}
			if rest >= snappyLong {
				t.high = 0 // which no copy has: it is an exception
			}
		case snappyCopy1:
			*t = snappyTag{length: rest&7 + 4, advance: 2, high: uint16(rest>>3) << 8, mask: 1<<8 - 1}
		case snappyCopy2:
			*t = snappyTag{length: rest + 1, advance: 3, mask: 1<<16 - 1}
		case snappyCopy4:
			*t = snappyTag{length: rest + 1, advance: 5} // an exception too: it is rare
		}
	}
	return tags
}()

var errSnappy = errors.New("it is cut short, or refers to what is not there")

// snappyDecode fills dst with what src decompresses to, and returns how long that is.
func snappyDecode(dst, src []byte) (int, error) {
	n, s := binary.Uvarint(src)
	if s <= 0 || n != uint64(len(dst)) {
		return int(min(n, maxPage+1)), nil // which is not what the caller wants
	}
	for d := 0; ; {
		if d >= snappyStep {
			d, s = snappyShort(dst, src, d, s)
		}
		if s == len(src) {
			return d, nil
		}
		var err error
		if d, s, err = snappyNext(dst, src, d, s); err != nil {
			return d, err
		}
	}
}

// snappyShort decodes elements from src[s:] to dst[d:], of which there are snappyStep bytes or more, until one is an
// exception, or either of them comes to its end. The element's bytes stand in src, or in dst before d: that is chosen
// by arithmetic between the two, which unsafe.Add's checks do not know. Both are on the heap, where nothing moves.
//
//go:nocheckptr
func snappyShort(dst, src []byte, d, s int) (int, int) {
	out, in := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
	apart := int(uintptr(in) - uintptr(out))
	if d >= len(dst)-snappySlop || s >= len(src)-snappySlop {
		return d, s
	}
	for tag := *(*byte)(unsafe.Add(in, s)); ; {
		p := unsafe.Add(in, s)
		t := &snappyTags[tag]
		offset := int(binary.LittleEndian.Uint32((*[4]byte)(unsafe.Add(p, 1))[:])&t.mask) + int(t.high)
		if uint(offset-snappyStep) > uint(d-snappyStep) {
			break
		}
		// The next tag is read behind a literal and behind a copy, before it is known which of them this is.
		kind, rest := int(tag&3), int(tag>>2)
		literal := (kind - 1) >> 8 // all bits, or none
		advance := (rest+2)&literal | (kind+1)&^literal
		next := byte(int(*(*byte)(unsafe.Add(p, rest+2)))&literal | int(*(*byte)(unsafe.Add(p, kind+1)))&^literal)
		from, to := unsafe.Add(out, (d-offset)&^literal|(apart+s+1)&literal), unsafe.Add(out, d)
		copyStep(to, from, 0)
		copyStep(to, from, snappyStep)
		if t.length > 2*snappyStep {
			copyStep(to, from, 2*snappyStep)
			copyStep(to, from, 3*snappyStep)
		}
		d, s, tag = d+int(t.length), s+advance, next
		if d >= len(dst)-snappySlop || s >= len(src)-snappySlop {
			break
		}
	}
	return d, s
}

// snappyNext decodes any element.
func snappyNext(dst, src []byte, d, s int) (int, int, error) {
	if src[s]&3 == snappyLiteral {
		s, length, ok := snappyLiteralAt(src, s)
		if !ok || length > len(dst)-d {
			return d, s, errSnappy
		}
		copy(dst[d:], src[s:s+length])
		return d + length, s + length, nil
	}
	t := &snappyTags[src[s]]
	length, extra := int(t.length), int(t.advance)-1
	if s++; extra > len(src)-s {
		return d, s, errSnappy
	}
	value := snappyNumber(src[s : s+extra])
	s += extra
	offset := value + int(t.high)
	if offset <= 0 || offset > d || length > len(dst)-d {
		return d, s, errSnappy
	}
	return copyAgain(dst, d, offset, length), s, nil
}

// snappyLiteralAt is where the bytes of the literal begin whose tag is src[s], and how many they are; ok is false if
// they are not all there.
func snappyLiteralAt(src []byte, s int) (from, length int, ok bool) {
	length = int(src[s] >> 2)
	if s++; length >= snappyLong {
		extra := length - snappyLong + 1
		if extra > len(src)-s {
			return s, 0, false
		}
		length = snappyNumber(src[s : s+extra])
		s += extra
	}
	return s, length + 1, length >= 0 && length < len(src)-s
}

// snappyNumber is what up to four bytes behind a tag say.
func snappyNumber(b []byte) int {
	var n [4]byte
	copy(n[:], b)
	return int(binary.LittleEndian.Uint32(n[:]))
}
