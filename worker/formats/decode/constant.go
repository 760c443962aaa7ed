package decode

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/tensors"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Constant is the Reader of a source of which the file has no values: its default is in all rows, or null.
type Constant struct {
	mem   *Allowance
	held  int64
	value []*pb.Value // one row: its elements
	null  bool
	out   vector.Vector
	full  vector.Vector // as many rows as were asked for so far
}

// NewConstant returns the reader of a value, or of null if there is none, as a type.
func NewConstant(typ *pb.Type, value *pb.Value, mem *Allowance) (*Constant, error) {
	t := spec.TypeFromProto(typ)
	if t.Nested > spec.MaxNested {
		return nil, fmt.Errorf("its type has %d levels of lists within lists; %d may be", t.Nested, spec.MaxNested)
	}
	c := &Constant{mem: mem, null: value == nil, out: vector.Vector{Type: t}, full: vector.Vector{Type: t}}
	for range t.Nested { // of which there are only nulls
		c.out.Nested = append(c.out.Nested, vector.Level{Offsets: []int32{0}})
	}
	switch {
	case c.null && !t.List:
		c.value = []*pb.Value{{}}
	case c.null:
	case t.List != spec.IsList(value), t.Nested > 0:
		return nil, fmt.Errorf("its default is not of its type %s", t)
	case t.List:
		c.value = spec.Elements(value)
	default:
		c.value = []*pb.Value{value}
	}
	return c, c.extend(1)
}

// Forget gives back the memory. Nothing may be read any more.
func (c *Constant) Forget() {
	c.mem.Give(c.held)
	c.held = 0
}

// Read returns as many rows.
func (c *Constant) Read(rows int) (*vector.Vector, error) {
	if rows > c.full.Rows {
		if err := c.extend(rows); err != nil {
			return nil, err
		}
	}
	n := rows
	v, full := &c.out, &c.full
	v.Rows = rows
	if v.Type.List {
		v.Offsets = full.Offsets[:rows+1]
		n = int(v.Offsets[rows])
	}
	if c.null {
		v.Valid = full.Valid[:vector.Words(rows)]
	}
	switch kind := v.Type.Kind; kind {
	case pb.Kind_BOOL:
		v.Bool = full.Bool[:n]
	case pb.Kind_INT32:
		v.I32 = full.I32[:n]
	case pb.Kind_INT64:
		v.I64 = full.I64[:n]
	case pb.Kind_FLOAT32:
		v.F32 = full.F32[:n]
	case pb.Kind_FLOAT64:
		v.F64 = full.F64[:n]
	case pb.Kind_BINARY:
		v.Ends = full.Ends[:n+1]
		v.Data = full.Data[:v.Ends[n]]
	default:
		v.Small = full.Small[:n*spec.Width(kind)]
	}
	return v, nil
}

// extend makes full hold rows.
func (c *Constant) extend(rows int) error {
	v := &c.full
	n := rows * len(c.value)
	c.mem.Give(c.held)
	if c.held = c.bytes(rows); c.held > math.MaxInt32 {
		return fmt.Errorf("a default of %d bytes in %d rows: it is too long", c.held/int64(rows), rows)
	}
	if err := c.mem.Take(c.held); err != nil {
		return err
	}
	v.Rows = rows
	v.Valid = make([]uint64, vector.Words(rows))
	if v.Type.List {
		v.Offsets = make([]int32, rows+1)
		for i := range v.Offsets {
			v.Offsets[i] = int32(i * len(c.value))
		}
	}
	var err error
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		v.Bool, err = repeated(c.value, n, boolOf)
	case pb.Kind_INT32:
		v.I32, err = repeated(c.value, n, int32Of)
	case pb.Kind_INT64:
		v.I64, err = repeated(c.value, n, intOf)
	case pb.Kind_FLOAT32:
		v.F32, err = repeated(c.value, n, func(p *pb.Value) (float32, bool) {
			f, ok := floatOf(p)
			return float32(f),
				ok
		})
	case pb.Kind_FLOAT64:
		v.F64, err = repeated(c.value, n, floatOf)
	case pb.Kind_BINARY:
		err = c.extendBinary(n)
	case pb.Kind_INT8, pb.Kind_INT16, pb.Kind_UINT8, pb.Kind_UINT16, pb.Kind_UINT32, pb.Kind_FLOAT16:
		err = c.extendSmall(n)
	default:
		err = fmt.Errorf("its type has the unknown kind %d", v.Type.Kind)
	}
	return err
}

// bytes is at most what rows take.
func (c *Constant) bytes(rows int) int64 {
	each := int64(4) // an offset
	for _, p := range c.value {
		each += 8 + int64(len(p.GetText()))
	}
	return each * int64(rows)
}

func (c *Constant) extendSmall(n int) error {
	v := &c.full
	kind := v.Type.Kind
	words, err := repeated(c.value, n, func(p *pb.Value) (uint32, bool) { return smallOf(p, kind) })
	if err != nil {
		return err
	}
	v.Small = make([]byte, 0, 4*n)
	for _, w := range words {
		v.Small = binary.LittleEndian.AppendUint32(v.Small, w)[:len(v.Small)+spec.Width(kind)]
	}
	return nil
}

func (c *Constant) extendBinary(n int) error {
	texts, err := repeated(c.value, n, textOf)
	if err != nil {
		return err
	}
	v := &c.full
	v.Data, v.Ends = nil, make([]int32, n+1)
	for i, t := range texts {
		v.Data = append(v.Data, t...)
		v.Ends[i+1] = int32(len(v.Data))
	}
	return nil
}

// repeated makes n values of those of a row.
func repeated[T any](row []*pb.Value, n int, of func(*pb.Value) (T, bool)) ([]T, error) {
	out := make([]T, n)
	for i, p := range row {
		v, ok := of(p)
		if !ok {
			return nil, fmt.Errorf("its default %v is not of its type", p)
		}
		for ; i < n; i += len(row) {
			out[i] = v
		}
	}
	return out, nil
}

// An unset value stands for null; these make it zero.

func boolOf(p *pb.Value) (bool, bool) {
	_, ok := p.GetKind().(*pb.Value_Bool)
	return p.GetBool(), ok || p.GetKind() == nil
}

func intOf(p *pb.Value) (int64, bool) {
	_, ok := p.GetKind().(*pb.Value_Int)
	return p.GetInt(), ok || p.GetKind() == nil
}

func int32Of(p *pb.Value) (int32, bool) {
	v, ok := intOf(p)
	return int32(v), ok && v >= math.MinInt32 && v <= math.MaxInt32
}

// smallOf gives the bits of a value of a kind that no op computes with.
func smallOf(p *pb.Value, kind pb.Kind) (uint32, bool) {
	if p.GetKind() == nil {
		return 0, true
	}
	v, ok := spec.ConvertScalar(p, kind)
	return uint32(tensors.Bits(v, kind)), ok
}

func floatOf(p *pb.Value) (float64, bool) {
	if i, ok := p.GetKind().(*pb.Value_Int); ok {
		return float64(i.Int), true
	}
	_, ok := p.GetKind().(*pb.Value_Float)
	return p.GetFloat(), ok || p.GetKind() == nil
}

func textOf(p *pb.Value) (string, bool) {
	_, ok := p.GetKind().(*pb.Value_Text)
	return p.GetText(), ok || p.GetKind() == nil
}
