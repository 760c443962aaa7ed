package parquet

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

const (
	maxPrecision = 38      // of decimals: they have that in 16 bytes
	maxDecimal   = 16      // bytes of one in a FixedLenByteArray
	maxFixed     = 1 << 26 // bytes of a FixedLenByteArray
)

func (n *node) isUntyped() bool { return n.isLeaf() && n.logical == logicalUnknown }

// kind returns the kind as which a leaf's values are read and how, or why they cannot be.
func (n *node) kind() (k pb.Kind, l Logical, unsupported string) {
	if n.physical == FixedLenByteArray && (n.typeLength <= 0 || n.typeLength > maxFixed) {
		return 0, l, fmt.Sprintf("a fixed-length byte array of length %d", n.typeLength)
	}
	if n.isUntyped() {
		return 0, l, format.Untyped
	}
	if n.isDecimal() {
		return n.decimal()
	}
	switch n.physical {
	case Boolean:
		return pb.Kind_BOOL, l, ""
	case Int32:
		if l.Unsigned = n.isUnsigned(convertedUint32, 32); l.Unsigned {
			return pb.Kind_INT64, l, ""
		}
		l.Small = n.own()
		return pb.Kind_INT32, l, ""
	case Int64:
		l.Unsigned = n.isUnsigned(convertedUint64, 64)
		return pb.Kind_INT64, l, ""
	case Int96:
		return pb.Kind_INT64, l, ""
	case Float:
		return pb.Kind_FLOAT32, l, ""
	case Double:
		return pb.Kind_FLOAT64, l, ""
	case FixedLenByteArray:
		if n.logical == logicalFloat16 && n.typeLength == 2 {
			l.Float16 = true
			return pb.Kind_FLOAT32, l, ""
		}
	}
	return pb.Kind_BINARY, l, ""
}

// own is the kind that a leaf's values have where no op computes with it; see spec.Column.
func (n *node) own() pb.Kind {
	switch {
	case n.physical == FixedLenByteArray && n.logical == logicalFloat16 && n.typeLength == 2:
		return pb.Kind_FLOAT16
	case n.physical != Int32:
		return pb.Kind_KIND_UNSPECIFIED
	case n.logical == logicalInteger && n.signed:
		return map[int8]pb.Kind{8: pb.Kind_INT8, 16: pb.Kind_INT16}[n.bits]
	case n.logical == logicalInteger:
		return map[int8]pb.Kind{8: pb.Kind_UINT8, 16: pb.Kind_UINT16, 32: pb.Kind_UINT32}[n.bits]
	case n.logical != 0:
		return pb.Kind_KIND_UNSPECIFIED
	}
	return map[converted]pb.Kind{
		convertedInt8: pb.Kind_INT8, convertedInt16: pb.Kind_INT16,
		convertedUint8: pb.Kind_UINT8, convertedUint16: pb.Kind_UINT16, convertedUint32: pb.Kind_UINT32,
	}[n.converted]
}

// isText reports whether a leaf's byte strings are text; see spec.Column.
func (n *node) isText() bool {
	switch {
	case n.physical != ByteArray:
		return false
	case n.logical != 0:
		return n.logical == logicalString || n.logical == logicalEnum || n.logical == logicalJSON
	}
	return n.converted == convertedUTF8 || n.converted == convertedEnum || n.converted == convertedJSON
}

// isDate reports whether a leaf's integers are days since 1970; see spec.Column.
func (n *node) isDate() bool {
	return n.physical == Int32 && (n.logical == logicalDate || n.logical == 0 && n.converted == convertedDate)
}

// meaning is what a leaf's integers stand for; see spec.Column.
func (n *node) meaning() string {
	units := [...]string{"?", "ms", "us", "ns"}
	unit := units[0]
	if int(n.unit) < len(units) && n.unit > 0 {
		unit = units[n.unit]
	}
	switch {
	case n.physical == Int96:
		return "timestamp[ns]"
	case n.physical == Int64 && n.isUnsigned(convertedUint64, 64):
		return format.Unsigned
	case n.physical != Int32 && n.physical != Int64:
		return ""
	case n.logical == logicalTime:
		return "time[" + unit + "]"
	case n.logical == logicalTimestamp:
		return "timestamp[" + unit + "]"
	case n.logical != 0:
		return ""
	}
	return map[converted]string{
		convertedTimeMs: "time[ms]", convertedTimeUs: "time[us]",
		convertedTimestampMs: "timestamp[ms]", convertedTimestampUs: "timestamp[us]",
	}[n.converted]
}

func (n *node) isUnsigned(c converted, bits int8) bool {
	if n.logical == logicalInteger {
		return !n.signed && n.bits == bits
	}
	return n.logical == 0 && n.converted == c
}

func (n *node) isDecimal() bool {
	if n.physical != Int32 && n.physical != Int64 && n.physical != ByteArray && n.physical != FixedLenByteArray {
		return false
	}
	return n.logical == logicalDecimal || n.logical == 0 && n.converted == convertedDecimal
}

func (n *node) decimal() (k pb.Kind, l Logical, unsupported string) {
	switch {
	case n.physical == FixedLenByteArray && n.typeLength > maxDecimal:
		return 0, l, fmt.Sprintf("a decimal of %d digits in %d bytes; at most %d in %d can be read",
			n.precision, n.typeLength, maxPrecision, maxDecimal)
	case n.precision <= 0 || n.precision > maxPrecision:
		return 0, l, fmt.Sprintf("a decimal of %d digits; at most %d can be read", n.precision, maxPrecision)
	case n.scale < 0 || n.scale > n.precision:
		return 0, l, fmt.Sprintf("a decimal of %d digits with scale %d", n.precision, n.scale)
	}
	l.Decimal, l.Scale = true, int(n.scale)
	return pb.Kind_FLOAT64, l, ""
}

// shape names what a node is, for reasons such as "list of maps".
func (n *node) shape() string {
	switch {
	case n.isList() || n.isLeaf() && n.repetition == repeated:
		return "lists"
	case n.isMap():
		return "maps"
	case n.isLeaf():
		return "scalars"
	case n.isVariant():
		return "variants"
	}
	return "structs"
}
