package reference

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// castTo converts to another kind. What has no counterpart becomes null.
func castTo(p parameters, in []spec.Type) (operation, error) {
	from := in[0].Kind
	to, ok := map[string]pb.Kind{
		"bool": pb.Kind_BOOL, "int32": pb.Kind_INT32, "int64": pb.Kind_INT64,
		"float32": pb.Kind_FLOAT32, "float64": pb.Kind_FLOAT64,
	}[p["to"].GetText()]
	if !ok {
		return operation{}, fmt.Errorf("to is %v", p["to"])
	}
	list := in[0].List
	return operation{out: spec.Type{Kind: to, List: list}, run: func(in []*cell, out *cell) error {
		out.null = in[0].null
		for j := range in[0].count(from) {
			present := !in[0].isGone(j) && out.cast(in[0], j, from, to)
			switch {
			case list:
				if out.gone = append(out.gone, !present); !present {
					out.appendZero(to)
				}
			case !present:
				out.clear()
			}
		}
		return nil
	}}, nil
}

// cast appends value j of a cell, converted, and reports whether it can be.
func (c *cell) cast(in *cell, j int, from, to pb.Kind) bool {
	switch holdingOf(from) {
	case storedInts:
		return c.castInt(in.ints[j], to)
	case storedFloats:
		return c.castFloat(in.floats[j], to)
	}
	text := string(in.texts[j])
	switch to {
	case pb.Kind_BOOL:
		return c.castBool(text)
	case pb.Kind_INT32, pb.Kind_INT64:
		n, ok := parseInt(text)
		return ok && c.castInt(n, to)
	}
	return c.castDecimal(text, to)
}

func (c *cell) castInt(x int64, to pb.Kind) bool {
	switch to {
	case pb.Kind_BOOL:
		c.ints = append(c.ints, boolInt(x != 0))
	case pb.Kind_INT32:
		c.ints = append(c.ints, min(max(x, math.MinInt32), math.MaxInt32))
	case pb.Kind_INT64:
		c.ints = append(c.ints, x)
	case pb.Kind_FLOAT32:
		c.floats = append(c.floats, float64(float32(x)))
	default:
		c.floats = append(c.floats, float64(x))
	}
	return true
}

func (c *cell) castFloat(x float64, to pb.Kind) bool {
	switch {
	case to == pb.Kind_FLOAT32:
		c.floats = append(c.floats, float64(float32(x)))
	case to == pb.Kind_FLOAT64:
		c.floats = append(c.floats, x)
	case x != x:
		return false
	case to == pb.Kind_BOOL:
		c.ints = append(c.ints, boolInt(x != 0))
	case to == pb.Kind_INT32:
		c.ints = append(c.ints, int64(min(max(x, math.MinInt32), math.MaxInt32)))
	case x >= 1<<63:
		c.ints = append(c.ints, math.MaxInt64)
	case x < -1<<63:
		c.ints = append(c.ints, math.MinInt64)
	default:
		c.ints = append(c.ints, int64(x))
	}
	return true
}

func (c *cell) castBool(text string) bool {
	switch strings.ToLower(text) {
	case "true", "1":
		c.ints = append(c.ints, 1)
	case "false", "0":
		c.ints = append(c.ints, 0)
	default:
		return false
	}
	return true
}

// parseInt reads decimal digits with an optional sign; beyond 64 bits it is the nearest int64.
func parseInt(text string) (int64, bool) {
	n, ok := new(big.Int).SetString(text, 10)
	switch {
	case !ok || strings.Contains(text, "_"):
		return 0, false
	case n.IsInt64():
		return n.Int64(), true
	case n.Sign() < 0:
		return math.MinInt64, true
	}
	return math.MaxInt64, true
}

// decimalNumber is what castDecimal reads.
var decimalNumber = regexp.MustCompile(
	`^(?i:nan|[+-]?inf|[+-]?infinity|[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?)$`)

func (c *cell) castDecimal(text string, to pb.Kind) bool {
	bits := 64
	if to == pb.Kind_FLOAT32 {
		bits = 32
	}
	if !decimalNumber.MatchString(text) {
		return false
	}
	x, _ := strconv.ParseFloat(text, bits) // out of range is infinite, as it should be
	c.floats = append(c.floats, x)
	return true
}
