package convert

import (
	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/spec"
)

// flatMap is a map column of which keys become columns. Its entries stay in the records of a row group, in which they
// are found by key: no more than one of the many columns is made at a time.
type flatMap struct {
	spot
	columns []spec.Column // as which a key is selected: one, or the keys and the values of maps
	keys    *keyTable     // that become columns
	names   [][]string    // by key, those of its columns
	rest    int64         // keys that stay in the map

	// Of the row group:
	parts []mapPart
	rows  int
	// entries are those of the keys, one key after another, of each in the order of rows: key k has first[k]..end[k].
	first, end []int
	entries    []mapEntry
	scratch    spans
}

// mapPart is a record's part of a map column.
type mapPart struct {
	maps  array.ListLike
	sides []arrow.Array // of its entries, what columns are made of
	row   int           // of the group, where it begins
	from  int           // its first entry
	keys  []int32       // of each entry from there on; -1: none that becomes a column
}

type mapEntry struct{ row, at int32 }

// begin finds the entries of a row group by their keys.
func (m *flatMap) begin(group []arrow.Record) error {
	m.parts, m.rows = m.parts[:0], 0
	counts := make([]int, m.keys.len()+1)
	for _, rec := range group {
		if err := m.addPart(rec, counts); err != nil {
			return err
		}
	}
	if len(group) == 0 {
		m.parts, m.entries, m.first, m.end = nil, nil, nil, nil
		return nil
	}
	total := 0
	m.first = make([]int, m.keys.len())
	for k := range m.first {
		m.first[k] = total
		total += counts[k]
	}
	m.end = append([]int(nil), m.first...)
	m.entries = make([]mapEntry, total)
	for i := range m.parts {
		m.place(&m.parts[i])
	}
	return nil
}

// addPart looks up the keys of a record, and counts them.
func (m *flatMap) addPart(rec arrow.Record, counts []int) error {
	values, err := m.of(rec)
	if err != nil {
		return err
	}
	maps := values.(array.ListLike)
	p := mapPart{maps: maps, row: m.rows}
	entries := maps.ListValues().(*array.Struct)
	if n := maps.Len(); n > 0 {
		from, _ := maps.ValueOffsets(0)
		_, to := maps.ValueOffsets(n - 1)
		p.from = int(from)
		p.keys = make([]int32, to-from)
		m.keys.find(entries.Field(0), p.from, p.keys)
	}
	for _, k := range p.keys {
		if k >= 0 {
			counts[k]++
		}
	}
	p.sides = sidesOf(entries.Field(1), m.columns)
	m.parts = append(m.parts, p)
	m.rows += maps.Len()
	return nil
}

// sidesOf are a map's values, or where these are maps their keys and their values.
func sidesOf(values arrow.Array, columns []spec.Column) (sides []arrow.Array) {
	for _, c := range columns {
		if len(c.Field) == 0 {
			return []arrow.Array{values}
		}
		inner := values.(array.ListLike)
		at := map[string]int{"key": 0, "value": 1}[c.Field[0]]
		sides = append(sides, listOver(inner, inner.ListValues().(*array.Struct).Field(at)))
	}
	return sides
}

// place adds the entries of a record to those of their keys. The last one of a row counts.
func (m *flatMap) place(p *mapPart) {
	for i := range p.maps.Len() {
		if p.maps.IsNull(i) {
			continue
		}
		row := int32(p.row + i)
		from, to := p.maps.ValueOffsets(i)
		for j, k := range p.keys[int(from)-p.from : int(to)-p.from] {
			if k < 0 {
				continue
			}
			at := m.end[k]
			if at > m.first[k] && m.entries[at-1].row == row {
				at--
			}
			m.entries[at] = mapEntry{row, int32(int(from) + j)}
			m.end[k] = at + 1
		}
	}
}

// side is the type of a key's column.
func (m *flatMap) side(i int) arrow.DataType {
	item := m.typ.(*arrow.MapType).ItemType()
	if len(m.columns[i].Field) == 0 {
		return written(item)
	}
	if m.columns[i].Field[0] == "key" {
		return arrow.ListOf(written(item.(*arrow.MapType).KeyType()))
	}
	return arrow.ListOf(written(item.(*arrow.MapType).ItemType()))
}

// values makes the column of a key, or a side of it.
func (m *flatMap) values(key, side int) ([]arrow.Array, error) {
	if len(m.parts) == 0 {
		return nil, nil
	}
	from := make([]arrow.Array, len(m.parts))
	for i := range m.parts {
		from[i] = m.parts[i].sides[side]
	}
	of := m.scratch[:0]
	row, part := 0, 0
	for _, e := range m.entries[m.first[key]:m.end[key]] {
		for part+1 < len(m.parts) && m.parts[part+1].row <= int(e.row) {
			part++
		}
		of.nulls(int(e.row) - row)
		of.take(part, int(e.at), int(e.at)+1)
		row = int(e.row) + 1
	}
	of.nulls(m.rows - row)
	m.scratch = of
	d, err := gather(m.side(side), from, of)
	if err != nil {
		return nil, err
	}
	return []arrow.Array{array.MakeFromData(d)}, nil
}

// left are the maps of a record without the entries that are in columns.
func (m *flatMap) left(part int) (arrow.Array, error) {
	p := &m.parts[part]
	n := p.maps.Len()
	offsets := make([]int32, n+1)
	var of spans
	for i := range n {
		offsets[i+1] = offsets[i]
		if p.maps.IsNull(i) {
			continue
		}
		from, to := p.maps.ValueOffsets(i)
		for j, k := range p.keys[int(from)-p.from : int(to)-p.from] {
			if k < 0 {
				of.take(0, int(from)+j, int(from)+j+1)
				offsets[i+1]++
			}
		}
	}
	t := m.written().(*arrow.MapType)
	entries, err := gather(t.Elem(), []arrow.Array{p.maps.ListValues()}, of)
	if err != nil {
		return nil, err
	}
	var all spans
	all.take(0, 0, n)
	valid, nulls := gatherValid([]arrow.Array{p.maps}, all, n)
	buffers := []*memory.Buffer{valid, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}
	return array.MakeFromData(array.NewData(t, n, buffers, []arrow.ArrayData{entries}, nulls, 0)), nil
}
