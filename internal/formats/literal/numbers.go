package literal

import (
	"bytes"
	"strconv"
	"unsafe"
)

// ParseBool reads true, false, 1 and 0.
func ParseBool(text []byte) (value, ok bool) {
	switch {
	case bytes.EqualFold(text, []byte("true")), string(text) == "1":
		return true, true
	case bytes.EqualFold(text, []byte("false")), string(text) == "0":
		return false, true
	}
	return false, false
}

// safeDigits are as many as an int64 has in any case.
const safeDigits = 18

// ParseInt reads decimal digits, perhaps behind a sign.
func ParseInt(text []byte) (int64, bool) {
	digits, negative := text, false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		digits, negative = text[1:], text[0] == '-'
	}
	if len(digits) > safeDigits {
		n, err := strconv.ParseInt(view(text), 10, 64)
		return n, err == nil
	}
	n := int64(0)
	for _, c := range digits {
		if c -= '0'; c > 9 {
			return 0, false
		}
		n = 10*n + int64(c)
	}
	if negative {
		n = -n
	}
	return n, len(digits) > 0
}

// ParseFloat reads decimal numbers, inf, infinity and nan, as the nearest float of so many bits. What is out of range
// is none.
func ParseFloat(text []byte, bits int) (float64, bool) {
	if x, ok := quotient(text, bits); ok {
		return x, true
	}
	for _, c := range text {
		if c|0x20 == 'x' || c == '_' {
			return 0, false
		}
	}
	x, err := strconv.ParseFloat(view(text), bits)
	return x, err == nil
}

// quotient reads digits with a point as what stands there without the point, divided by a power of ten: where floats of
// so many bits have both exactly, that is the nearest one. Most numbers are such.
func quotient(text []byte, bits int) (float64, bool) {
	digits, sign := text, 1.0
	if len(text) > 0 && text[0] == '-' {
		digits, sign = text[1:], -1
	}
	if len(digits) > safeDigits {
		return 0, false
	}
	n, point := uint64(0), len(digits)
	for i, c := range digits {
		if c == '.' && point == len(digits) {
			point = i
			continue
		}
		if c -= '0'; c > 9 {
			return 0, false
		}
		n = 10*n + uint64(c)
	}
	behind := max(0, len(digits)-point-1)
	switch {
	case len(digits) == 0 || len(digits) == 1 && point == 0:
		return 0, false
	case bits == 32 && n <= 1<<24 && behind <= 10:
		return sign * float64(float32(n)/float32(powers[behind])), true
	case bits == 64 && n <= 1<<53:
		return sign * (float64(n) / powers[behind]), true
	}
	return 0, false
}

// powers are those of ten, which a float64 has exactly; a float32 has the first eleven.
var powers = [safeDigits]float64{ //nolint:gochecknoglobals // nobody writes it
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
}

// view is a text as a string, which no callee keeps: strconv copies what its errors quote.
func view(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }
