package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// parts of a column that have a hash each, so that a difference has a name. decode.py makes the same ones.
var partNames = [...]string{"nulls", "lengths of lists", "nulls in lists", "values", "bytes"} //nolint:gochecknoglobals // a constant

const (
	partRows    = iota // a byte for each row: 1 if it is not null
	partLengths        // four bytes for each row: its number of elements
	partElems          // a byte for each element: 1 if it is not null
	partValues         // little endian, zero where null; of strings, their lengths in four bytes
	partBytes          // of strings
	numParts
)

// digest takes in a column's rows.
type digest struct {
	parts  [numParts]hash.Hash
	buffer []byte
}

func newDigest() *digest {
	d := &digest{}
	for i := range d.parts {
		d.parts[i] = sha256.New()
	}
	return d
}

func (d *digest) sums() []string {
	out := make([]string, numParts)
	for i, p := range d.parts {
		out[i] = hex.EncodeToString(p.Sum(nil)[:12])
	}
	return out
}

// flush hashes what put wrote to the buffer.
func (d *digest) flush(part int) {
	d.parts[part].Write(d.buffer)
	d.buffer = d.buffer[:0]
}

func (d *digest) bits(part, n int, valid func(i int) bool) {
	for i := range n {
		b := byte(0)
		if valid(i) {
			b = 1
		}
		d.buffer = append(d.buffer, b)
	}
	d.flush(part)
}

func (d *digest) put32(v uint32) { d.buffer = binary.LittleEndian.AppendUint32(d.buffer, v) }

func (d *digest) put64(v uint64) { d.buffer = binary.LittleEndian.AppendUint64(d.buffer, v) }

// vector takes in a vector.
func (d *digest) vector(v *vector.Vector) error {
	d.bits(partRows, v.Rows, func(i int) bool { return !v.IsNull(i) })
	if v.Type.List {
		for i := range v.Rows {
			d.put32(uint32(v.Offsets[i+1] - v.Offsets[i]))
		}
		d.flush(partLengths)
		d.bits(partElems, v.Len(), func(i int) bool { return !v.ElemIsNull(i) })
	}
	for i := range v.Len() {
		valid := !v.ElemIsNull(i)
		switch v.Type.Kind {
		case pb.Kind_BOOL:
			d.buffer = append(d.buffer, zeroIf(!valid || !v.Bool[i], byte(1)))
		case pb.Kind_INT32:
			d.put32(zeroIf(!valid, uint32(v.I32[i])))
		case pb.Kind_INT64:
			d.put64(zeroIf(!valid, uint64(v.I64[i])))
		case pb.Kind_FLOAT32:
			d.put32(zeroIf(!valid, math.Float32bits(v.F32[i])))
		case pb.Kind_FLOAT64:
			d.put64(zeroIf(!valid, math.Float64bits(v.F64[i])))
		case pb.Kind_BINARY:
			d.text(valid, v.Data[v.Ends[i]:v.Ends[i+1]])
		default:
			return fmt.Errorf("values of kind %s", v.Type.Kind)
		}
	}
	d.flush(partValues)
	return nil
}

func zeroIf[T byte | uint32 | uint64](zero bool, v T) T {
	if zero {
		return 0
	}
	return v
}

func (d *digest) text(valid bool, value []byte) {
	if !valid {
		value = nil
	}
	d.put32(uint32(len(value)))
	d.parts[partBytes].Write(value)
}

// array takes in a column of arrow's; of a map, the field-th of its entries' two.
func (d *digest) array(a arrow.Array, field int) error {
	d.bits(partRows, a.Len(), a.IsValid)
	list, ok := a.(array.ListLike)
	if !ok {
		return d.values(a, 0, a.Len())
	}
	from, to := int64(0), int64(0)
	for i := range a.Len() {
		first, end := list.ValueOffsets(i)
		if i == 0 {
			from = first
		}
		to = end
		if a.IsNull(i) {
			end = first // pqarrow leaves no elements there
		}
		d.put32(uint32(end - first))
	}
	d.flush(partLengths)
	elems := list.ListValues()
	if entries, ok := elems.(*array.Struct); ok {
		elems = entries.Field(field)
	}
	d.bits(partElems, int(to-from), func(i int) bool { return elems.IsValid(int(from) + i) })
	return d.values(elems, int(from), int(to))
}

func (d *digest) values(a arrow.Array, from, to int) error {
	for i := from; i < to; i++ {
		valid := a.IsValid(i)
		switch a := a.(type) {
		case *array.Boolean:
			d.buffer = append(d.buffer, zeroIf(!valid || !a.Value(i), byte(1)))
		case *array.Int32:
			d.put32(zeroIf(!valid, uint32(a.Value(i))))
		case *array.Int64:
			d.put64(zeroIf(!valid, uint64(a.Value(i))))
		case *array.Float32:
			d.put32(zeroIf(!valid, math.Float32bits(a.Value(i))))
		case *array.Float64:
			d.put64(zeroIf(!valid, math.Float64bits(a.Value(i))))
		case *array.String:
			d.text(valid, []byte(a.Value(i)))
		case *array.Binary:
			d.text(valid, a.Value(i))
		default:
			return fmt.Errorf("values of type %s", a.DataType())
		}
	}
	d.flush(partValues)
	return nil
}

// difference names the first part in which two readers' columns differ; "" is none.
func difference(a, b map[string][]string) string {
	if len(a) != len(b) {
		return fmt.Sprintf("%d columns against %d", len(a), len(b))
	}
	for name, sums := range a {
		for i, s := range sums {
			if len(b[name]) != numParts || b[name][i] != s {
				return fmt.Sprintf("column %s differs in its %s", name, partNames[i])
			}
		}
	}
	return ""
}
