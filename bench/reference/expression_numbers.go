package reference

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
)

// madeNumber is arithmetic and the functions of numbers.
func madeNumber(op expr.Op, args []formula) (formula, error) {
	kind, err := together(args)
	constant := true
	for _, a := range args {
		constant = constant && a.constant
		if !isNumeric(a.kind) || op == expr.Mod && !isInt(a.kind) {
			return formula{}, fmt.Errorf("of %v", a.kind)
		}
	}
	switch op {
	case expr.Div, expr.Sqrt, expr.Exp, expr.Ln, expr.Log1p, expr.Pow:
		if kind == pb.Kind_INT64 {
			kind = pb.Kind_FLOAT64
		}
	}
	remainder := op == expr.Mod && args[0].hash
	args = all(args, kind)
	var table *logTable
	if op == expr.Ln || op == expr.Log1p {
		table = newLogTable()
	}
	constant = constant && op <= expr.Mod
	return formula{kind: kind, constant: constant, remainder: remainder, of: func(in []*cell, at place) scalarValue {
		a := args[0].of(in, at)
		b := args[len(args)-1].of(in, at)
		switch {
		case a.null || b.null:
			return none()
		case kind == pb.Kind_INT64:
			return wholeResult(op, a.n, b.n)
		}
		x := fraction(op, a.x, b.x, table)
		if op == expr.Log1p && kind == pb.Kind_FLOAT32 {
			x = float64(log32(float32(a.x)))
		}
		return scalarValue{x: nearest(x, kind)}
	}}, err
}

// wholeResult is null where there is none, or none in 64 bits.
func wholeResult(op expr.Op, a, b int64) scalarValue {
	x, y, r := big.NewInt(a), big.NewInt(b), new(big.Int)
	switch op {
	case expr.Neg:
		r.Neg(x)
	case expr.Abs:
		r.Abs(x)
	case expr.Add:
		r.Add(x, y)
	case expr.Sub:
		r.Sub(x, y)
	case expr.Mul:
		r.Mul(x, y)
	case expr.Mod: // x - y * floor(x / y)
		if b == 0 {
			return none()
		}
		if r.Rem(x, y); r.Sign() != 0 && r.Sign() != y.Sign() {
			r.Add(r, y)
		}
	default: // floor, ceil and round
		r = x
	}
	if !r.IsInt64() {
		return none()
	}
	return scalarValue{n: r.Int64()}
}

// fraction computes in float64: sums, differences, products and quotients of two float32 are as near to what is exact
// when they are rounded twice.
func fraction(op expr.Op, a, b float64, table *logTable) float64 {
	switch op {
	case expr.Neg:
		return -a
	case expr.Add:
		return a + b
	case expr.Sub:
		return a - b
	case expr.Mul:
		return a * b
	case expr.Div:
		return a / b
	case expr.Abs:
		return math.Copysign(a, 1)
	case expr.Floor:
		return math.Floor(a)
	case expr.Ceil:
		return math.Ceil(a)
	case expr.Round:
		if whole := math.Trunc(a); math.Abs(a-whole) >= 0.5 {
			return whole + math.Copysign(1, a)
		}
		return math.Copysign(math.Trunc(a), a)
	case expr.Sqrt:
		return math.Sqrt(a)
	case expr.Exp:
		return exponential(a)
	case expr.Ln:
		return table.ln(a)
	case expr.Log1p:
		return table.log(a)
	}
	return power(a, b)
}

// exponential is 2^k * (1 + e), of which expMinusOne says how it is computed.
func exponential(y float64) float64 {
	switch {
	case y != y || math.IsInf(y, 1):
		return y
	case y > 720:
		return math.Inf(1)
	case y < -760:
		return 0
	}
	k, e := expParts(y)
	return math.Ldexp(1+e, int(k))
}

// power is the exact one, rounded to nearest, with the special cases of IEEE 754.
func power(x, y float64) float64 {
	plain := !math.IsNaN(x) && !math.IsNaN(y) && !math.IsInf(x, 0) && !math.IsInf(y, 0) && x != 0 && y != 0
	whole := y == math.Trunc(y)
	if !plain || x < 0 && !whole { // of these, no digits depend on the library
		return math.Pow(x, y)
	}
	sign := 1.0
	if x < 0 && math.Mod(y, 2) != 0 {
		sign = -1
	}
	t := exactLog(new(big.Float).SetPrec(precision).SetFloat64(math.Abs(x)))
	t.Mul(t, big.NewFloat(y))
	switch size, _ := t.Float64(); {
	case size > 720:
		return sign * math.Inf(1)
	case size < -760:
		return sign * 0
	}
	// To 200 bits first, so that what is exact is so again.
	r, _ := new(big.Float).SetPrec(200).Set(exactPower(t)).Float64()
	return math.Copysign(r, sign)
}

// exactPower is e^t, by its series of t / 2^64, squared as often.
func exactPower(t *big.Float) *big.Float {
	const halvings = 64
	number := func() *big.Float { return new(big.Float).SetPrec(2 * precision) }
	small := number().SetMantExp(number().Set(t), -halvings)
	sum, term := number().SetInt64(1), number().SetInt64(1)
	for i := int64(1); i < 12; i++ {
		term.Quo(term.Mul(term, small), number().SetInt64(i))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

func madeText(op expr.Op, of formula) (formula, error) {
	if of.kind != pb.Kind_BINARY {
		return formula{}, fmt.Errorf("%v of %v", op, of.kind)
	}
	kind := pb.Kind_INT64
	if op == expr.Lower || op == expr.Upper {
		kind = pb.Kind_BINARY
	}
	return formula{kind: kind, of: func(in []*cell, at place) scalarValue {
		v := of.of(in, at)
		switch {
		case v.null:
			return v
		case op == expr.Length:
			return scalarValue{n: int64(len([]rune(v.t)))}
		case op == expr.OctetLength:
			return scalarValue{n: int64(len(v.t))}
		}
		return scalarValue{t: cased(v.t, op == expr.Upper)}
	}}, nil
}

// cased maps each character, and leaves bytes that are none.
func cased(text string, upper bool) string {
	var b strings.Builder
	for i, r := range text {
		switch _, n := utf8.DecodeRuneInString(text[i:]); {
		case r == utf8.RuneError && n == 1:
			b.WriteByte(text[i])
		case upper:
			b.WriteRune(unicode.ToUpper(r))
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// written is a value as text, floats as Python writes them: digits, and an exponent below -4 and from 16 on.
func written(v scalarValue, k pb.Kind) string {
	switch {
	case k == pb.Kind_BINARY:
		return v.t
	case k == pb.Kind_BOOL:
		return strconv.FormatBool(v.n != 0)
	case isInt(k):
		return strconv.FormatInt(v.n, 10)
	case v.x != v.x || math.IsInf(v.x, 0):
		return strings.TrimPrefix(strings.ToLower(fmt.Sprint(v.x)), "+")
	}
	bits := 64
	if k == pb.Kind_FLOAT32 {
		bits = 32
	}
	scientific := strconv.FormatFloat(v.x, 'e', -1, bits)
	_, exponent, _ := strings.Cut(scientific, "e")
	if e, _ := strconv.Atoi(exponent); e < -4 || e >= 16 {
		return scientific
	}
	plain := strconv.FormatFloat(v.x, 'f', -1, bits)
	if !strings.Contains(plain, ".") {
		plain += ".0"
	}
	return plain
}
