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

// Number reads the number that begins at At. Python's NaN, Infinity and -Infinity are numbers, too. It is valid until
// the next call: it is much, to be copied for each.
func (s *Scanner) Number() (*Number, error) {
	n, data, i := &s.number, s.Data, s.At
	*n = Number{negative: i < len(data) && data[i] == '-'}
	if n.negative {
		i++
	}
	first := i
	i = n.add(data, i)
	count := i - first
	switch {
	case count == 0:
		return n, s.special(n)
	case count > 1 && data[first] == '0':
		return nil, s.wrong(s.At, "a number that begins with 0")
	}
	n.Whole = true
	if i < len(data) && data[i] == '.' {
		n.Whole = false
		point := i + 1
		if i = n.add(data, point); i == point {
			return nil, s.wrong(i, "a number without digits behind its point")
		}
		n.exponent = point - i
		count += i - point
	}
	n.all = count <= maxDigits
	if i < len(data) && data[i]|0x20 == 'e' {
		n.Whole = false
		var err error
		if i, err = s.exponent(n, i+1); err != nil {
			return nil, err
		}
	}
	n.Text, s.At = data[s.At:i], i
	return n, nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// maxDigits is how many digits a uint64 holds, whatever they are.
const maxDigits = 19

// add adds the digits that begin at a byte, and returns where they end. Those that a uint64 does not hold are lost.
func (n *Number) add(data []byte, i int) int {
	digits := n.digits
	for ; i < len(data) && isDigit(data[i]); i++ {
		digits = 10*digits + uint64(data[i]-'0')
	}
	n.digits = digits
	return i
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
func (s *Scanner) special(n *Number) error {
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
		return s.Unexpected("a number")
	}
	if n.negative {
		n.special = -n.special
	}
	n.Text = s.Data[from:s.At]
	return nil
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
