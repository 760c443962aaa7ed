package encode

import (
	"fmt"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/klauspost/compress/zstd"
)

// cuts say where pages end, so that page indexes tell parts of a row group apart.
type cuts struct {
	rows  int64 // at most
	bytes int   // about as many at most
	few   int   // as many values are not worth a page, however many rows they are of
}

func defaultCuts() cuts { return cuts{rows: 20_000, bytes: 1 << 20, few: 1000} }

// chunk encodes one leaf's values of a row group, and then the next one's.
type chunk struct {
	cuts    cuts
	leaf    *leaf
	zstd    *zstd.Encoder
	out     []byte // pages
	room    []byte // for what is compressed
	slots   slots
	page    page // that is being collected
	dict    dictionary
	trying  bool   // whether a dictionary pays is not known yet
	waiting []page // until it is known
	info    chunkInfo
	pages   []pageInfo
	row     int64 // that the page begins with
}

// encode makes the pages of a leaf's values, of so many rows.
func (c *chunk) encode(l *leaf, values []arrow.Array, rows int64) (chunkInfo, error) {
	c.begin(l)
	pages := (rows + c.cuts.rows - 1) / c.cuts.rows
	step := int((rows + pages - 1) / max(1, pages)) // pages of all columns begin with the same rows
	row := 0
	for _, a := range values {
		for from := 0; from < a.Len(); {
			n := c.fitting(a, from, min(a.Len()-from, step-row%step))
			if n > 0 {
				if err := c.add(a, from, n); err != nil {
					return chunkInfo{}, err
				}
			}
			from += n
			row += n
			if n == 0 || row%step == 0 && c.page.count >= c.cuts.few {
				if err := c.endPage(); err != nil {
					return chunkInfo{}, err
				}
			}
		}
	}
	return c.finish()
}

func (c *chunk) begin(l *leaf) {
	c.leaf, c.out, c.waiting, c.info, c.pages, c.row = l, c.out[:0], c.waiting[:0], chunkInfo{}, c.pages[:0], 0
	c.page.reset()
	c.trying = l.kind.physical != boolean
	c.dict.reset(&l.kind)
}

// fitting is how many of n rows the page has room for, about: none if it is full, but one if it is empty.
func (c *chunk) fitting(a arrow.Array, from, n int) int {
	room := int64(c.cuts.bytes - len(c.page.values) - c.page.levels)
	for n > 0 && c.leaf.bytesOf(a, from, n) > room {
		n /= 2
	}
	if c.page.rows == 0 {
		return max(1, n)
	}
	return n
}

// bytesOf is how many bytes n rows take with their levels, at most.
func (l *leaf) bytesOf(a arrow.Array, row, n int) int64 {
	from, to := int64(row), int64(row+n)
	for _, s := range l.steps {
		if x, ok := a.(array.ExtensionArray); ok {
			a = x.Storage()
		}
		switch {
		case s == repeated && from < to:
			lists := a.(array.ListLike)
			first, _ := lists.ValueOffsets(int(from))
			_, to = lists.ValueOffsets(int(to - 1))
			from, a = first, lists.ListValues()
		case s == repeated:
			a = a.(array.ListLike).ListValues()
		case s >= 0:
			a = a.(*array.Struct).Field(int(s))
		}
	}
	if x, ok := a.(array.ExtensionArray); ok {
		a = x.Storage()
	}
	size := int64(n) + (to-from)*int64(l.kind.width+1)
	if l.kind.width == 0 && from < to {
		place := places(a)
		first, _ := place(int(from))
		_, last := place(int(to - 1))
		size += 4*(to-from) + last - first
	}
	return size
}

// add takes rows to the page.
func (c *chunk) add(a arrow.Array, from, n int) error {
	a, err := c.leaf.follow(a, from, n, &c.slots)
	if err != nil {
		return err
	}
	p := &c.page
	p.rows += n
	p.levels += len(c.slots.def)
	p.count += c.slots.count()
	if c.leaf.maxDef > 0 {
		p.def = append(p.def, c.slots.def...)
	}
	p.rep = append(p.rep, c.slots.rep...)
	if c.slots.count() > 0 {
		p.values, err = c.leaf.kind.write(p.values, a, &c.slots, c.leaf.kind.width)
	}
	if len(p.values) > math.MaxInt32/2 {
		return fmt.Errorf("a row has %d bytes, which is too much: cut the longest lists or values", len(p.values))
	}
	return err
}

// endPage writes the page, unless a dictionary may pay.
func (c *chunk) endPage() error {
	p := &c.page
	p.close(c.leaf)
	if c.trying {
		if p.numbers, c.trying = c.dict.add(p.values, p.numbers[:0]); c.trying {
			c.wait()
			return nil
		}
		if err := c.writePages(false); err != nil {
			return err
		}
	}
	err := c.write(p, false)
	p.reset()
	return err
}

// wait puts the page aside, and takes another one that is used no longer.
func (c *chunk) wait() {
	n := len(c.waiting)
	if n < cap(c.waiting) {
		c.waiting = c.waiting[:n+1]
	} else {
		c.waiting = append(c.waiting, page{})
	}
	c.page, c.waiting[n] = c.waiting[n], c.page
	c.page.reset()
}

// writePages writes the pages that waited.
func (c *chunk) writePages(coded bool) error {
	for i := range c.waiting {
		if err := c.write(&c.waiting[i], coded); err != nil {
			return err
		}
	}
	c.waiting = c.waiting[:0]
	return nil
}

// finish writes what is left.
func (c *chunk) finish() (chunkInfo, error) {
	if c.page.rows > 0 {
		if err := c.endPage(); err != nil {
			return chunkInfo{}, err
		}
	}
	c.info.coded = c.trying && c.dict.pays()
	if c.info.coded {
		c.writeDictionary()
	}
	if err := c.writePages(c.info.coded); err != nil {
		return chunkInfo{}, err
	}
	c.info.size = int64(len(c.out))
	if !c.info.unbounded {
		c.info.columnIndex = columnIndex(&c.leaf.kind, c.pages)
	}
	return c.info, nil
}
