package records

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Column takes the values of one source, record by record. Of each record it is told nothing, which is the default of
// the source, or once what there is: a value, null, or a list: Open, then values, nulls or lists within, then Close.
// Its methods fail for what the source's type does not have, which is an error of the record.
type Column struct {
	Type spec.Type

	source *pb.Source
	memory *decode.Allowance
	absent []*pb.Value // what a row has that is told nothing
	isNull bool        // or it is null

	rows   int
	set    bool // the row is told of
	depth  int  // lists that are open
	values int
	levels []int32 // how many lists there are so far at each level of Nested

	valid, elemValid []uint64
	nulls, elemNulls bool
	nested           []vector.Level
	nestedNulls      []bool
	out              vector.Vector
	fatal            error // that is not about the record: there is no memory, or the window is too long
}

func newColumn(s *pb.Source, memory *decode.Allowance) (*Column, error) {
	t := spec.TypeFromProto(s.GetType())
	c := &Column{Type: t, source: s, memory: memory, isNull: s.GetDefault().GetKind() == nil}
	if t.Nested > spec.MaxNested {
		return nil, fmt.Errorf("its type has %d levels of lists within lists; %d may be", t.Nested, spec.MaxNested)
	}
	if !c.isNull {
		if t.List != spec.IsList(s.GetDefault()) || t.Nested > 0 {
			return nil, fmt.Errorf("its default is not of its type %s", t)
		}
		c.absent = []*pb.Value{s.GetDefault()}
		if t.List {
			c.absent = spec.Elements(s.GetDefault())
		}
	}
	c.out.Type = t
	c.nested, c.nestedNulls = make([]vector.Level, t.Nested), make([]bool, t.Nested)
	c.levels = make([]int32, t.Nested)
	return c, nil
}

// begin begins a window.
func (c *Column) begin() {
	v := &c.out
	c.rows, c.values, c.set, c.depth, c.nulls, c.elemNulls = 0, 0, false, 0, false, false
	c.valid, c.elemValid = c.valid[:0], c.elemValid[:0]
	v.Bool, v.I32, v.I64, v.F32, v.F64 = v.Bool[:0], v.I32[:0], v.I64[:0], v.F32[:0], v.F64[:0]
	v.Data, v.Ends, v.Small, v.Offsets = v.Data[:0], v.Ends[:0], v.Small[:0], v.Offsets[:0]
	if c.Type.Kind == pb.Kind_BINARY {
		v.Ends = append(v.Ends, 0)
	}
	clear(c.levels)
	clear(c.nestedNulls)
	for i := range c.nested {
		c.nested[i].Offsets, c.nested[i].Valid = c.nested[i].Offsets[:0], c.nested[i].Valid[:0]
	}
}

var (
	errTwice   = errors.New("it has two values")
	errNoList  = errors.New("a list where one value is wanted")
	errNoValue = errors.New("one value where a list is wanted")
	errOpen    = errors.New("a list is not closed")
)

// IsSet reports whether the record's row is told of.
func (c *Column) IsSet() bool { return c.set }

// element counts a value.
func (c *Column) element(null bool) error {
	if c.depth != c.listDepth() {
		if c.Type.List {
			return errNoValue
		}
		return errNoList
	}
	if !c.Type.List {
		return c.row(null)
	}
	c.elemValid = bit(c.elemValid, c.values, &c.elemNulls, null)
	c.values++
	return nil
}

func (c *Column) listDepth() int {
	if !c.Type.List {
		return 0
	}
	return int(c.Type.Nested) + 1
}

// row tells that the record has something.
func (c *Column) row(null bool) error {
	if c.set {
		return errTwice
	}
	c.set = true
	c.valid = bit(c.valid, c.rows, &c.nulls, null)
	return nil
}

// bit appends a bit of a bitmap; nulls says whether any is null.
func bit(bits []uint64, at int, nulls *bool, null bool) []uint64 {
	if at&63 == 0 {
		bits = append(bits, 0)
	}
	if null {
		*nulls = true
	} else {
		bits[at>>6] |= 1 << (at & 63)
	}
	return bits
}

// Null sets null: the row, an element, or a list within a list, as to what is open.
func (c *Column) Null() error {
	switch {
	case c.depth == c.listDepth():
		if err := c.element(true); err != nil {
			return err
		}
		return c.zero()
	case c.depth == 0:
		if err := c.row(true); err != nil {
			return err
		}
		return push(c, &c.out.Offsets, c.count(0))
	}
	return c.nest(c.depth-1, true)
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

// Open begins a list: the row's, or one within the open one.
func (c *Column) Open() error {
	switch {
	case c.depth >= c.listDepth():
		return errNoList
	case c.depth == 0:
		if err := c.row(false); err != nil {
			return err
		}
		if err := push(c, &c.out.Offsets, c.count(0)); err != nil {
			return err
		}
	default:
		if err := c.nest(c.depth-1, false); err != nil {
			return err
		}
	}
	c.depth++
	return nil
}

// Close ends a list.
func (c *Column) Close() { c.depth-- }

// nest begins a list at a level of Nested, which is empty if it is null.
func (c *Column) nest(level int, null bool) error {
	l := &c.nested[level]
	l.Valid = bit(l.Valid, int(c.levels[level]), &c.nestedNulls[level], null)
	c.levels[level]++
	return push(c, &l.Offsets, c.count(level+1))
}

// count is how many there are so far of what lists at a level hold: of lists of the next, or of values.
func (c *Column) count(level int) int32 {
	if level < len(c.levels) {
		return c.levels[level]
	}
	return int32(c.values)
}

// endRow ends a record.
func (c *Column) endRow() error {
	if !c.set {
		if err := c.fill(); err != nil {
			return err
		}
	}
	if c.depth != 0 {
		return errOpen
	}
	if c.values > math.MaxInt32-1 || len(c.out.Data) > math.MaxInt32 {
		return c.tooLong()
	}
	c.rows++
	c.set = false
	return nil
}

func (c *Column) tooLong() error {
	c.fatal = fmt.Errorf("a window with more than %d values or bytes of them", math.MaxInt32)
	return c.fatal
}

// undo forgets what the open row was told.
func (c *Column) undo() {
	n := c.rows
	c.set, c.depth = false, 0
	c.valid = cutBits(c.valid, n)
	if c.Type.List {
		v := &c.out
		if len(v.Offsets) == n { // nothing was
			return
		}
		v.Offsets, n = v.Offsets[:n], int(v.Offsets[n])
		for k := range c.nested {
			l := &c.nested[k]
			c.levels[k], l.Valid = int32(n), cutBits(l.Valid, n)
			if len(l.Offsets) == n {
				n = int(c.count(k + 1))
				continue
			}
			l.Offsets, n = l.Offsets[:n], int(l.Offsets[n])
		}
		c.values, c.elemValid = n, cutBits(c.elemValid, n)
	}
	c.cut(n)
}

// cutBits keeps the first n bits.
func cutBits(bits []uint64, n int) []uint64 {
	bits = bits[:min(len(bits), vector.Words(n))]
	if n&63 != 0 && n>>6 < len(bits) {
		bits[n>>6] &= 1<<(n&63) - 1
	}
	return bits
}

// cut keeps the first n values.
func (c *Column) cut(n int) {
	v := &c.out
	v.Bool, v.I32, v.I64 = v.Bool[:min(n, len(v.Bool))], v.I32[:min(n, len(v.I32))], v.I64[:min(n, len(v.I64))]
	v.F32, v.F64 = v.F32[:min(n, len(v.F32))], v.F64[:min(n, len(v.F64))]
	v.Small = v.Small[:min(n*spec.Width(c.Type.Kind), len(v.Small))]
	if c.Type.Kind == pb.Kind_BINARY {
		v.Ends = v.Ends[:min(n+1, len(v.Ends))]
		v.Data = v.Data[:v.Ends[len(v.Ends)-1]]
	}
}

// Elements is how many values there are so far in the window: of a list's column, in all of its lists.
func (c *Column) Elements() int { return c.values }

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

// ones appends n bits that are set to a bitmap.
func ones(bits []uint64, at, n int) []uint64 {
	for n > 0 {
		if at&63 == 0 {
			bits = append(bits, 0)
		}
		k := min(n, 64-at&63)
		bits[at>>6] |= (1<<k - 1) << (at & 63)
		at, n = at+k, n-k
	}
	return bits
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

// show is the window's vector.
func (c *Column) show() *vector.Vector {
	v := &c.out
	v.Rows = c.rows
	v.Valid, v.ElemValid, v.Nested = nil, nil, nil
	if c.nulls {
		v.Valid = c.valid
	}
	if c.Type.List {
		v.Offsets = append(v.Offsets, c.count(0))
		if c.elemNulls {
			v.ElemValid = c.elemValid
		}
	}
	for i, l := range c.nested {
		c.nested[i].Offsets = append(l.Offsets, c.count(i+1))
		level := vector.Level{Offsets: c.nested[i].Offsets}
		if c.nestedNulls[i] {
			level.Valid = l.Valid
		}
		v.Nested = append(v.Nested, level)
	}
	return v
}
