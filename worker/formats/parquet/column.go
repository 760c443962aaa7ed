package parquet

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// shape is all that decides how a column's pages are decoded.
type shape struct {
	physical       footer.Physical
	typeLength     int
	maxDef, maxRep int
	logical        footer.Logical
	read           pb.Kind // what the leaf's values are read as
	kind           pb.Kind // what they are widened to
	micros         bool    // timestamps of 96 bits are made microseconds, not nanoseconds, and so are days
	untyped        bool    // the leaf has no value, and so no type
}

func shapeOf(l *footer.Leaf, use footer.Use) shape {
	kind := use.Kind
	s := shape{
		physical: l.Physical, typeLength: l.TypeLength, maxDef: l.MaxDef, maxRep: l.MaxRep,
		logical: l.Logical, read: l.Kind, kind: kind, micros: use.Micros,
	}
	if whole := l.Kind == pb.Kind_INT32 || l.Kind == pb.Kind_INT64; whole && kind == pb.Kind_FLOAT64 {
		s.logical.Decimal, s.logical.Scale, s.logical.Small = true, 0, 0 // a table had whole numbers there before
	}
	if s.untyped = l.Kind == pb.Kind_KIND_UNSPECIFIED; s.untyped {
		s.physical, s.read = physicalOf(kind), kind
		if kind == pb.Kind_FLOAT16 {
			s.typeLength, s.logical.Float16 = spec.Width(kind), true
		}
	}
	return s
}

// physicalOf is as what values of a kind are stored.
func physicalOf(kind pb.Kind) footer.Physical {
	switch kind {
	case pb.Kind_BOOL:
		return footer.Boolean
	case pb.Kind_INT32, pb.Kind_INT8, pb.Kind_INT16, pb.Kind_UINT8, pb.Kind_UINT16, pb.Kind_UINT32:
		return footer.Int32
	case pb.Kind_INT64:
		return footer.Int64
	case pb.Kind_FLOAT32:
		return footer.Float
	case pb.Kind_FLOAT64:
		return footer.Double
	case pb.Kind_FLOAT16:
		return footer.FixedLenByteArray
	}
	return footer.ByteArray
}

// column decodes one leaf's chunk.
type column struct {
	shape
	pages
	name       string
	file       string
	group      int
	values     values
	lender     lender     // values too, if they are one; else nil
	prefetcher prefetcher // values too, if they are one; else nil
	coded      *coded     // values too, if Next may show codes; else nil
	block      block      // levels decoded, not yet taken
	nested     *nested    // of lists of lists; else nil

	rows     int64 // of the row group
	rowsLeft int64
	jumped   bool     // valuesLeft is the most that may be left
	waits    bool     // it is decoded by Rest
	lag      int      // rows that are to be skipped first
	dropped  bool     // the next levels may belong to a row that skip dropped
	entries  bool     // the values have the chunk's dictionary, not that of another one
	valid    validity // of rows
	elems    validity // of list elements
	offsets  []int32  // of the window's lists: own, or Counting's while each row has one element
	own      []int32
	counting bool
	out      vector.Vector
	early    vector.Early // if out.Early is set
}

// values decodes the values of a column's pages into a buffer. Positions count from the window's first value.
type values interface {
	// dictionary reads a dictionary page of n values.
	dictionary(data []byte, e encoding, n int) error
	// page begins a data page of at most n values.
	page(data []byte, e encoding, n int) error
	// reserve makes room for n values of the window, which is likely to have some more, keeping those there are.
	reserve(n, likely int) error
	// read decodes the page's next n values to position at; room is reserved.
	read(at, n int) error
	// spread moves the present values that were read to position from apart to where valid, for positions from to
	// from+n, has a bit.
	spread(valid []uint64, from, n, present int)
	// into lets v see the first n values.
	into(v *vector.Vector, n int)
}

// lender is values that may be shown where they lie in a page, instead of being copied.
type lender interface {
	// lend says whether the bytes of the page that begins stay until keep is called.
	lend(stays bool)
	// keep copies what is shown of the page, which is about to go.
	keep()
	// forget shows nothing any more: the page is gone, with its chunk.
	forget()
}

func newColumn(s shape, c *codecs, mem *decode.Allowance) (*column, error) {
	v, err := newValues(s, mem)
	if err != nil {
		return nil, err
	}
	col := &column{shape: s, pages: pages{codecs: c, mem: mem}, values: v}
	col.lender, _ = v.(lender)
	col.prefetcher, _ = v.(prefetcher)
	if err := col.block.init(s); err != nil {
		return nil, err
	}
	col.out.Type.Kind, col.out.Type.List = s.kind, s.maxRep > 0
	if s.maxRep > 1 {
		col.nested = newNested(s, mem)
		col.out.Type.Nested = uint32(s.maxRep - 1)
	}
	return col, nil
}

// take has the column's values go through a step, if they can.
func (c *column) take(e vector.Early) {
	v, ok := c.values.(interface{ take(e vector.Early) bool })
	if !ok || !v.take(e) {
		return
	}
	c.early, c.out.Early = e, true
	if f, ok := c.values.(*fixed[uint64]); ok && e.Narrow && f.fill <= math.MaxUint32 {
		n := newNarrow(f)
		c.values, c.lender, c.prefetcher = n, n, n
	}
}

// code has the column's values shown as codes, where they can be. Unread says that nobody wants them as values.
func (c *column) code(unread bool) {
	v, ok := c.values.(codable)
	if !ok || c.maxRep > 0 {
		return
	}
	if f, ok := v.(interface{ keepWide() }); ok {
		f.keepWide()
	}
	c.coded = &coded{
		codable: v, lender: c.lender, mem: c.mem, valid: &c.valid, unread: unread,
		dict: &vector.Vector{Type: c.out.Type},
	}
	c.values, c.lender, c.prefetcher = c.coded, c.coded, nil
}

// spell makes values of what read showed as codes.
func (c *column) spell(rows int) error {
	if c.coded == nil || c.coded.unread {
		return nil
	}
	if err := c.coded.spell(); err != nil {
		return c.fail(err)
	}
	_, err := c.Read(rows)
	return err
}

// newValues returns the decoder of a shape's values.
func newValues(s shape, mem *decode.Allowance) (values, error) {
	switch {
	case s.physical == footer.Boolean && s.kind == pb.Kind_BOOL:
		return &booleans{mem: mem}, nil
	case s.kind == pb.Kind_BINARY && s.physical == footer.ByteArray:
		return &binaries{mem: mem}, nil
	case s.kind == pb.Kind_BINARY && s.physical == footer.FixedLenByteArray:
		return &binaries{mem: mem, width: s.typeLength}, nil
	case spec.Small(s.kind):
		return newSmall(s, mem)
	case s.kind == pb.Kind_FLOAT64 && s.physical == footer.ByteArray && s.logical.Decimal:
		return &decimals{mem: mem, scale: decode.NewDecimal(s.logical.Scale), bytes: binaries{mem: mem}}, nil
	}
	return newFixed(s, mem)
}

// reset begins a chunk of a row group of so many rows.
func (c *column) reset(file string, number int, rows int64, chunk *footer.Chunk, source decode.Source) error {
	c.file, c.group, c.rows, c.rowsLeft, c.lag, c.jumped = file, number, rows, rows, 0, false
	c.pages.reset(chunk, source)
	if c.lender != nil {
		c.lender.forget()
	}
	c.block.begin()
	c.dropped, c.entries = false, false
	if c.coded != nil {
		c.coded.begin()
	}
	if c.maxRep == 0 && chunk.Values != rows {
		return c.fail(fmt.Errorf("the footer claims %d values for %d rows", chunk.Values, rows))
	}
	return nil
}

// fail says where an error was found.
func (c *column) fail(err error) error {
	return fmt.Errorf("%s row group %d column %s: page at byte %d: %w",
		c.file, c.group, c.name, c.chunkAt+int64(c.pageAt), err)
}

// next decodes the next n rows.
func (c *column) next(n int) error {
	c.rowsLeft -= int64(n)
	c.valid.reset()
	c.elems.reset()
	var err error
	if c.maxRep == 0 {
		err = c.nextFlat(n)
	} else {
		err = c.nextLists(n)
	}
	if err == nil && c.rowsLeft == 0 {
		err = c.finish()
	}
	if err != nil {
		return c.fail(err)
	}
	return nil
}

// read shows what next decoded.
func (c *column) Read(rows int) (*vector.Vector, error) {
	v, n := &c.out, rows
	v.Rows, v.Valid = rows, c.valid.bitmap()
	if c.maxRep > 0 {
		v.Offsets, v.ElemValid = c.offsets, c.elems.bitmap()
		if c.nested != nil {
			v.Nested = c.nested.show()
		}
		n = v.Element(rows)
	}
	if c.early.Fill != nil && c.maxRep > 0 {
		v.ElemValid = nil
	} else if c.early.Fill != nil {
		v.Valid = nil
	}
	c.values.into(v, n)
	return v, nil
}

// nextFlat decodes rows of a scalar column.
func (c *column) nextFlat(n int) error {
	if err := c.values.reserve(n, n); err != nil {
		return err
	}
	for got := 0; got < n; {
		if c.pageLeft == 0 {
			if err := c.load(); err != nil {
				return err
			}
			continue
		}
		m := min(n-got, c.pageLeft, blockSize)
		c.pageLeft -= m
		present := m
		if c.maxDef > 0 {
			if err := c.block.decode(m); err != nil {
				return err
			}
			present = c.valid.addBlock(c.block.present[:], m)
		} else {
			c.valid.addOnes(m)
		}
		if err := c.values.read(got, present); err != nil {
			return err
		}
		if present < m {
			c.values.spread(c.valid.bits, got, m, present)
		}
		got += m
	}
	return nil
}
