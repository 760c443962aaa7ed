package iceberg

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
)

// isWhole reports whether a type's values are whole numbers where they are read: days, or microseconds, among them.
func (p primitive) isWhole() bool {
	switch p {
	case "int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns":
		return true
	}
	return false
}

// bound reads a bound of a column's values, as the specification serialises single ones. Bounds of files from before
// the column had this type have fewer bytes.
func bound(data []byte, typ primitive, upper bool) (v expr.Value, ok bool) {
	whole := typ.isWhole()
	switch {
	case whole && len(data) == 4 && (typ == "int" || typ == "long" || typ == "date"):
		return expr.Int(int64(int32(binary.LittleEndian.Uint32(data)))), true
	case whole && len(data) == 8 && typ != "int" && typ != "date":
		return expr.Int(int64(binary.LittleEndian.Uint64(data))), true
	case typ == "boolean" && len(data) == 1:
		return expr.Bool(data[0] != 0), true
	case typ == "string":
		return expr.Text(string(data)), utf8.Valid(data)
	case typ == "float" && len(data) == 4:
		f := math.Float32frombits(binary.LittleEndian.Uint32(data))
		return expr.Float32(f), f == f
	case typ == "double" && len(data) == 4:
		f := math.Float32frombits(binary.LittleEndian.Uint32(data))
		return expr.Float64(float64(f)), f == f
	case typ == "double" && len(data) == 8:
		f := math.Float64frombits(binary.LittleEndian.Uint64(data))
		return expr.Float64(f), f == f
	}
	if _, scale, isDecimal := typ.decimal(); isDecimal && len(data) > 0 && len(data) <= maxDecimalBytes {
		f := decimalOf(unscaled(data), scale)
		slack := math.Abs(f) * 0x1p-48 // however it is rounded elsewhere
		if !upper {
			slack = -slack
		}
		return expr.Float64(f + slack), true
	}
	return v, false
}

// maxDecimalBytes are those of the longest decimals.
const maxDecimalBytes = 16

// unscaled reads a whole number in two's complement, big endian.
func unscaled(data []byte) *big.Int {
	n := new(big.Int).SetBytes(data)
	if data[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(data))))
	}
	return n
}

// decimalOf is a decimal as a float: rounded twice, as those of files are.
func decimalOf(n *big.Int, scale int) float64 {
	x, _ := new(big.Float).SetInt(n).Float64()
	return x / math.Pow10(scale)
}

// constant turns a partition's value, as manifests have it, into that of a column of a type. Nil is null. It reports
// whether that is possible.
func constant(v any, typ primitive) (*pb.Value, bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case int64:
		return &pb.Value{Kind: &pb.Value_Int{Int: v}}, typ.isWhole()
	case bool:
		return &pb.Value{Kind: &pb.Value_Bool{Bool: v}}, typ == "boolean"
	case float64:
		return &pb.Value{Kind: &pb.Value_Float{Float: v}}, typ == "float" || typ == "double"
	case string:
		return &pb.Value{Kind: &pb.Value_Text{Text: v}}, typ == "string" && utf8.ValidString(v)
	case []byte:
		if _, scale, ok := typ.decimal(); ok && len(v) > 0 && len(v) <= maxDecimalBytes {
			return &pb.Value{Kind: &pb.Value_Float{Float: decimalOf(unscaled(v), scale)}}, true
		}
	}
	return nil, false
}

// isConstant reports whether a partition's values of a type can be constants of files.
func (p primitive) isConstant() bool {
	_, _, isDecimal := p.decimal()
	return isDecimal || p.isWhole() || slices.Contains([]primitive{"boolean", "float", "double", "string"}, p)
}

// stats is what a file's metrics tell of a column; false: nothing, or nothing that can be believed.
func (d *dataFile) stats(of *leaf, deletes bool) (filter.Stats, bool) {
	if d.Rows <= 0 {
		return filter.Stats{}, false
	}
	out := filter.Stats{Nulls: -1, Rows: d.Rows}
	if n, ok := find(d.Nulls, of.id); ok && n >= 0 && n <= d.Rows {
		if !deletes || n == 0 || n == d.Rows { // else it may count rows that are deleted
			out.Nulls = n
		}
	}
	low, okLow := find(d.Lower, of.id)
	high, okHigh := find(d.Upper, of.id)
	if okLow && okHigh {
		out.Min, okLow = bound(low, of.typ, false)
		out.Max, okHigh = bound(high, of.typ, true)
		out.HasMinMax = okLow && okHigh
	}
	return out, out.HasMinMax || out.Nulls >= 0
}
