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
	lists   []*level  // the outermost first
	inner   []*buffer // validity of elements

	valid, elemValid []uint64
	rows             []run // the window's
	out              vector.Vector
}

// level is one of lists.
type level struct {
	list    *arrow.List
	length  int       // of what the lists hold, in the record batch
	offsets *buffer   // unless the lists are of one size
	nulls   []*buffer // validity of lists that are not rows

	valid []uint64
	ends  []int32
	runs  []run // of what the window's lists hold
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
		if len(a.Lists) == 0 {
			c.structs = append(c.structs, own[0])
		} else {
			c.inner = append(c.inner, own[0])
		}
	}
	for i, list := range a.Lists {
		l := &level{list: list}
		if list.Offsets >= 0 {
			l.offsets = d.buffers[list.Offsets]
		}
		if validity := d.buffers[list.Validity]; i == 0 {
			c.structs = append(c.structs, validity)
		} else {
			l.nulls = append(l.nulls, validity)
			for _, number := range list.Around {
				l.nulls = append(l.nulls, d.buffers[number])
			}
		}
		c.lists = append(c.lists, l)
	}
	if len(a.Lists) > 0 {
		c.out.Type.List, c.out.Type.Nested = true, uint32(len(a.Lists)-1)
		c.out.Nested = make([]vector.Level, len(a.Lists)-1)
	}
	c.out.Type.Kind = kind
	var err error
	c.values, err = d.newValues(a, kind, own)
	return c, err
}

func (c *column) fail(err error) error { return fmt.Errorf("column %s: %w", c.name, err) }

// Read shows the rows that next decoded.
func (c *column) Read(int) (*vector.Vector, error) { return &c.out, nil }

// begin begins a record batch.
func (c *column) begin(b *arrow.Batch) {
	c.length = int(b.Lengths[c.array.Array])
	for i, l := range c.lists {
		if l.length = c.length; i+1 < len(c.lists) {
			l.length = int(b.Lengths[c.lists[i+1].list.Array])
		}
	}
}

// next decodes rows of the record batch.
func (c *column) next(from, rows int) (err error) {
	c.out.Rows = rows
	c.rows = append(c.rows[:0], run{from, rows})
	if c.valid, c.out.Valid, err = intersect(c.valid, rows, c.rows, c.structs); err != nil {
		return err
	}
	if len(c.lists) == 0 {
		if from+rows > c.length {
			return fmt.Errorf("it has %d values where there are more rows: the file is damaged", c.length)
		}
		return c.decode(c.rows, rows)
	}
	n, runs, valid := rows, c.rows, c.out.Valid
	for i, l := range c.lists {
		if i > 0 {
			if l.valid, valid, err = intersect(l.valid, n, runs, l.nulls); err != nil {
				return err
			}
		}
		if n, err = l.find(c.memory, runs, n, valid); err != nil {
			return err
		}
		if runs = l.runs; i == 0 {
			c.out.Offsets = l.ends
		} else {
			c.out.Nested[i-1] = vector.Level{Offsets: l.ends, Valid: valid}
		}
	}
	if c.elemValid, c.out.ElemValid, err = intersect(c.elemValid, n, runs, c.inner); err != nil {
		return err
	}
	return c.decode(runs, n)
}

// decode decodes the n values of runs.
func (c *column) decode(runs []run, n int) error {
	if err := c.values.reserve(n); err != nil {
		return err
	}
	if err := c.values.read(0, runs); err != nil {
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

var errElements = errors.New("a window has more elements than can be numbered: write smaller record batches")

// find finds what the n lists of runs hold, and returns how much that is. What null ones hold is passed over.
func (l *level) find(m *decode.Allowance, runs []run, n int, valid []uint64) (int, error) {
	all := span(runs)
	bounds, err := l.bounds(all)
	if err != nil {
		return 0, err
	}
	if l.ends, err = decode.Grow(m, l.ends[:0], n+1); err != nil {
		return 0, err
	}
	l.ends, l.runs = l.ends[:n+1], l.runs[:0]
	l.ends[0] = 0
	total, at := int64(0), 0
	for _, r := range runs {
		begin := bounds(r.from - all.from)
		for i := range r.n {
			end := bounds(r.from - all.from + i + 1)
			if begin < 0 || end < begin || end > int64(l.length) {
				return 0, fmt.Errorf("a list has elements %d to %d of %d: the file is damaged", begin, end, l.length)
			}
			if end > begin && (valid == nil || valid[at>>6]>>(at&63)&1 != 0) {
				l.add(int(begin), int(end-begin))
				if total += end - begin; total > math.MaxInt32 {
					return 0, errElements
				}
			}
			at++
			l.ends[at] = int32(total)
			begin = end
		}
	}
	return int(total), nil
}

// add adds a run to those of what the lists hold.
func (l *level) add(from, n int) {
	if k := len(l.runs); k > 0 && l.runs[k-1].from+l.runs[k-1].n == from {
		l.runs[k-1].n += n
		return
	}
	l.runs = append(l.runs, run{from, n})
}

// bounds returns where the lists of a run begin: number r.n is where the last one ends.
func (l *level) bounds(r run) (func(i int) int64, error) {
	if l.list.Offsets < 0 {
		return func(i int) int64 { return int64(r.from+i) * l.list.Size }, nil
	}
	if r.n == 0 {
		return func(int) int64 { return 0 }, nil
	}
	return l.offsets.offsets(r.from, r.n, l.list.Large)
}
