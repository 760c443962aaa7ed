package convert

import (
	"encoding/binary"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// mapPair is a map of which keys are columns of a side, or of both.
type mapPair struct {
	name     string
	ints     bool     // keys are integers
	unsigned bool     // they are uint64
	maps     [2]*view // the map on each side; nil: a side has nothing but columns
	features []*feature
}

// feature is what specs select of a key.
type feature struct {
	field string // of values that are maps: key or value, else empty
	child int    // of these, which of the two
	typ   arrow.DataType
	flats [2][]flat // the keys that are columns, by side
}

// flat is a key that is a column.
type flat struct {
	key  mapKey
	view view
}

// mapKey is a key of a map.
type mapKey struct {
	text   string
	number int64
	none   bool // it is null
}

func (m *mapPair) has(side int) bool {
	for _, f := range m.features {
		if len(f.flats[side]) > 0 {
			return true
		}
	}
	return m.maps[side] != nil
}

func (m *mapPair) label(k mapKey, f *feature) string {
	name := m.name + "." + k.text
	if m.ints {
		name = m.name + "." + intText(k.number, m.unsigned)
	}
	if k.none {
		name = m.name + "'s null key"
	}
	if f.field != "" {
		name += "." + f.field
	}
	return name
}

// held is a value of a key in a row: an entry of the map, or of a column.
type held struct {
	row, key int32
	from     arrow.Array
	at       int
	entry    bool // from are the map's values
}

// rows compares the next n rows: first which maps are null, then key by key.
func (m *mapPair) rows(a, b *side, n int, differ func(row int64, name, inA, inB string)) {
	if m.maps[0] != nil && m.maps[1] != nil {
		for row := range int64(n) {
			x, y := m.maps[0].at(a, row), m.maps[1].at(b, row)
			if (x.values == nil) != (y.values == nil) {
				differ(row, m.name, x.String(), y.String())
			}
		}
	}
	for _, f := range m.features {
		c := keyComparison{mapPair: m, feature: f, numbers: map[mapKey]int32{}}
		inA, inB := byRow(c.of(0, a, n), n), byRow(c.of(1, b, n), n)
		c.seen[0], c.seen[1] = make([]*held, len(c.keys)), make([]*held, len(c.keys))
		for row := range n {
			c.row(inA[row], inB[row], differ)
		}
	}
}

// keyComparison compares a feature of the keys of a map.
type keyComparison struct {
	*mapPair
	*feature
	numbers map[mapKey]int32
	keys    []mapKey
	seen    [2][]*held // by key, of a row
}

func (c *keyComparison) number(k mapKey) int32 {
	n, ok := c.numbers[k]
	if !ok {
		n = int32(len(c.keys))
		c.numbers[k] = n
		c.keys = append(c.keys, k)
	}
	return n
}

// of are the values of a side: those of the map, then those of columns, which count if a row has both.
func (c *keyComparison) of(side int, s *side, n int) (all []held) {
	if v := c.maps[side]; v != nil {
		for row := range n {
			if p := v.at(s, int64(row)); p.values != nil {
				all = c.entries(all, int32(row), p.values.(array.ListLike), p.i)
			}
		}
	}
	for _, f := range c.flats[side] {
		key := c.number(f.key)
		column := s.rec.Column(f.view.column)
		if column.NullN() == column.Len() {
			continue
		}
		for row := 0; row < n; row++ {
			if row = afterNulls(column, int(s.used)+row) - int(s.used); row >= n {
				break
			}
			if p := f.view.at(s, int64(row)); p.values != nil {
				all = append(all, held{int32(row), key, p.values, p.i, false})
			}
		}
	}
	return all
}

// afterNulls is the next value that is not null, or not plainly so: few rows have most of the keys.
func afterNulls(a arrow.Array, i int) int {
	bits, offset := a.NullBitmapBytes(), a.Data().Offset()
	for i < a.Len() && len(bits) > 0 {
		switch at := offset + i; {
		case at%8 == 0 && bits[at/8] == 0:
			i += 8
		case bits[at/8]>>(at%8)&1 == 0:
			i++
		default:
			return i
		}
	}
	return i
}

func (c *keyComparison) entries(all []held, row int32, maps array.ListLike, i int) []held {
	entries := maps.ListValues().(*array.Struct)
	keys, values := entries.Field(0), entries.Field(1)
	from, to := maps.ValueOffsets(i)
	for j := int(from); j < int(to); j++ {
		k := mapKey{none: keys.IsNull(j)}
		switch {
		case k.none:
		case c.ints:
			k.number = integer64(keys, j)
		default:
			k.text = string(bytesOf(keys, j))
		}
		all = append(all, held{row, c.number(k), values, j, true})
	}
	return all
}

// byRow sorts values by row, and keeps their order else.
func byRow(all []held, n int) [][]held {
	counts := make([]int, n+1)
	for i := range all {
		counts[all[i].row+1]++
	}
	for row := range n {
		counts[row+1] += counts[row]
	}
	sorted, ends := make([]held, len(all)), append([]int(nil), counts...)
	for _, h := range all {
		sorted[ends[h.row]] = h
		ends[h.row]++
	}
	rows := make([][]held, n)
	for row := range n {
		rows[row] = sorted[counts[row]:ends[row]]
	}
	return rows
}

// row compares a row, of which the last value of a key counts.
func (c *keyComparison) row(inA, inB []held, differ func(row int64, name, inA, inB string)) {
	for i := range inA {
		c.seen[0][inA[i].key] = &inA[i]
	}
	for i := range inB {
		c.seen[1][inB[i].key] = &inB[i]
	}
	for _, of := range [][]held{inA, inB} {
		for i := range of {
			k := of[i].key
			x, y := c.seen[0][k], c.seen[1][k]
			if (x != nil || y != nil) && !c.equal(x, y) {
				differ(int64(of[i].row), c.label(c.keys[k], c.feature), c.text(x), c.text(y))
			}
			c.seen[0][k], c.seen[1][k] = nil, nil
		}
	}
}

// equal compares two values, where none is the same as null.
func (c *keyComparison) equal(x, y *held) bool {
	noX, noY := x == nil || isNone(x.from, x.at), y == nil || isNone(y.from, y.at)
	if noX || noY {
		return noX && noY
	}
	if c.field == "" {
		return equal(x.from, x.at, y.from, y.at)
	}
	inX, fromX, toX := c.list(x)
	inY, fromY, toY := c.list(y)
	if toX-fromX != toY-fromY {
		return false
	}
	for k := range toX - fromX {
		if !equal(inX, fromX+k, inY, fromY+k) {
			return false
		}
	}
	return true
}

// list are the elements of a value that is a list: of an entry, the keys or the values of a map.
func (c *keyComparison) list(h *held) (values arrow.Array, from, to int) {
	lists := h.from.(array.ListLike)
	lo, hi := lists.ValueOffsets(h.at)
	values = lists.ListValues()
	if h.entry {
		values = values.(*array.Struct).Field(c.child)
	}
	return values, int(lo), int(hi)
}

func (c *keyComparison) text(h *held) string {
	if h == nil {
		return "(null)"
	}
	return h.from.ValueStr(h.at)
}

// integer64 is a key that is an integer, or a date or a time.
func integer64(keys arrow.Array, i int) int64 {
	switch keys := keys.(type) {
	case *array.Int8:
		return int64(keys.Value(i))
	case *array.Int16:
		return int64(keys.Value(i))
	case *array.Uint8:
		return int64(keys.Value(i))
	case *array.Uint16:
		return int64(keys.Value(i))
	case *array.Uint32:
		return int64(keys.Value(i))
	}
	raw := fixed(keys, widthOf(keys.DataType()), i, 1)
	if len(raw) == 4 {
		return int64(int32(binary.LittleEndian.Uint32(raw)))
	}
	return int64(binary.LittleEndian.Uint64(raw))
}
