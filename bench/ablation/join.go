package main

import (
	"fmt"
	"hash"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/tensors"
)

// joiner is a trainer that copies rows to batches of its size, in memory that it uses again, as client/rebatch.go does. Where the
// batches were cut that it gets makes no difference to those that it makes.
type joiner struct {
	columns    []joined
	rows, most int
	total      int64 // rows
	see        func(*joiner) error
}

// joined is a tensor of a batch.
type joined struct {
	buffers int // that Arrow has of it
	lists   bool
	width   int     // bytes of a row, or of an element of a list
	offsets []int32 // of lists: rows+1
	data    []byte
}

// newJoiner makes batches of so many rows of a program's tensors. see, unless it is nil, is shown each before the next one is made.
func newJoiner(p *pb.Program, rows int, see func(*joiner) error) (*joiner, error) {
	schema, err := tensors.Schema(p)
	if err != nil {
		return nil, err
	}
	j := &joiner{most: rows, see: see}
	for _, f := range schema.Fields() {
		c, err := joinedOf(f.Type)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", f.Name, err)
		}
		j.columns = append(j.columns, c)
	}
	return j, nil
}

func joinedOf(t arrow.DataType) (joined, error) {
	c, values, each := joined{buffers: 2}, t, 1
	switch t := t.(type) {
	case *arrow.FixedSizeListType:
		c.buffers, values, each = 3, t.Elem(), int(t.Len())
	case *arrow.ListType:
		c.buffers, values, c.lists, c.offsets = 4, t.Elem(), true, []int32{0}
	}
	fixed, ok := values.(arrow.FixedWidthDataType)
	if !ok || fixed.BitWidth()%8 != 0 {
		return c, fmt.Errorf("the workloads have no %s", t)
	}
	c.width = each * fixed.BitWidth() / 8
	return c, nil
}

// add copies the rows of a batch.
func (j *joiner) add(rows int, buffers [][]byte) error {
	for lo := 0; lo < rows; {
		n := min(rows-lo, j.most-j.rows)
		rest := buffers
		for i := range j.columns {
			c := &j.columns[i]
			if len(rest) < c.buffers {
				return fmt.Errorf("the batch ends before tensor %d", i)
			}
			c.add(rest[:c.buffers], lo, lo+n)
			rest = rest[c.buffers:]
		}
		lo, j.rows = lo+n, j.rows+n
		if j.rows == j.most {
			if err := j.end(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *joined) add(buffers [][]byte, lo, hi int) {
	if c.lists {
		offsets := arrow.Int32Traits.CastFromBytes(buffers[1])[lo : hi+1]
		shift := c.offsets[len(c.offsets)-1] - offsets[0]
		for _, o := range offsets[1:] {
			c.offsets = append(c.offsets, o+shift)
		}
		lo, hi = int(offsets[0]), int(offsets[len(offsets)-1])
	}
	c.data = append(c.data, buffers[c.buffers-1][lo*c.width:hi*c.width]...)
}

// end ends a batch, if it has begun: the training loop has it, and gives its memory back.
func (j *joiner) end() error {
	if j.rows == 0 {
		return nil
	}
	if j.see != nil {
		if err := j.see(j); err != nil {
			return err
		}
	}
	j.total += int64(j.rows)
	j.rows = 0
	for i := range j.columns {
		c := &j.columns[i]
		c.data, c.offsets = c.data[:0], c.offsets[:min(1, len(c.offsets))]
	}
	return nil
}

// bytes is what the batch takes.
func (j *joiner) bytes() (n int64) {
	for i := range j.columns {
		n += int64(len(j.columns[i].data) + 4*len(j.columns[i].offsets))
	}
	return n
}

// sum adds the batch to a checksum.
func (j *joiner) sum(h hash.Hash) {
	for i := range j.columns {
		h.Write(arrow.Int32Traits.CastToBytes(j.columns[i].offsets))
		h.Write(j.columns[i].data)
	}
}
