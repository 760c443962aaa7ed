package records

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/formats/decode"
)

func (c *Column) wrong(found string) error {
	return fmt.Errorf("%s where %s is wanted", found, spec.KindName(c.Type.Kind))
}

// Bool sets a truth value.
func (c *Column) Bool(x bool) error {
	if c.Type.Kind != pb.Kind_BOOL {
		return c.wrong(strconv.FormatBool(x))
	}
	if err := c.element(false); err != nil {
		return err
	}
	return push(c, &c.out.Bool, x)
}

// Int sets a whole number; a float's column takes the nearest float, and an integer's one that fits.
func (c *Column) Int(x int64) error {
	v := &c.out
	least, most := Span(c.Type.Kind)
	switch kind := c.Type.Kind; {
	case kind == pb.Kind_INT64: // most are
		if err := c.element(false); err != nil {
			return err
		}
		return push(c, &v.I64, x)
	case kind == pb.Kind_FLOAT64:
		return c.Float(float64(x))
	case kind == pb.Kind_FLOAT32:
		if err := c.element(false); err != nil {
			return err
		}
		return push(c, &v.F32, float32(x)) // rounded once
	case most == 0:
		return c.wrong(strconv.FormatInt(x, 10))
	case x < least || x > most:
		return c.wrong(strconv.FormatInt(x, 10) + ", which it does not have,")
	}
	if err := c.element(false); err != nil {
		return err
	}
	if c.Type.Kind == pb.Kind_INT32 {
		return push(c, &v.I32, int32(x))
	}
	for range spec.Width(c.Type.Kind) { // little endian
		if err := push(c, &v.Small, byte(x)); err != nil {
			return err
		}
		x >>= 8
	}
	return nil
}

// Span is what values a kind of integers has; 0, 0: it is none.
func Span(k pb.Kind) (least, most int64) {
	switch k {
	case pb.Kind_INT8:
		return math.MinInt8, math.MaxInt8
	case pb.Kind_INT16:
		return math.MinInt16, math.MaxInt16
	case pb.Kind_INT32:
		return math.MinInt32, math.MaxInt32
	case pb.Kind_INT64:
		return math.MinInt64, math.MaxInt64
	case pb.Kind_UINT8:
		return 0, math.MaxUint8
	case pb.Kind_UINT16:
		return 0, math.MaxUint16
	case pb.Kind_UINT32:
		return 0, math.MaxUint32
	}
	return 0, 0
}

// Float sets a number, which a float32's column rounds. Columns of integers take none.
func (c *Column) Float(x float64) error {
	switch c.Type.Kind {
	case pb.Kind_FLOAT32:
		if err := c.element(false); err != nil {
			return err
		}
		return push(c, &c.out.F32, float32(x))
	case pb.Kind_FLOAT64:
		if err := c.element(false); err != nil {
			return err
		}
		return push(c, &c.out.F64, x)
	}
	return c.wrong(strconv.FormatFloat(x, 'g', -1, 64))
}

// Number sets a number as text has it: "-1.5e3". A column of floats takes the nearest one, and one of integers only
// whole ones that are written as such and fit.
func (c *Column) Number(text []byte) error {
	switch kind := c.Type.Kind; kind {
	case pb.Kind_FLOAT32, pb.Kind_FLOAT64:
		bits := 8 * spec.Width(kind)
		x, err := strconv.ParseFloat(string(text), bits)
		if err != nil {
			return c.wrong(shown(text))
		}
		return c.Float(x)
	}
	x, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return c.wrong(shown(text))
	}
	return c.Int(x)
}

// shown is a text for messages.
func shown(text []byte) string {
	const most = 40
	if len(text) > most {
		return fmt.Sprintf("%q...", text[:most])
	}
	return fmt.Sprintf("%q", text)
}

// Bytes sets a byte string, which is copied.
func (c *Column) Bytes(x []byte) error {
	if c.Type.Kind != pb.Kind_BINARY {
		return c.wrong("the text " + shown(x))
	}
	if err := c.element(false); err != nil {
		return err
	}
	v := &c.out
	if len(v.Data)+len(x) > math.MaxInt32 {
		return c.tooLong()
	}
	to, err := room(c, &v.Data, len(x))
	if err != nil {
		return err
	}
	copy(to, x)
	return push(c, &v.Ends, int32(len(v.Data)))
}

func (c *Column) tooLong() error {
	c.fatal = fmt.Errorf("a window with more than %d values or bytes of them", math.MaxInt32)
	return c.fatal
}

// Raw sets values of a small kind, or of any of numbers, as they lie in memory, little endian: in an open list as many
// as there are.
func (c *Column) Raw(x []byte) error {
	width := spec.Width(c.Type.Kind)
	if width == 0 || len(x)%width != 0 {
		return c.wrong(fmt.Sprintf("%d bytes", len(x)))
	}
	n := len(x) / width
	if c.Type.List && c.depth == c.listDepth() {
		c.elemValid = ones(c.elemValid, c.values, n)
		c.values += n
		return c.raw(x, n)
	}
	for range n { // more than one fail
		if err := c.element(false); err != nil {
			return err
		}
	}
	return c.raw(x, n)
}

// raw adds n values, which are counted.
func (c *Column) raw(x []byte, n int) error {
	v := &c.out
	switch c.Type.Kind {
	case pb.Kind_BOOL:
		to, err := room(c, &v.Bool, n)
		for i := range to {
			to[i] = x[i] != 0
		}
		return err
	case pb.Kind_INT32:
		to, err := room(c, &v.I32, n)
		for i := range to {
			to[i] = int32(binary.LittleEndian.Uint32(x[4*i:]))
		}
		return err
	case pb.Kind_INT64:
		to, err := room(c, &v.I64, n)
		for i := range to {
			to[i] = int64(binary.LittleEndian.Uint64(x[8*i:]))
		}
		return err
	case pb.Kind_FLOAT32:
		to, err := room(c, &v.F32, n)
		for i := range to {
			to[i] = math.Float32frombits(binary.LittleEndian.Uint32(x[4*i:]))
		}
		return err
	case pb.Kind_FLOAT64:
		to, err := room(c, &v.F64, n)
		for i := range to {
			to[i] = math.Float64frombits(binary.LittleEndian.Uint64(x[8*i:]))
		}
		return err
	}
	to, err := room(c, &v.Small, len(x))
	copy(to, x)
	return err
}

// From sets numbers of a kind, as they lie in memory, little endian: in an open list as many as there are. They are of
// the column's kind, or convert to it.
func (c *Column) From(kind pb.Kind, x []byte) error {
	if kind == c.Type.Kind {
		return c.Raw(x)
	}
	width := spec.Width(kind)
	if !Converts(kind, c.Type.Kind) || len(x)%width != 0 {
		return c.wrong(fmt.Sprintf("%d bytes of %s", len(x), spec.KindName(kind)))
	}
	if ok, err := c.widen(kind, x); ok || err != nil {
		return err
	}
	for ; len(x) > 0; x = x[width:] {
		var err error
		if isFloat(kind) {
			err = c.Float(floatOf(kind, x))
		} else {
			err = c.Int(intOf(kind, x))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// widen sets whole numbers at once if the open list's numbers are wider ones; false: they are not, or none is open.
func (c *Column) widen(from pb.Kind, x []byte) (ok bool, err error) {
	width, open := spec.Width(from), c.Type.List && c.depth == c.listDepth()
	if isFloat(from) || !open || width >= spec.Width(c.Type.Kind) {
		return false, nil
	}
	n := len(x) / width
	switch v := &c.out; c.Type.Kind {
	case pb.Kind_INT32:
		var to []int32
		to, err = room(c, &v.I32, n)
		decode.Widen(to, x, from)
	case pb.Kind_INT64:
		var to []int64
		to, err = room(c, &v.I64, n)
		decode.Widen(to, x, from)
	default:
		return false, nil
	}
	c.elemValid = ones(c.elemValid, c.values, n)
	c.values += n
	return true, err
}

// Converts reports whether numbers of one kind can be told as another one: floats as wider ones, and whole numbers as
// such, which are looked at one by one.
func Converts(from, to pb.Kind) bool {
	switch {
	case from == to:
		return spec.Width(to) > 0
	case isFloat(from):
		return isFloat(to) && spec.Width(to) > spec.Width(from)
	}
	_, most := Span(from)
	_, mostTo := Span(to)
	return most > 0 && mostTo > 0
}

func isFloat(k pb.Kind) bool {
	return k == pb.Kind_FLOAT16 || k == pb.Kind_FLOAT32 || k == pb.Kind_FLOAT64
}

// floatOf is the first of some floats that are no FLOAT64.
func floatOf(k pb.Kind, x []byte) float64 {
	if k == pb.Kind_FLOAT16 {
		return float64(format.Float16(binary.LittleEndian.Uint16(x)))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(x)))
}

// intOf is the first of some whole numbers.
func intOf(k pb.Kind, x []byte) int64 {
	switch k {
	case pb.Kind_INT8:
		return int64(int8(x[0])) //nolint:gosec // bits
	case pb.Kind_UINT8:
		return int64(x[0])
	case pb.Kind_INT16:
		return int64(int16(binary.LittleEndian.Uint16(x))) //nolint:gosec // bits
	case pb.Kind_UINT16:
		return int64(binary.LittleEndian.Uint16(x))
	case pb.Kind_INT32:
		return int64(int32(binary.LittleEndian.Uint32(x))) //nolint:gosec // bits
	case pb.Kind_UINT32:
		return int64(binary.LittleEndian.Uint32(x))
	}
	return int64(binary.LittleEndian.Uint64(x)) //nolint:gosec // bits
}

// zero adds what stands in the place of a null.
func (c *Column) zero() (err error) {
	v := &c.out
	switch kind := c.Type.Kind; kind {
	case pb.Kind_BOOL:
		return push(c, &v.Bool, false)
	case pb.Kind_INT32:
		return push(c, &v.I32, 0)
	case pb.Kind_INT64:
		return push(c, &v.I64, 0)
	case pb.Kind_FLOAT32:
		return push(c, &v.F32, 0)
	case pb.Kind_FLOAT64:
		return push(c, &v.F64, 0)
	case pb.Kind_BINARY:
		return push(c, &v.Ends, int32(len(v.Data)))
	default:
		n := len(v.Small)
		if v.Small, err = decode.GrowTo(c.memory, v.Small, n+spec.Width(kind), 2*n+64); err != nil {
			c.fatal = err
			return err
		}
		v.Small = v.Small[:n+spec.Width(kind)]
		clear(v.Small[n:])
		return nil
	}
}

// fill sets what a record has that says nothing.
func (c *Column) fill() error {
	if c.isNull {
		return c.Null()
	}
	if c.Type.List {
		if err := c.Open(); err != nil {
			return err
		}
		defer c.Close()
	}
	for _, v := range c.absent {
		var err error
		switch k := v.GetKind().(type) {
		case *pb.Value_Int:
			err = c.Int(k.Int)
		case *pb.Value_Float:
			err = c.Float(k.Float)
		case *pb.Value_Text:
			err = c.Bytes([]byte(k.Text))
		case *pb.Value_Bool:
			err = c.Bool(k.Bool)
		default:
			err = c.Null()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// push appends a value.
func push[T any](c *Column, s *[]T, x T) error {
	n := len(*s)
	if n == cap(*s) {
		if err := more(c, s); err != nil {
			return err
		}
	}
	*s = (*s)[:n+1]
	(*s)[n] = x
	return nil
}

// more makes room for values.
func more[T any](c *Column, s *[]T) error {
	n := len(*s)
	grown, err := decode.GrowTo(c.memory, *s, n+1, 2*n+64)
	if err != nil {
		c.fatal = err
		return err
	}
	*s = grown[:n]
	return nil
}

// room appends n values, which it returns, to be set.
func room[T any](c *Column, s *[]T, n int) ([]T, error) {
	at := len(*s)
	grown, err := decode.GrowTo(c.memory, *s, at+n, 2*(at+n))
	if err != nil {
		c.fatal = err
		return nil, err
	}
	*s = grown[:at+n]
	return (*s)[at:], nil
}
