package parquet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
)

// maxRowGroups is far above what files in use have.
const maxRowGroups = 1 << 20

// Read parses a footer: the serialised FileMetaData, without the length and magic bytes that follow it. The
// result does not keep data. Offsets are not checked against the file's size; Load does that.
func Read(data []byte) (*Footer, error) {
	return ReadEncrypted(context.Background(), data, false, noKeys{})
}

// ReadEncrypted does so with keys, for files that are encrypted, with their footer (the magic bytes tell) or without.
// Columns whose keys are missing are Unsupported.
func ReadEncrypted(ctx context.Context, data []byte, footerToo bool, keys Keys) (*Footer, error) {
	p := parser{
		secrets: secrets{ctx: ctx, keys: keys}, take: func(int64) error { return nil }, want: want{all: true},
		end: math.MaxInt64,
	}
	return p.read(data, footerToo)
}

func (p *parser) read(data []byte, footerToo bool) (*Footer, error) {
	if footerToo {
		err := p.take(int64(len(data))) // deciphered
		if err != nil {
			return nil, err
		}
		if data, err = p.secrets.openFooter(data); err != nil {
			return nil, err
		}
	}
	if err := p.file(data); err != nil {
		return nil, err
	}
	f := &Footer{stored: make([]int64, len(p.leaves))}
	if err := p.rowGroups(f); err != nil {
		return nil, err
	}
	if f.Rows != p.rows && p.rows != 0 { // parquet-rs 0.3 wrote 0
		return nil, fmt.Errorf("it counts %d rows, its row groups %d: the file is damaged", p.rows, f.Rows)
	}
	p.finish(f, p.blocked)
	f.locked = p.locked
	f.Size = p.size(f)
	return f, nil
}

// parser holds what is needed while a footer is read.
type parser struct {
	columnBuilder
	take    func(int64) error // asks for memory
	want    want
	end     int64 // of the column chunks, at most
	root    *node
	rows    int64
	loose   bool           // chunks are longer than it says
	groups  *thrift.Reader // at the list of row groups
	orders  []bool         // whether each leaf's order is defined
	arrow   []byte         // the schema that Arrow's writers leave, of the footer's bytes
	secrets secrets
	group   int // number of the row group being read

	blocked   map[int]string // leaves that cannot be read, and why
	locked    map[int]error  // those of them whose keys are missing
	encodings [][]int32      // lists met, which chunks share
	arena     arena
	taken     int64   // memory of the arena that was asked for
	values    []int64 // of each chunk of the row group being read
}

// file reads FileMetaData up to its row groups, which need the schema and the column orders.
func (p *parser) file(data []byte) error {
	var signed *algorithm // of a plaintext footer
	var signer []byte
	r := thrift.NewReader(data)
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 2<<4 | thrift.List:
			var err error
			if p.root, err = readSchema(r, p.take); err != nil {
				return err
			}
		case 3<<4 | thrift.I64:
			p.rows = r.Int64()
		case 4<<4 | thrift.List:
			at := *r
			p.groups = &at
			r.Skip(f)
		case 5<<4 | thrift.List:
			p.readMetadata(r)
		case 6<<4 | thrift.Binary:
			p.loose = leavesHeadersOut(string(r.Bytes()))
		case 7<<4 | thrift.List:
			p.readOrders(r)
		case 8<<4 | thrift.Struct:
			a := readAlgorithm(r)
			signed = &a
		case 9<<4 | thrift.Binary:
			signer = r.Bytes()
		default:
			r.Skip(f)
		}
	}
	switch {
	case r.Err() != nil:
		return r.Err()
	case p.root == nil:
		return errors.New("it has no schema")
	case p.groups == nil:
		return errors.New("it has no list of row groups")
	}
	for _, n := range p.root.children {
		p.visit(n, place{})
	}
	p.markOrders()
	if err := p.markShapes(); err != nil {
		return err
	}
	if signed == nil {
		return nil
	}
	p.secrets.footerKey = signer
	if err := p.secrets.use(*signed); err != nil {
		return err
	}
	return p.secrets.verify(data[:r.Pos()], data[r.Pos():])
}

// readOrders reads the list of ColumnOrder, a union whose members all define an order.
func (p *parser) readOrders(r *thrift.Reader) {
	for range r.ListOf(thrift.Struct) {
		defined := false
		for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
			defined = f>>4 == 1 || f>>4 == 2 // by type, or IEEE 754 total order
			r.Skip(f)
		}
		if len(p.orders) < maxElements { // there are no more leaves
			p.orders = append(p.orders, defined)
		}
	}
}

func (p *parser) rowGroups(f *Footer) error {
	r := p.groups
	n := r.ListOf(thrift.Struct)
	if n > maxRowGroups {
		return fmt.Errorf("%d row groups; at most %d can be read", n, maxRowGroups)
	}
	var kept int
	f.slots, kept = p.want.leaves(&p.columnBuilder, n)
	p.values = make([]int64, len(p.leaves))
	for i := range n {
		p.group = i
		g, err := p.rowGroup(r, f, kept)
		if err != nil {
			return fmt.Errorf("row group %d: %w", i, err)
		}
		g.FirstRow = f.Rows
		if f.Rows += g.Rows; f.Rows < 0 {
			return fmt.Errorf("row group %d: %d rows are too many", i, g.Rows)
		}
		f.RowGroups = append(f.RowGroups, g)
	}
	return r.Err()
}

func (p *parser) rowGroup(r *thrift.Reader, file *Footer, kept int) (RowGroup, error) {
	g, found := RowGroup{Rows: -1}, false
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.List:
			if n := r.ListOf(thrift.Struct); n != len(p.leaves) {
				return g, fmt.Errorf("it has %d column chunks, the schema %d columns", n, len(p.leaves))
			}
			if err := p.take(int64(unsafe.Sizeof(g)) + int64(kept)*int64(unsafe.Sizeof(Chunk{}))); err != nil {
				return g, err
			}
			g.Chunks, found = make([]Chunk, kept), true
			if err := p.chunks(r, file, &g); err != nil {
				return g, err
			}
		case 3<<4 | thrift.I64:
			g.Rows = r.Int64()
		default:
			r.Skip(f)
		}
	}
	switch {
	case r.Err() != nil:
		return g, r.Err()
	case g.Rows < 0:
		return g, errors.New("it does not say how many rows it has")
	case !found:
		return g, errors.New("it has no column chunks")
	}
	for i := range p.leaves {
		if err := p.checkValues(g.Rows, i); err != nil {
			return g, fmt.Errorf("column %s: %w", quoted(p.leaves[i].Path), err)
		}
	}
	return g, nil
}

// chunks reads a row group's column chunks, of which the row group keeps some.
func (p *parser) chunks(r *thrift.Reader, file *Footer, g *RowGroup) error {
	var passed Chunk
	for i := range p.leaves {
		c, slot := &passed, file.slot(i)
		if slot >= 0 {
			c = &g.Chunks[slot]
		} else {
			passed = Chunk{}
		}
		err := p.chunk(r, i, c, slot >= 0)
		if err == nil {
			err = c.checkEnd(p.end)
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", quoted(p.leaves[i].Path), err)
		}
		p.values[i] = c.Values
		file.stored[i] += c.Length
	}
	more := p.arena.total - p.taken
	p.taken += more
	return p.take(more)
}

// quoted names a column in an error: names may be any bytes, and as many.
func quoted(path []string) string { return fmt.Sprintf("%.200q", strings.Join(path, ".")) }

// checkValues holds a chunk's count of values against its row group's rows.
func (p *parser) checkValues(rows int64, leaf int) error {
	values := p.values[leaf]
	switch {
	case p.blocked[leaf] != "":
		return nil
	case values < rows || p.leaves[leaf].MaxRep == 0 && values != rows:
		return fmt.Errorf("%d values for %d rows: the file is damaged", values, rows)
	}
	return nil
}

// chunk reads a ColumnChunk, and of one that is not kept no more than where it is, and whether that can be.
func (p *parser) chunk(r *thrift.Reader, leaf int, c *Chunk, kept bool) error {
	found, reason := false, ""
	var crypto columnCrypto
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.Binary:
			if path := r.Bytes(); len(path) > 0 {
				reason = "a column whose values lie in another file"
			}
		case 3<<4 | thrift.Struct:
			found = true
			if err := p.metadata(r, leaf, c, kept); err != nil {
				return err
			}
		case 4<<4 | thrift.I64:
			c.offsetIndex = r.Int64()
		case 5<<4 | thrift.I32:
			c.offsetIndexLength = r.Int32()
		case 6<<4 | thrift.I64:
			c.columnIndex = r.Int64()
		case 7<<4 | thrift.I32:
			c.columnIndexLength = r.Int32()
		case 8<<4 | thrift.Struct:
			p.readCrypto(r, &crypto)
		case 9<<4 | thrift.Binary:
			crypto.metadata = r.Bytes()
		default:
			r.Skip(f)
		}
	}
	switch {
	case r.Err() != nil:
		return r.Err()
	case reason != "":
		p.block(leaf, reason)
		*c = Chunk{Stats: Stats{Nulls: -1}}
	case crypto.encrypted:
		return p.decrypt(leaf, c, crypto, found, kept)
	case !found:
		return errors.New("its column chunk has no metadata")
	}
	return nil
}

func (p *parser) block(leaf int, reason string) {
	if p.blocked == nil {
		p.blocked = make(map[int]string)
	}
	p.blocked[leaf] = reason
}

// metadata reads a ColumnMetaData.
func (p *parser) metadata(r *thrift.Reader, leaf int, c *Chunk, kept bool) error {
	l := &p.leaves[leaf]
	stats := unknownStats()
	var room [8]int64 // for definition levels
	var dictionary int64
	c.Values, c.Length, c.Offset, c.Codec = -1, -1, -1, -1
	physical := noPhysical
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		if !kept && p.isDetail(f) {
			r.Skip(f)
			continue
		}
		switch f {
		case 1<<4 | thrift.I32:
			physical = Physical(r.Int32())
		case 2<<4 | thrift.List:
			c.Encodings = p.readEncodings(r)
		case 3<<4 | thrift.List:
			if !pathIs(r, l.Path) {
				return errors.New("the column chunk in its place belongs to another column")
			}
		case 4<<4 | thrift.I32:
			c.Codec = r.Int32()
		case 5<<4 | thrift.I64:
			c.Values = r.Int64()
		case 6<<4 | thrift.I64:
			c.Uncompressed = r.Int64()
		case 7<<4 | thrift.I64:
			c.Length = r.Int64()
		case 9<<4 | thrift.I64:
			c.Offset = r.Int64()
		case 11<<4 | thrift.I64:
			dictionary = r.Int64()
		case 12<<4 | thrift.Struct:
			stats.read(r)
		case 16<<4 | thrift.Struct:
			c.Plain, stats.levels = readSizes(r, room[:0])
		default:
			r.Skip(f)
		}
	}
	if dictionary > 0 && dictionary < c.Offset {
		c.Offset = dictionary
	}
	switch {
	case r.Err() != nil:
		return r.Err()
	case physical != l.Physical:
		return fmt.Errorf("its column chunk is of physical type %d, the schema's is %d", physical, l.Physical)
	case c.Values < 0 || c.Codec < 0 || c.Uncompressed < 0 || c.Length < 0:
		return errors.New("its column chunk lacks its length, codec or number of values")
	case c.Values == 0: // nothing to read; some writers give such chunks an offset of 0 all the same
		c.Offset, c.Length, c.Uncompressed = 0, 0, 0
	case c.Length == 0:
		return fmt.Errorf("its column chunk has no bytes for %d values: the file is damaged", c.Values)
	case c.Offset < 4 || c.Offset > math.MaxInt64-c.Length:
		return fmt.Errorf("its column chunk lies at offset %d, length %d: the file is damaged", c.Offset, c.Length)
	}
	// Of chunks without a dictionary the length is right; of some the encodings are not told.
	c.Loose = p.loose && c.Values > 0 && (dictionary > 0 || len(c.Encodings) == 0 || c.indexed())
	if c.Loose {
		c.Length += min(maxDictionaryHeader, max(0, p.end-c.Offset-c.Length))
	}
	if kept {
		c.Stats = p.stats(leaf, c.Values, stats)
	}
	return nil
}

// isDetail reports whether a field of ColumnMetaData is of no use where a chunk is not kept: it is not about where that
// lies, or whether that can be.
func (p *parser) isDetail(f thrift.Field) bool {
	return f == 2<<4|thrift.List && !p.loose || f == 12<<4|thrift.Struct || f == 16<<4|thrift.Struct
}

// readSizes reads of SizeStatistics what byte arrays take without an encoding, and how many values have each definition
// level, which it appends.
func readSizes(r *thrift.Reader, levels []int64) (int64, []int64) {
	var plain int64
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.I64:
			plain = max(0, r.Int64())
		case 3<<4 | thrift.List:
			for range r.ListOf(thrift.I64) {
				levels = append(levels, r.Int64())
			}
		default:
			r.Skip(f)
		}
	}
	return plain, levels
}

// pathIs reads a path and reports whether it is want.
func pathIs(r *thrift.Reader, want []string) bool {
	n := r.ListOf(thrift.Binary)
	same := n == len(want)
	for i := range n {
		name := r.Bytes()
		same = same && string(name) == want[i]
	}
	return same || r.Err() != nil
}

// readEncodings reads a list of encodings; lists of equal contents are one.
func (p *parser) readEncodings(r *thrift.Reader) []int32 {
	var room [16]int32
	list := room[:0]
	for range r.ListOf(thrift.I32) {
		if e := r.Int32(); len(list) < len(room) {
			list = append(list, e)
		}
	}
	for _, known := range p.encodings {
		if slices.Equal(known, list) {
			return known
		}
	}
	list = slices.Clone(list)
	if len(p.encodings) < 64 {
		p.encodings = append(p.encodings, list)
	}
	return list
}
