package fit

import (
	"fmt"
	"math"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/client"
)

// AddBatch feeds a batch of a session whose features bring the columns by their names, and releases it once it is read.
// The layouts that bring all values of a kind as they are:
//
//	bool                             dense; a null is a null
//	int32, int64, float32            sparse, a list of one; a null is an empty list
//	float64, text                    label, bytes; with Present, nulls are known, else they are NaN, and empty texts
//	lists of int32, int64, float32   sparse; null elements are left out, and so not counted
//	lists of bool, float64           padded, if no list is longer
//	lists of text                    bytes, as the op pack_texts makes of them; null elements are left out, too
func (f *Fit) AddBatch(b *client.Batch) error {
	columns := make([][]Values, len(f.columns))
	for i, c := range f.columns {
		v, err := c.of(b)
		if err != nil {
			b.Release()
			return err
		}
		columns[i] = []Values{v}
	}
	return f.Add(columns, b.Release)
}

// of finds the column's values in a batch.
func (c *column) of(b *client.Batch) (Values, error) {
	v, err := c.find(b)
	if err != nil || c.Present == "" {
		return v, err
	}
	at := slices.IndexFunc(b.Labels, func(l client.Label) bool { return l.Name == c.Present })
	if at < 0 || b.Labels[at].Bool == nil {
		return v, fmt.Errorf("column %s: %s, which says where it is present, is no label of bools; ask for one",
			c.Name, c.Present)
	}
	if _, n := v.carries(); n != b.Valid {
		return v, fmt.Errorf("column %s: %d values came in %d rows: %s cannot say which are present", c.Name, n,
			b.Valid, c.Present)
	}
	v.Valid = bitmap(b.Labels[at].Bool[:b.Valid], func(p bool) bool { return p })
	return v, nil
}

func bitmap[T any](values []T, ok func(T) bool) []byte {
	bits := make([]byte, (len(values)+7)/8)
	for i, v := range values {
		if ok(v) {
			bits[i>>3] |= 1 << (i & 7)
		}
	}
	return bits
}

func (c *column) find(b *client.Batch) (Values, error) {
	n := b.Valid
	if j := slices.Index(b.DenseNames, c.Name); j >= 0 {
		return c.ofDense(b, j)
	}
	for _, l := range b.Labels {
		if l.Name == c.Name {
			return Values{
				Bools: cut(l.Bool, n), Int32s: cut(l.I32, n), Int64s: cut(l.I64, n), Float32s: cut(l.F32, n),
				Float64s: cut(l.F64, n),
			}, nil
		}
	}
	for _, s := range b.Sparse {
		if s.Name == c.Name {
			count := int(s.Offsets[n])
			v := Values{Int64s: cut(s.Values, count), Float32s: cut(s.Floats, count)}
			if !c.List {
				v.Nulls = n - count
			}
			return v, nil
		}
	}
	for _, t := range b.Bytes {
		if t.Name == c.Name {
			return Values{Data: t.Data, Offsets: t.Offsets[:n+1], Packed: c.List}, nil
		}
	}
	for _, t := range b.Tensors {
		if t.Name == c.Name {
			size := 1
			for _, d := range t.Shape {
				size *= d
			}
			return c.ofBytes(t.Dtype, t.Data, n*size)
		}
	}
	for _, p := range b.Padded {
		if p.Name == c.Name {
			return c.ofPadded(p, n)
		}
	}
	return Values{}, fmt.Errorf("column %s: no tensor of the batch has its name; ask for it among the features", c.Name)
}

// cut is the first n of values that are there; nil: they are not, and stay so.
func cut[T any](values []T, n int) []T {
	if values == nil {
		return nil
	}
	return values[:n]
}

// ofDense takes a column of the matrix.
func (c *column) ofDense(b *client.Batch, j int) (Values, error) {
	if c.Kind != pb.Kind_FLOAT32 && c.Kind != pb.Kind_BOOL {
		return Values{}, fmt.Errorf("column %s: dense rounds values of kind %s; ask for it as a label, or as sparse",
			c.Name, spec.KindName(c.Kind))
	}
	floats := make([]float32, b.Valid)
	for i := range floats {
		floats[i] = b.Dense[i*len(b.DenseNames)+j]
	}
	if c.Kind == pb.Kind_FLOAT32 {
		return Values{Float32s: floats}, nil
	}
	bools := make([]bool, len(floats))
	for i, x := range floats {
		bools[i] = x == 1
	}
	valid := bitmap(floats, func(x float32) bool { return !math.IsNaN(float64(x)) })
	return Values{Bools: bools, Valid: valid}, nil
}

// ofBytes shows n values of a type.
func (c *column) ofBytes(dtype string, data []byte, n int) (Values, error) {
	switch dtype {
	case "bool":
		bools := make([]bool, n)
		for i := range bools {
			bools[i] = data[i] != 0
		}
		return Values{Bools: bools}, nil
	case "int32":
		return Values{Int32s: client.Values[int32](data)[:n]}, nil
	case "int64":
		return Values{Int64s: client.Values[int64](data)[:n]}, nil
	case "float32":
		return Values{Float32s: client.Values[float32](data)[:n]}, nil
	case "float64":
		return Values{Float64s: client.Values[float64](data)[:n]}, nil
	}
	return Values{}, fmt.Errorf("column %s: its tensor has the type %s; cast it to a kind that is counted", c.Name,
		dtype)
}

// ofPadded takes the values of rows without what they are filled with.
func (c *column) ofPadded(p client.Padded, n int) (Values, error) {
	if len(p.Data) == 0 {
		return Values{}, nil
	}
	width := len(p.Data) / (len(p.Lengths) * p.Length)
	var data []byte
	count := 0
	for i, length := range p.Lengths[:n] {
		from, size := i*p.Length, int(length)
		if p.Left {
			from += p.Length - size
		}
		data = append(data, p.Data[from*width:(from+size)*width]...)
		count += size
	}
	if count == 0 {
		return Values{}, nil
	}
	return c.ofBytes(p.Dtype, data, count)
}
