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
	for _, c := range text {
		if c|0x20 == 'x' || c == '_' {
			return 0, false
		}
	}
	x, err := strconv.ParseFloat(view(text), bits)
	return x, err == nil
}

// view is a text as a string, which no callee keeps: strconv copies what its errors quote.
func view(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }
