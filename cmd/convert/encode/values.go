package encode

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
)

// Physical types, numbered as in parquet.thrift.
const (
	boolean           = 0
	int32s            = 1
	int64s            = 2
	float             = 4
	double            = 5
	byteArray         = 6
	fixedLenByteArray = 7
)

// kind is how a leaf's values are written. They are collected in PLAIN encoding, but booleans as a byte each.
type kind struct {
	physical int
	width    int // bytes of a value; 0: each has its length in front
	order    order
	text     bool // UTF-8
	write    func(out []byte, a arrow.Array, s *slots, width int) ([]byte, error)
}

func kindOf(t arrow.DataType) (kind, bool) {
	switch t.ID() {
	case arrow.NULL:
		return kind{physical: int32s, width: 4, order: unordered, write: noValues}, true
	case arrow.BOOL:
		return kind{physical: boolean, width: 1, order: byBytes, write: booleans}, true
	case arrow.INT8, arrow.UINT8, arrow.INT16, arrow.UINT16:
		return kind{physical: int32s, width: 4, order: byInt32, write: widened}, true
	case arrow.INT32, arrow.DATE32:
		return kind{physical: int32s, width: 4, order: byInt32, write: asTheyLie}, true
	case arrow.UINT32:
		return kind{physical: int32s, width: 4, order: byUint32, write: asTheyLie}, true
	case arrow.TIMESTAMP:
		seconds := t.(*arrow.TimestampType).Unit == arrow.Second // Parquet has none
		return kind{physical: int64s, width: 8, order: byInt64, write: asTheyLie}, !seconds
	case arrow.TIME32:
		seconds := t.(*arrow.Time32Type).Unit == arrow.Second
		return kind{physical: int32s, width: 4, order: byInt32, write: asTheyLie}, !seconds
	case arrow.INT64, arrow.TIME64:
		return kind{physical: int64s, width: 8, order: byInt64, write: asTheyLie}, true
	case arrow.UINT64:
		return kind{physical: int64s, width: 8, order: byUint64, write: asTheyLie}, true
	case arrow.FLOAT32:
		return kind{physical: float, width: 4, order: byFloat, write: asTheyLie}, true
	case arrow.FLOAT64:
		return kind{physical: double, width: 8, order: byDouble, write: asTheyLie}, true
	case arrow.FLOAT16:
		return kind{physical: fixedLenByteArray, width: 2, order: byFloat16, write: asTheyLie}, true
	case arrow.STRING, arrow.LARGE_STRING:
		return kind{physical: byteArray, order: byBytes, text: true, write: byteArrays}, true
	case arrow.BINARY, arrow.LARGE_BINARY:
		return kind{physical: byteArray, order: byBytes, write: byteArrays}, true
	case arrow.FIXED_SIZE_BINARY:
		width := t.(*arrow.FixedSizeBinaryType).ByteWidth
		return kind{physical: fixedLenByteArray, width: width, order: byBytes, write: asTheyLie}, width > 0
	case arrow.DECIMAL128, arrow.DECIMAL256:
		width := int(pqarrow.DecimalSize(t.(arrow.DecimalType).GetPrecision()))
		return kind{physical: fixedLenByteArray, width: width, order: byDecimal, write: decimals}, true
	}
	return kind{}, false
}

func noValues(out []byte, _ arrow.Array, _ *slots, _ int) ([]byte, error) { return out, nil }

// fixed are the bytes of values that have so many each.
func fixed(a arrow.Array, width int) []byte {
	return a.Data().Buffers()[1].Bytes()[a.Data().Offset()*width:]
}

// asTheyLie copies values that lie in memory as in PLAIN encoding.
func asTheyLie(out []byte, a arrow.Array, s *slots, width int) ([]byte, error) {
	values := fixed(a, width)
	if s.dense {
		return append(out, values[s.from*width:(s.from+len(s.def))*width]...), nil
	}
	to := len(out)
	out = grown(out, len(s.at)*width)
	switch width {
	case 4:
		for i, at := range s.at {
			copy(out[to+4*i:to+4*i+4], values[4*int(at):4*int(at)+4])
		}
	case 8:
		for i, at := range s.at {
			copy(out[to+8*i:to+8*i+8], values[8*int(at):8*int(at)+8])
		}
	default:
		for i, at := range s.at {
			copy(out[to+width*i:], values[width*int(at):][:width])
		}
	}
	return out, nil
}

func widened(out []byte, a arrow.Array, s *slots, _ int) ([]byte, error) {
	for i := range s.count() {
		var v int32
		switch at := s.position(i); a := a.(type) {
		case *array.Int8:
			v = int32(a.Value(at))
		case *array.Uint8:
			v = int32(a.Value(at))
		case *array.Int16:
			v = int32(a.Value(at))
		case *array.Uint16:
			v = int32(a.Value(at))
		}
		out = binary.LittleEndian.AppendUint32(out, uint32(v))
	}
	return out, nil
}

func booleans(out []byte, a arrow.Array, s *slots, _ int) ([]byte, error) {
	values := a.(*array.Boolean)
	for i := range s.count() {
		var v byte
		if values.Value(s.position(i)) {
			v = 1
		}
		out = append(out, v)
	}
	return out, nil
}

func byteArrays(out []byte, a arrow.Array, s *slots, _ int) ([]byte, error) {
	place := places(a)
	var data []byte
	if b := a.Data().Buffers()[2]; b != nil {
		data = b.Bytes()
	}
	for i := range s.count() {
		from, to := place(s.position(i))
		out = binary.LittleEndian.AppendUint32(out, uint32(to-from))
		out = append(out, data[from:to]...)
	}
	return out, nil
}

// places tells where the values of texts and bytes lie.
func places(a arrow.Array) func(i int) (from, to int64) {
	switch a := a.(type) {
	case *array.String:
		return offsets(a.ValueOffsets())
	case *array.LargeString:
		return offsets(a.ValueOffsets())
	case *array.LargeBinary:
		return offsets(a.ValueOffsets())
	}
	return offsets(a.(*array.Binary).ValueOffsets())
}

func offsets[T int32 | int64](all []T) func(i int) (from, to int64) {
	return func(i int) (from, to int64) { return int64(all[i]), int64(all[i+1]) }
}

// decimals writes the last bytes of numbers that Arrow has the other way round, and longer.
func decimals(out []byte, a arrow.Array, s *slots, width int) ([]byte, error) {
	wide := a.DataType().(arrow.FixedWidthDataType).BitWidth() / 8
	values := fixed(a, wide)
	for i := range s.count() {
		v := values[s.position(i)*wide:][:wide]
		var sign byte
		if v[width-1]&0x80 != 0 {
			sign = 0xff
		}
		for k := wide - 1; k >= width; k-- {
			if v[k] != sign {
				return nil, fmt.Errorf("a decimal has more digits than %v: cast the column to more", a.DataType())
			}
		}
		for k := width - 1; k >= 0; k-- {
			out = append(out, v[k])
		}
	}
	return out, nil
}

// plain is values in PLAIN encoding.
func (k *kind) plain(out, values []byte) []byte {
	if k.physical != boolean {
		return append(out, values...)
	}
	return appendPacked(out, values, 1)
}

// each calls take with the values.
func (k *kind) each(values []byte, take func(v []byte) bool) {
	for at, width := 0, k.width; at < len(values); at += width {
		if k.width == 0 {
			width = int(binary.LittleEndian.Uint32(values[at:]))
			at += 4
		}
		if !take(values[at : at+width]) {
			return
		}
	}
}

// grown is b with n more bytes, whatever they hold.
func grown(b []byte, n int) []byte {
	if cap(b)-len(b) < n {
		b = append(make([]byte, 0, 2*cap(b)+n), b...)
	}
	return b[:len(b)+n]
}
