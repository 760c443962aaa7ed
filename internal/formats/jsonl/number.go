package jsonl

import (
	"fmt"
	"math"
	"strconv"
)

// Number is one as a record has it.
type Number struct {
	Text  []byte
	Whole bool // it is written without fraction and exponent

	digits   uint64 // without sign and point
	exponent int    // of ten, that these are multiplied by
	all      bool   // digits are all that there are
	negative bool
	special  float64 // NaN or an infinity; 0: it is none
}

// Number reads the number that begins at At. Python's NaN, Infinity and -Infinity are numbers, too.
func (s *Scanner) Number() (n Number, err error) {
	data, from, i := s.Data, s.At, s.At
	if n.negative = i < len(data) && data[i] == '-'; n.negative {
		i++
	}
	n.all = true
	first := i
	for ; i < len(data) && isDigit(data[i]); i++ {
		n.add(data[i])
	}
	switch whole := i - first; {
	case whole == 0:
		return s.special(n)
	case whole > 1 && data[first] == '0':
		return n, s.wrong(from, "a number that begins with 0")
	}
	n.Whole = true
	if i < len(data) && data[i] == '.' {
		n.Whole = false
		i++
		point := i
		for ; i < len(data) && isDigit(data[i]); i++ {
			n.add(data[i])
			n.exponent--
		}
		if i == point {
			return n, s.wrong(i, "a number without digits behind its point")
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		n.Whole = false
		if i, err = s.exponent(&n, i+1); err != nil {
			return n, err
		}
	}
	n.Text, s.At = data[from:i], i
	return n, nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// maxDigits is how many digits a uint64 holds, whatever they are.
const maxDigits = 1e18

func (n *Number) add(digit byte) {
	if n.digits >= maxDigits {
		n.all = false
		return
	}
	n.digits = 10*n.digits + uint64(digit-'0')
}

// exponent reads what stands behind the e.
func (s *Scanner) exponent(n *Number, i int) (int, error) {
	data, sign := s.Data, 1
	if i < len(data) && (data[i] == '+' || data[i] == '-') {
		if data[i] == '-' {
			sign = -1
		}
		i++
	}
	from, e := i, 0
	for ; i < len(data) && isDigit(data[i]); i++ {
		e = min(10*e+int(data[i]-'0'), 1<<20)
	}
	if i == from {
		return i, s.wrong(i, "a number without digits in its exponent")
	}
	n.exponent += sign * e
	return i, nil
}

// special reads Python's NaN, Infinity and -Infinity.
func (s *Scanner) special(n Number) (Number, error) {
	from := s.At
	if n.negative {
		s.At++
	}
	switch {
	case s.Literal("Infinity"):
		n.special = math.Inf(1)
	case !n.negative && s.Literal("NaN"):
		n.special = math.NaN()
	default:
		return n, s.Unexpected("a number")
	}
	if n.negative {
		n.special = -n.special
	}
	n.Text = s.Data[from:s.At]
	return n, nil
}

// Int is the number, if it is a whole one that an int64 holds.
func (n *Number) Int() (int64, error) {
	if !n.Whole {
		return 0, fmt.Errorf("%s where a whole number is wanted", shown(n.Text))
	}
	if n.all && n.digits <= math.MaxInt64 {
		if n.negative {
			return -int64(n.digits), nil
		}
		return int64(n.digits), nil
	}
	x, err := strconv.ParseInt(string(n.Text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s, which int64 does not have", shown(n.Text))
	}
	return x, nil
}

// maxShown bounds what of a value stands in messages, in bytes.
const maxShown = 40

func shown(text []byte) string {
	if len(text) > maxShown {
		return string(text[:maxShown]) + "..."
	}
	return string(text)
}

// Float64 is the nearest one. -0 is a whole number, and so 0.
func (n *Number) Float64() (float64, error) {
	if x := n.special; x != 0 {
		return x, nil
	}
	if e := n.exponent; n.all && n.digits <= 1<<53 && e >= -22 && e <= 22 { // both are exact, and so is one operation
		x := float64(n.digits)
		if e < 0 {
			x /= power(-e)
		} else {
			x *= power(e)
		}
		return n.signed(x), nil
	}
	return n.parse(64)
}

// Float32 is the nearest one.
func (n *Number) Float32() (float32, error) {
	if x := n.special; x != 0 {
		return float32(x), nil
	}
	if e := n.exponent; n.all && n.digits <= 1<<24 && e >= -10 && e <= 10 {
		x := float32(n.digits)
		if e < 0 {
			x /= float32(power(-e))
		} else {
			x *= float32(power(e))
		}
		return float32(n.signed(float64(x))), nil
	}
	x, err := n.parse(32)
	return float32(x), err
}

func (n *Number) signed(x float64) float64 {
	if n.negative && !(n.Whole && x == 0) {
		return -x
	}
	return x
}

func (n *Number) parse(bits int) (float64, error) {
	x, err := strconv.ParseFloat(string(n.Text), bits)
	if err != nil {
		return 0, fmt.Errorf("%s, which float%d does not have", shown(n.Text), bits)
	}
	return x, nil
}

// power is a power of ten that a float64 has exactly.
func power(n int) float64 {
	return [...]float64{
		1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
		1e20, 1e21, 1e22,
	}[n]
}
