package reference

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// values are those of a page or a dictionary, without nulls, in the slice of their physical type.
type values struct {
	count   int
	bools   []bool
	ints32  []int32
	ints64  []int64
	ints96  []deprecated.Int96
	floats  []float32
	doubles []float64
	bytes   []byte   // of byte arrays
	offsets []uint32 // in bytes, one more than values; nil if all have fixed bytes
	fixed   int
}

// text is byte array i.
func (v *values) text(i int32) []byte {
	if v.offsets == nil {
		return v.bytes[int(i)*v.fixed:][:v.fixed:v.fixed]
	}
	return v.bytes[v.offsets[i]:v.offsets[i+1]:v.offsets[i+1]]
}

// decodeValues decodes n values of a leaf.
func decodeValues(l leaf, code format.Encoding, data []byte, n int) (*values, error) {
	v := &values{count: n, fixed: l.fixed}
	if n < 0 {
		return nil, fmt.Errorf("%d values", n)
	}
	if n == 0 {
		return v, nil
	}
	e := parquet.LookupEncoding(code)
	got, err := v.decode(l.physical, e, data, n)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%d values of %v: %w", n, l.physical, err)
	case got < n:
		return nil, fmt.Errorf("%v has %d of %d values", e, got, n)
	case !slices.IsSorted(v.offsets) || len(v.offsets) > 0 && int(v.offsets[len(v.offsets)-1]) > len(v.bytes):
		return nil, fmt.Errorf("%v has byte arrays of impossible lengths", e)
	}
	return v, nil
}

// decode returns how many values there are.
func (v *values) decode(t format.Type, e encoding.Encoding, data []byte, n int) (got int, err error) {
	switch t {
	case format.Boolean:
		v.bools, err = decodeBools(e.Encoding(), data, n)
		return len(v.bools), err
	case format.Int32:
		v.ints32, err = decodeInts32(e, data)
		return len(v.ints32), err
	case format.Int64:
		v.ints64, err = e.DecodeInt64(nil, data)
		return len(v.ints64), err
	case format.Int96:
		v.ints96, err = e.DecodeInt96(nil, data)
		return len(v.ints96), err
	case format.Float:
		v.floats, err = e.DecodeFloat(nil, data)
		return len(v.floats), err
	case format.Double:
		v.doubles, err = e.DecodeDouble(nil, data)
		return len(v.doubles), err
	case format.ByteArray:
		v.bytes, v.offsets, err = e.DecodeByteArray(make([]byte, 0, len(data)), data,
			make([]uint32, 0, min(n, len(data))+1))
		return len(v.offsets) - 1, err
	case format.FixedLenByteArray:
		v.bytes, err = e.DecodeFixedLenByteArray(nil, data, v.fixed)
		return len(v.bytes) / v.fixed, err
	}
	return 0, errors.New("unknown type")
}

// decodeInts32 reads deltas as those of 64 bits, and drops the upper half: DuckDB writes uint32 so, whose deltas do not
// fit 32 bits, and to those who count modulo 2^32 it makes no difference.
func decodeInts32(e encoding.Encoding, data []byte) ([]int32, error) {
	if e.Encoding() != format.DeltaBinaryPacked {
		return e.DecodeInt32(nil, data)
	}
	wide, err := e.DecodeInt64(nil, data)
	out := make([]int32, len(wide))
	for i, x := range wide {
		out[i] = int32(x)
	}
	return out, err
}

// decodeBools reads bits, or runs of them after their length in bytes. parquet-go takes a run of n bits for whole
// bytes, each like the run's value.
func decodeBools(e format.Encoding, data []byte, n int) ([]bool, error) {
	switch {
	case e == format.Plain:
		return appendBits(nil, data, n), nil
	case e != format.RLE:
		return nil, fmt.Errorf("encoded as %v", e)
	case len(data) < 4 || uint64(binary.LittleEndian.Uint32(data)) > uint64(len(data)-4):
		return nil, errors.New("runs end before their length")
	}
	data = data[4:][:binary.LittleEndian.Uint32(data)]
	var out []bool
	for len(out) < n {
		header, size := binary.Uvarint(data)
		if size <= 0 || len(data) == size {
			return nil, fmt.Errorf("runs end after %d of %d values", len(out), n)
		}
		data = data[size:]
		if header&1 == 0 {
			for range min(header>>1, uint64(n-len(out))) {
				out = append(out, data[0]&1 != 0)
			}
			data = data[1:]
			continue
		}
		packed := data[:min(header>>1, uint64(len(data)))]
		out = appendBits(out, packed, n-len(out))
		data = data[len(packed):]
	}
	return out, nil
}

// appendBits adds up to n bits, the lowest of each byte first.
func appendBits(out []bool, data []byte, n int) []bool {
	for i := range min(n, 8*len(data)) {
		out = append(out, data[i/8]>>(i%8)&1 != 0)
	}
	return out
}
