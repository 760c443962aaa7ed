package arrow

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/arrow"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// column decodes an array as a kind.
type column struct {
	name    string
	array   *arrow.Array
	memory  *decode.Allowance
	values  values
	length  int       // of the array, in the record batch
	structs []*buffer // validity of rows: of the structs around them, of lists, or of values
	inner   []*buffer // validity of elements
	offsets *buffer   // of lists, unless they are of one size

	valid, elemValid []uint64
	ends             []int32
	runs             []run // of elements
	out              vector.Vector
}

// run is values that lie one after another. Those of a window rise.
type run struct{ from, n int }

// span is the run from the first of several to the end of the last one: columns that share a buffer look at the same
// bytes of it in each window, however many runs these are.
func span(runs []run) run {
	if len(runs) == 0 {
		return run{}
	}
	first, last := runs[0], runs[len(runs)-1]
	return run{first.from, last.from + last.n - first.from}
}

func nameOf(s *pb.Source) string { return strings.Join(s.GetPath(), ".") }

func (d *Decoder) newColumn(a *arrow.Array, kind pb.Kind, name string) (*column, error) {
	c := &column{name: name, array: a, memory: &d.memory}
	for _, number := range a.Structs {
		c.structs = append(c.structs, d.buffers[number])
	}
	for _, number := range a.Inner {
		c.inner = append(c.inner, d.buffers[number])
	}
	var own []*buffer
	for i := range a.Own() {
		own = append(own, d.buffers[a.Buffers+i])
	}
	if len(own) > 0 {
		if a.List == nil {
			c.structs = append(c.structs, own[0])
		} else {
			c.inner = append(c.inner, own[0])
		}
	}
	if l := a.List; l != nil {
		c.structs = append(c.structs, d.buffers[l.Validity])
		if l.Offsets >= 0 {
			c.offsets = d.buffers[l.Offsets]
		}
		c.out.Type.List = true
	}
	c.out.Type.Kind = kind
	var err error
	c.values, err = d.newValues(a, kind, own)
	return c, err
}

func (c *column) fail(err error) error { return fmt.Errorf("column %s: %w", c.name, err) }

// Read shows the rows that next decoded.
func (c *column) Read(int) (*vector.Vector, error) { return &c.out, nil }

// next decodes rows of the record batch.
func (c *column) next(from, rows int) (err error) {
	c.out.Rows = rows
	if c.valid, c.out.Valid, err = intersect(c.valid, rows, []run{{from, rows}}, c.structs); err != nil {
		return err
	}
	if c.array.List == nil {
		if from+rows > c.length {
			return fmt.Errorf("it has %d values where there are more rows: the file is damaged", c.length)
		}
		c.runs = append(c.runs[:0], run{from, rows})
		return c.decode(rows)
	}
	n, err := c.lists(from, rows)
	if err != nil {
		return err
	}
	if c.elemValid, c.out.ElemValid, err = intersect(c.elemValid, n, c.runs, c.inner); err != nil {
		return err
	}
	return c.decode(n)
}

// decode decodes the values of the runs.
func (c *column) decode(n int) error {
	if err := c.values.reserve(n); err != nil {
		return err
	}
	if err := c.values.read(0, c.runs); err != nil {
		return err
	}
	return c.values.show(&c.out, n)
}

// intersect is the validity of n values, which are in runs; none is null if it is nil. Room is for it.
func intersect(room []uint64, n int, runs []run, of []*buffer) (grown, valid []uint64, err error) {
	for _, b := range of {
		if b.length == 0 { // as where none is null
			continue
		}
		bits, first, err := b.bits(runs)
		if err != nil {
			return room, nil, err
		}
		if valid == nil {
			room = vector.Grow(room, vector.Words(n))
			setBits(room, n)
			valid = room
		}
		at := 0
		for _, r := range runs {
			andBits(valid, at, bits, r.from-first, r.n)
			at += r.n
		}
	}
	if valid != nil && allSet(valid, n) {
		valid = nil
	}
	return room, valid, nil
}

// lists finds the elements of rows, and returns how many there are. Those of null rows are passed over.
func (c *column) lists(from, rows int) (int, error) {
	bounds, err := c.bounds(from, rows)
	if err != nil {
		return 0, err
	}
	if c.ends, err = decode.Grow(c.memory, c.ends[:0], rows+1); err != nil {
		return 0, err
	}
	c.ends, c.runs = c.ends[:rows+1], c.runs[:0]
	c.ends[0] = 0
	total := int64(0)
	begin := bounds(0)
	for i := range rows {
		end := bounds(i + 1)
		if begin < 0 || end < begin || end > int64(c.length) {
			return 0, fmt.Errorf("a list has elements %d to %d of %d: the file is damaged", begin, end, c.length)
		}
		if n := end - begin; n > 0 && !c.out.IsNull(i) {
			if k := len(c.runs); k > 0 && int64(c.runs[k-1].from+c.runs[k-1].n) == begin {
				c.runs[k-1].n += int(n)
			} else {
				c.runs = append(c.runs, run{int(begin), int(n)})
			}
			if total += n; total > math.MaxInt32 {
				return 0, errors.New("a window has more elements than can be numbered: write smaller record batches")
			}
		}
		c.ends[i+1] = int32(total)
		begin = end
	}
	c.out.Offsets = c.ends
	return int(total), nil
}

// bounds returns where the lists of rows begin: number rows is where the last one ends.
func (c *column) bounds(from, rows int) (func(i int) int64, error) {
	l := c.array.List
	if l.Offsets < 0 {
		return func(i int) int64 { return int64(from+i) * l.Size }, nil
	}
	if rows == 0 {
		return func(int) int64 { return 0 }, nil
	}
	return c.offsets.offsets(from, rows, l.Large)
}
