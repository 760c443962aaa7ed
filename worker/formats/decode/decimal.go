package decode

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"unsafe"
)

// Integers of up to 2^53 and powers of ten of up to 10^22 are float64s, and so their quotient is the nearest one.
const (
	maxExactInteger = 1 << 53
	maxExactPower   = 22
)

// Decimal makes float64s of decimals: the nearest to their integers divided by 10^scale.
type Decimal struct {
	scale  int
	power  float64
	exact  uint64 // the greatest integer whose quotient by power is the nearest
	suffix string // "e-7"
}

// NewDecimal returns what divides by 10^scale.
func NewDecimal(scale int) Decimal {
	d := Decimal{scale: scale, power: math.Pow10(scale), suffix: "e" + strconv.Itoa(-scale)}
	if scale <= maxExactPower {
		d.exact = maxExactInteger
	}
	return d
}

// Integer converts a decimal of an integer.
func (d *Decimal) Integer(v int64) float64 {
	size := uint64(v)
	if v < 0 {
		size = -size
	}
	return d.Parts(v < 0, 0, size)
}

// BigEndian converts a decimal of two's complement of any length.
func (d *Decimal) BigEndian(src []byte) float64 {
	if len(src) == 0 {
		return 0
	}
	negative := src[0] >= 0x80
	var sign byte
	if negative {
		sign = 0xff
	}
	for len(src) > 16 && src[0] == sign && src[1]>>7 == sign>>7 {
		src = src[1:]
	}
	if len(src) > 16 {
		return d.long(src)
	}
	var high, low uint64
	for _, b := range src {
		high, low = high<<8|low>>56, low<<8|uint64(b^sign)
	}
	if negative { // what was read is the complement
		var carry uint64
		low, carry = bits.Add64(low, 1, 0)
		high += carry
	}
	return d.Parts(negative, high, low)
}

// Parts converts a sign and 128 bits.
func (d *Decimal) Parts(negative bool, high, low uint64) float64 {
	if high == 0 && low <= d.exact {
		v := float64(low) / d.power
		if negative {
			return -v
		}
		return v
	}
	var room [48]byte
	text := room[:0]
	if negative {
		text = append(text, '-')
	}
	text = append(appendDigits(text, high, low), d.suffix...)
	v, err := strconv.ParseFloat(unsafe.String(&text[0], len(text)), 64) // rounds to the nearest, and allocates nothing
	if err != nil {
		return math.NaN() // there is no such text
	}
	return v
}

// long converts what has more than the 38 digits of a decimal, which no writer should write.
func (d *Decimal) long(src []byte) float64 {
	v := new(big.Int).SetBytes(src)
	if src[0] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(src))))
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.scale)), nil)
	x, _ := new(big.Rat).SetFrac(v, power).Float64()
	return x
}

// appendDigits writes 128 bits as a decimal number.
func appendDigits(text []byte, high, low uint64) []byte {
	if high == 0 {
		return strconv.AppendUint(text, low, 10)
	}
	const digits, power = 19, 1e19
	upper, rest := high/power, high%power
	lower, last := bits.Div64(rest, low, power)
	text = appendDigits(text, upper, lower)
	at := len(text)
	text = append(text, "0000000000000000000"...)
	for i := at + digits - 1; i >= at; i-- {
		text[i] = byte('0' + last%10)
		last /= 10
	}
	return text
}
