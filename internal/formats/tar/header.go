package tar

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
)

const (
	// block is what a tar is made of: headers are one, and what follows them is filled up to whole ones.
	block = 512
	// maxSize is more than any member has: sums of sizes stay in range.
	maxSize = 1 << 50
)

// header is what a block says of what follows.
type header struct {
	name []byte
	size int64
	kind byte
}

// The kinds of headers.
const (
	regular    = '0'
	old        = 0 // regular, of tars before ustar
	contiguous = '7'
	longName   = 'L' // the name of the next header, as GNU tar writes it
	longLink   = 'K' // and that of its link
	extended   = 'x' // what PAX says of the next header
	solaris    = 'X' // the same
	global     = 'g' // of all headers that follow
	sparse     = 'S'
	continued  = 'M' // of a tar in volumes
)

var (
	errSum  = errors.New("this is no header of a tar, or it is damaged: its checksum is wrong; write the file again")
	errSize = errors.New("the size in a header is no number that can be: the file is damaged; write it again")
)

// parseHeader reads a block that is not all zeros. Its sum was checked if it is trusted.
func parseHeader(b []byte, trusted bool) (header, error) {
	if !trusted && !sums(b) {
		return header{}, errSum
	}
	h := header{kind: b[156], name: text(b[:100])}
	var ok bool
	if h.size, ok = number(b[124:136]); !ok || h.size < 0 || h.size > maxSize {
		return header{}, errSize
	}
	if string(b[257:263]) == "ustar\x00" {
		prefix := b[345:500]
		if string(b[508:512]) == "tar\x00" { // star has times behind a shorter one
			prefix = b[345:476]
		}
		if prefix = text(prefix); len(prefix) > 0 {
			h.name = bytes.Join([][]byte{prefix, h.name}, []byte("/"))
		}
	}
	if h.kind == old && bytes.HasSuffix(h.name, []byte("/")) {
		h.kind = '5'
	}
	if h.kind >= '1' && h.kind <= '6' { // links, devices, directories, pipes: nothing follows, whatever the size
		h.size = 0
	}
	return h, nil
}

// text is what is in front of the first zero.
func text(field []byte) []byte {
	if i := bytes.IndexByte(field, 0); i >= 0 {
		return field[:i]
	}
	return field
}

// number reads one in octal digits, or in bytes behind a first one of 0x80.
func number(field []byte) (int64, bool) {
	if field[0]&0x80 != 0 {
		for _, b := range field[1:4] {
			if b != 0 {
				return 0, false
			}
		}
		n := binary.BigEndian.Uint64(field[len(field)-8:])
		return int64(n), field[0] == 0x80 && n <= math.MaxInt64 //nolint:gosec // it is looked at
	}
	digits := bytes.Trim(text(field), " ")
	if len(digits) == 0 {
		return 0, true
	}
	n := int64(0)
	for _, d := range digits { // no more than 12
		if d < '0' || d > '7' {
			return 0, false
		}
		n = n<<3 | int64(d-'0')
	}
	return n, true
}

// sums reports whether a block has the sum that it claims. Some tars add bytes as signed ones.
func sums(b []byte) bool {
	const from, to = 148, 156
	digits := bytes.Trim(text(b[from:to]), " ")
	want, err := strconv.ParseInt(string(digits), 8, 32)
	if err != nil {
		return false
	}
	sum, high := int64(0), int64(0)
	for at := 0; at < block; at += 8 {
		w := binary.LittleEndian.Uint64(b[at:])
		if at+8 > from && at < to { // the sum itself counts as blanks
			w = blanked(w, at, from, to)
		}
		const pairs = 0x00ff00ff00ff00ff
		p := w&pairs + w>>8&pairs
		sum += int64(p * 0x0001000100010001 >> 48)
		high += int64(bits.OnesCount64(w & 0x8080808080808080))
	}
	return sum == want || sum-256*high == want
}

func blanked(w uint64, at, from, to int) uint64 {
	for i := range 8 {
		if at+i >= from && at+i < to {
			w = w&^(0xff<<(8*i)) | ' '<<(8*i)
		}
	}
	return w
}

// said is what headers in front of a header say of it.
type said struct {
	name    []byte
	size    int64
	hasSize bool
}

// pax reads what an extended header says: lines of a length, a name, an equals sign and a value.
func (s *said) pax(data []byte, kind byte) error {
	for len(data) > 0 && data[0] != 0 {
		blank := bytes.IndexByte(data[:min(len(data), 20)], ' ')
		if blank < 0 {
			return errPax
		}
		n, err := strconv.Atoi(string(data[:blank]))
		if err != nil || n <= blank+1 || n > len(data) || data[n-1] != '\n' {
			return errPax
		}
		key, value, ok := bytes.Cut(data[blank+1:n-1], []byte("="))
		if !ok {
			return errPax
		}
		data = data[n:]
		if err := s.keyword(string(key), value, kind); err != nil {
			return err
		}
	}
	return nil
}

var (
	errPax    = errors.New("an extended header is damaged: write the file again")
	errSparse = errors.New("it has holes (it is sparse), which is not read: write the tar without --sparse")
)

func (s *said) keyword(key string, value []byte, kind byte) error {
	switch {
	case kind == global && (key == "path" || key == "size"):
		return fmt.Errorf("a global header says the %s of all members that follow, which is not read: write the file "+
			"again without it", key)
	case bytes.HasPrefix([]byte(key), []byte("GNU.sparse.")):
		return errSparse
	case key == "path":
		s.name = value
	case key == "size" && len(value) > 0:
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil || n < 0 || n > maxSize {
			return errSize
		}
		s.size, s.hasSize = n, true
	}
	return nil
}
