package delta

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/times"
)

// bitsOf are those of whole numbers of a type; 0: it has others.
func bitsOf(typ string) int {
	switch typ {
	case "byte":
		return 8
	case "short":
		return 16
	case "integer":
		return 32
	case "long":
		return 64
	}
	return 0
}

// valueOf reads the value that a file has of a partition column, as its type: dates are days, times microseconds, and
// decimals floats, as columns of files have them. Nil is null.
func valueOf(text, typ string) (*pb.Value, error) {
	if text == "" {
		return nil, nil
	}
	switch typ {
	case "string", "binary":
		if !utf8.ValidString(text) {
			return nil, errors.New("it is not UTF-8")
		}
		return &pb.Value{Kind: &pb.Value_Text{Text: text}}, nil
	case "boolean":
		b, err := strconv.ParseBool(strings.ToLower(text))
		return &pb.Value{Kind: &pb.Value_Bool{Bool: b}}, err
	case "float", "double":
		f, err := floatOf(text, typ)
		return &pb.Value{Kind: &pb.Value_Float{Float: f}}, err
	case "date", "timestamp", "timestamp_ntz":
		i, err := timeOf(text, typ)
		return &pb.Value{Kind: &pb.Value_Int{Int: i}}, err
	}
	if bits := bitsOf(typ); bits > 0 {
		i, err := strconv.ParseInt(text, 10, bits)
		return &pb.Value{Kind: &pb.Value_Int{Int: i}}, err
	}
	if _, scale, ok := decimalType(typ); ok {
		f, err := decimalOf(text, scale)
		return &pb.Value{Kind: &pb.Value_Float{Float: f}}, err
	}
	return nil, fmt.Errorf("no file is partitioned by values of the type %s", typ)
}

// floatOf reads a float of a type's precision.
func floatOf(text, typ string) (float64, error) {
	bits := 64
	if typ == "float" {
		bits = 32
	}
	return strconv.ParseFloat(text, bits)
}

// timeOf counts days or microseconds.
func timeOf(text, typ string) (int64, error) {
	at, err := times.Parse(text)
	if err != nil {
		return 0, err
	}
	if typ == "date" {
		return times.Days.Of(at)
	}
	return times.Unit("us").Of(at)
}

var isZoned = regexp.MustCompile(`(?:Z|[+-]\d\d(?::?\d\d)?)$`)

// zoned reports whether a time says in which zone it is.
func zoned(text string) bool {
	return len(text) > len("2006-01-02") && isZoned.MatchString(text[len("2006-01-02"):])
}

var isPlain = regexp.MustCompile(`^([+-]?)(\d{1,38})(?:\.(\d{1,38}))?$`)

// decimalOf is a decimal as a float: rounded twice, as those of files are.
func decimalOf(text string, scale int) (float64, error) {
	m := isPlain.FindStringSubmatch(text)
	if m == nil {
		return 0, errors.New("it is no decimal number")
	}
	fraction := strings.TrimRight(m[3], "0")
	if len(fraction) > scale {
		return 0, fmt.Errorf("it has more than %d digits behind the point", scale)
	}
	unscaled, _ := new(big.Int).SetString(m[2]+fraction+strings.Repeat("0", scale-len(fraction)), 10)
	x, _ := new(big.Float).SetInt(unscaled).Float64()
	if x /= math.Pow10(scale); m[1] == "-" {
		x = -x
	}
	return x, nil
}
