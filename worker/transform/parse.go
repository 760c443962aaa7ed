package transform

import (
	"math"
	"strconv"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// castText makes a kernel that parses text.
func castText(to pb.Kind) Kernel {
	switch to {
	case pb.Kind_BOOL:
		return &partial[bool]{convert: parsing(parseBool)}
	case pb.Kind_INT32:
		return &partial[int32]{convert: parsing(func(b []byte) (int32, bool) {
			n, ok := parseInt(b)
			return int32(max(math.MinInt32, min(math.MaxInt32, n))), ok
		})}
	case pb.Kind_INT64:
		return &partial[int64]{convert: parsing(parseInt)}
	case pb.Kind_FLOAT32:
		return &partial[float32]{convert: parsing(func(b []byte) (float32, bool) {
			x, ok := parseFloat(b, 32)
			return float32(x), ok
		})}
	}
	return &partial[float64]{convert: parsing(func(b []byte) (float64, bool) { return parseFloat(b, 64) })}
}

// parsing makes a loop of a parser that returns false for what it cannot read.
func parsing[D Value](parse func([]byte) (D, bool)) func([]D, *vector.Vector, []uint64) bool {
	return func(dst []D, in *vector.Vector, valid []uint64) (failed bool) {
		var zero D
		for i := range dst {
			dst[i] = zero
			if valid[i>>6]>>(i&63)&1 == 0 {
				continue
			}
			x, ok := parse(in.Data[in.Ends[i]:in.Ends[i+1]])
			if !ok {
				failed = true
				clearBit(valid, i)
				continue
			}
			dst[i] = x
		}
		return failed
	}
}

// parseBool reads true, false, 1 and 0, in any case.
func parseBool(b []byte) (value, ok bool) {
	switch {
	case len(b) == 1 && b[0] == '1', foldsTo(b, "true"):
		return true, true
	case len(b) == 1 && b[0] == '0', foldsTo(b, "false"):
		return false, true
	}
	return false, false
}

// foldsTo reports whether b is the lower-case word but for its case.
func foldsTo(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i, c := range b {
		if c|0x20 != word[i] {
			return false
		}
	}
	return true
}

// parseInt reads an optional sign and decimal digits, nothing else. What is out of range takes the nearest value.
func parseInt(b []byte) (int64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative || len(b) > 0 && b[0] == '+' {
		b = b[1:]
	}
	const most = math.MaxInt64
	n := uint64(0)
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n > (most+1)/10 {
			n = most + 1
			continue
		}
		n = min(n*10+uint64(c-'0'), most+1)
	}
	switch {
	case negative:
		return -int64(n), len(b) > 0 // -(most+1) wraps to itself, the least int64
	case n > most:
		n = most
	}
	return int64(n), len(b) > 0
}

// parseFloat reads decimal numbers such as -1.5e-3, .5 and 2., and inf, infinity and nan in any case, rounded to
// nearest; what is out of range becomes infinite.
func parseFloat(b []byte, bits int) (float64, bool) {
	if !isFloatText(b) {
		return 0, false
	}
	// The string lives no longer than the call. The only error left is one of range, with an infinite result; only
	// such numbers allocate.
	x, _ := strconv.ParseFloat(unsafe.String(unsafe.SliceData(b), len(b)), bits)
	return x, true
}

// isFloatText keeps strconv from what it reads beyond decimal numbers, and from allocating errors.
func isFloatText(b []byte) bool {
	if foldsTo(b, "nan") {
		return true
	}
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		b = b[1:]
	}
	if foldsTo(b, "inf") || foldsTo(b, "infinity") {
		return true
	}
	whole := digits(b)
	b = b[whole:]
	fraction := 0
	if len(b) > 0 && b[0] == '.' {
		fraction = digits(b[1:])
		b = b[1+fraction:]
	}
	if whole+fraction == 0 {
		return false
	}
	if len(b) == 0 {
		return true
	}
	if b[0]|0x20 != 'e' {
		return false
	}
	b = b[1:]
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		b = b[1:]
	}
	return len(b) > 0 && digits(b) == len(b)
}

// digits counts the decimal digits that b starts with.
func digits(b []byte) int {
	for i, c := range b {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(b)
}
