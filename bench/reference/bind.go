package reference

import (
	"fmt"
	"strconv"

	"github.com/penstock-ml/penstock/api/pb"
)

// filler sets a cell to the present row of a scan.
type filler func(c *cell) error

// bind returns how to read a column. key selects a key of a map column.
func (s *scan) bind(col column, key string) (filler, error) {
	switch {
	case col.isMap:
		same, err := keyEquals(col.leaves[0], key)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", col.name, err)
		}
		keys, values := s.reader(col.leaves[0]), s.reader(col.leaves[1])
		if col.typ.List {
			return listAtKey(keys, values, same), nil
		}
		return atKey(keys, values, same), nil
	case col.typ.Nested > 0:
		return lists(s.reader(col.leaves[0])), nil
	case col.typ.List:
		return elements(s.reader(col.leaves[0])), nil
	}
	return scalar(s.reader(col.leaves[0])), nil
}

func scalar(r *leafReader) filler {
	return func(c *cell) error {
		r.set(c, &r.row()[0])
		return nil
	}
}

// set makes the cell an entry's value, which may be null.
func (r *leafReader) set(c *cell, e *entry) {
	c.clear()
	if c.null = int(e.def) < r.leaf.valueDef; !c.null {
		r.leaf.add(c, e)
	}
}

// elements reads rows of a list; null elements have a place, whose value does not matter.
func elements(r *leafReader) filler {
	return func(c *cell) error {
		c.clear()
		row := r.row()
		if c.null = int(row[0].def) < r.leaf.rowDef; c.null {
			return nil
		}
		for i := range row {
			def := int(row[i].def)
			if def < r.leaf.elementDef {
				return nil // the entry says that the list is empty
			}
			null := def < r.leaf.valueDef
			if c.gone = append(c.gone, null); null {
				c.appendZero(r.leaf.kind)
			} else {
				r.leaf.add(c, &row[i])
			}
		}
		return nil
	}
}

// lists reads rows of a list of lists. An entry's repetition level says which of the open lists it goes on with, from
// 1; all below that one begin with it.
func lists(r *leafReader) filler {
	l := r.leaf
	levels := append([]inner{{l.rowDef, l.elementDef}}, l.inner...)
	return func(c *cell) error {
		c.clear()
		for len(c.inner) < len(l.inner) {
			c.inner = append(c.inner, nil)
		}
		row := r.row()
		c.null = int(row[0].def) < l.rowDef
		for i := range row {
			rep := int(row[i].rep)
			if rep > len(levels) || rep > 0 && (int(row[i].def) < levels[rep-1].elementDef || !isOpen(c, rep)) {
				return fmt.Errorf("repetition level %d where no list is open", rep)
			}
			r.place(c, &row[i], levels, max(rep, 1)-1)
		}
		return nil
	}
}

// isOpen reports whether the row's list and the last ones below it, so many levels in all, have elements.
func isOpen(c *cell, levels int) bool {
	for _, lists := range c.inner[:levels-1] {
		if len(lists) == 0 || lists[len(lists)-1] < 1 {
			return false
		}
	}
	return len(c.inner[0]) > 0
}

// place adds what an entry says of the lists from level at on: another element of that one, and of what begins with it.
func (r *leafReader) place(c *cell, e *entry, levels []inner, at int) {
	for ; at < len(levels); at++ {
		if at > 0 && int(e.def) < levels[at].listDef {
			c.inner[at-1][len(c.inner[at-1])-1] = -1
			return
		}
		if int(e.def) < levels[at].elementDef {
			return // the list is empty
		}
		if at > 0 {
			c.inner[at-1][len(c.inner[at-1])-1]++
		}
		if at+1 < len(levels) {
			c.inner[at] = append(c.inner[at], 0)
		}
	}
	null := int(e.def) < r.leaf.valueDef
	if c.gone = append(c.gone, null); null {
		c.appendZero(r.leaf.kind)
	} else {
		r.leaf.add(c, e)
	}
}

// atKey reads the value at one key of a map: of the last entry that bears it.
func atKey(keys, values *leafReader, same func(e *entry) bool) filler {
	return func(c *cell) error {
		c.clear()
		k, v := keys.row(), values.row()
		if len(k) != len(v) {
			return fmt.Errorf("a map of %d keys and %d values", len(k), len(v))
		}
		for i := len(k) - 1; i >= 0; i-- {
			if int(k[i].def) >= keys.leaf.valueDef && same(&k[i]) {
				values.set(c, &v[i])
				return nil
			}
		}
		return nil
	}
}

// listAtKey does so where values are lists: of all of a row's, it keeps the one that the last entry has.
func listAtKey(keys, values *leafReader, same func(e *entry) bool) filler {
	var all cell
	fill := lists(values)
	return func(c *cell) error {
		c.clear()
		if err := fill(&all); err != nil {
			return err
		}
		k := keys.row()
		if n := len(all.inner[0]); n != len(k) && (n != 0 || int(k[0].def) >= keys.leaf.elementDef) {
			return fmt.Errorf("a map of %d keys and %d values", len(k), n)
		}
		for i := len(k) - 1; i >= 0; i-- {
			if int(k[i].def) >= keys.leaf.valueDef && same(&k[i]) {
				c.takeList(&all, i)
				return nil
			}
		}
		return nil
	}
}

func keyEquals(l leaf, key string) (func(e *entry) bool, error) {
	if l.kind == pb.Kind_BINARY {
		return func(e *entry) bool { return string(e.in.text(e.at)) == key }, nil
	}
	want, err := strconv.ParseInt(key, 10, 64)
	if bits, e := strconv.ParseUint(key, 10, 64); e == nil { // of a uint64
		want, err = int64(bits), nil
	}
	if err != nil {
		return nil, fmt.Errorf("key %q of a map with %v keys", key, l.kind)
	}
	var c cell
	return func(e *entry) bool {
		c.clear()
		l.add(&c, e)
		return c.ints[0] == want
	}, nil
}
