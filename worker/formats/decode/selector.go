package decode

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Selector finds the entries of chosen keys in a map column. A key that a row has more than once counts as the
// last of them, as a map's builder would have it.
type Selector struct {
	mem     *Allowance
	keys    Reader
	kind    pb.Kind
	offsets []int32 // of the window's maps: which entries are whose
	places  []*place
	byInt   map[int64]*place
	byText  map[string]*place
	least   int64   // of the keys that are integers
	dense   []int32 // of these, by how much more than the least they are: which place, from 1; or 0
	spread  bool    // they lie too far apart for that
}

// maxDense is how many keys lie between those of a table that is looked at instead of a hash table.
const maxDense = 1 << 16

// place is where a key is.
type place struct {
	number int     // of the places
	at     []int32 // for each row the entry, or -1
}

// Entries are the values of a Selector's map, or of maps that are its values the keys or the values.
type Entries struct {
	selector *Selector
	values   Reader
	picks    map[*place]*Pick
	all      vector.Vector // the window's, an entry a row
}

// Pick is the Reader of one key's values: null where a row lacks the key or its value is null.
type Pick struct {
	entries *Entries
	place   *place
	valid   []uint64
	lists   gatherer
	out     vector.Vector
}

// NewSelector returns a selector of a map whose keys are lists of such a kind.
func NewSelector(keys Reader, kind pb.Kind, mem *Allowance) *Selector {
	return &Selector{mem: mem, keys: keys, kind: kind, byInt: map[int64]*place{}, byText: map[string]*place{}}
}

// Entries returns what is read of the entries that the selector finds: values has a list of as many for each row.
func (s *Selector) Entries(values Reader) *Entries {
	return &Entries{selector: s, values: values, picks: map[*place]*Pick{}}
}

// Pick returns the reader of a key, whose values are of a type. It reads what Find found, and Load loaded.
func (e *Entries) Pick(key string, typ *pb.Type) (*Pick, error) {
	at, err := e.selector.place(key)
	if err != nil || e.picks[at] != nil {
		return e.picks[at], err
	}
	p := &Pick{entries: e, place: at}
	p.out.Type.Kind, p.out.Type.List, p.out.Type.Nested = typ.GetKind(), typ.GetList(), typ.GetNested()
	p.out.Nested = make([]vector.Level, typ.GetNested())
	e.picks[at] = p
	return p, nil
}

func (s *Selector) place(key string) (*place, error) {
	if s.kind == pb.Kind_BINARY {
		if s.byText[key] == nil {
			s.byText[key] = s.newPlace()
		}
		return s.byText[key], nil
	}
	k, err := spec.IntKey(key)
	if err != nil {
		return nil, fmt.Errorf("key %q of a map whose keys are integers: %w", key, err)
	}
	if s.byInt[k] == nil {
		s.byInt[k] = s.newPlace()
	}
	return s.byInt[k], nil
}

// index makes the table of the keys that are integers, if they lie close enough. All keys are known by then.
func (s *Selector) index() (err error) {
	if len(s.dense) > 0 || s.spread || len(s.byInt) == 0 {
		return nil
	}
	keys := slices.Collect(maps.Keys(s.byInt))
	s.least = slices.Min(keys)
	span := uint64(slices.Max(keys) - s.least)
	if s.spread = span >= maxDense; s.spread {
		return nil
	}
	if s.dense, err = Grow(s.mem, s.dense, int(span)+1); err != nil {
		return err
	}
	s.dense = s.dense[:span+1]
	for k, p := range s.byInt {
		s.dense[k-s.least] = int32(p.number) + 1
	}
	return nil
}

func (s *Selector) newPlace() *place {
	p := &place{number: len(s.places)}
	s.places = append(s.places, p)
	return p
}

// Of is what the reader is of.
func (p *Pick) Of() *Entries { return p.entries }

// Of is the selector whose entries these are.
func (e *Entries) Of() *Selector { return e.selector }

// Find looks up the keys in rows that are decoded.
func (s *Selector) Find(rows int) error {
	keys, err := s.keys.Read(rows)
	if err != nil {
		return err
	}
	if err := s.index(); err != nil {
		return err
	}
	s.offsets = keys.Offsets[:rows+1]
	for _, p := range s.places {
		if p.at, err = Grow(s.mem, p.at, rows); err != nil {
			return err
		}
		p.at = p.at[:rows]
		for i := range p.at {
			p.at[i] = -1
		}
	}
	switch keys.Type.Kind {
	case pb.Kind_INT32:
		findInts(s, keys, keys.I32)
	case pb.Kind_INT64:
		findInts(s, keys, keys.I64)
	default:
		s.findTexts(keys)
	}
	return nil
}

func findInts[T int32 | int64](s *Selector, keys *vector.Vector, values []T) {
	dense, least := s.dense, s.least
	for row := range keys.Rows {
		first := keys.Offsets[row]
		for j, key := range values[first:keys.Offsets[row+1]] {
			var p *place
			if s.spread {
				p = s.byInt[int64(key)]
			} else if at := uint64(int64(key) - least); at < uint64(len(dense)) && dense[at] > 0 {
				p = s.places[dense[at]-1]
			}
			if p != nil && !keys.ElemIsNull(int(first)+j) {
				p.at[row] = first + int32(j)
			}
		}
	}
}

func (s *Selector) findTexts(keys *vector.Vector) {
	for row := range keys.Rows {
		for j := keys.Offsets[row]; j < keys.Offsets[row+1]; j++ {
			p := s.byText[string(keys.Data[keys.Ends[j]:keys.Ends[j+1]])]
			if p != nil && !keys.ElemIsNull(int(j)) {
				p.at[row] = j
			}
		}
	}
}

// Load has the picks read what is decoded of rows in which Find looked.
func (e *Entries) Load(rows int) error {
	values, err := e.values.Read(rows)
	if err != nil {
		return err
	}
	if !slices.Equal(e.selector.offsets, values.Offsets[:rows+1]) {
		return errors.New("the map's keys and values differ in number")
	}
	e.all = *values
	e.all.Rows, e.all.Valid, e.all.Offsets = int(values.Offsets[rows]), values.ElemValid, nil
	if e.all.Type.List = len(values.Nested) > 0; e.all.Type.List {
		inner := values.Nested[0]
		e.all.Type.Nested--
		e.all.Valid, e.all.Offsets, e.all.Nested = inner.Valid, inner.Offsets, values.Nested[1:]
	}
	return nil
}

// Read takes the entries that Find found.
func (p *Pick) Read(rows int) (*vector.Vector, error) {
	from, v, at := &p.entries.all, &p.out, p.place.at[:rows]
	p.valid = vector.Grow(p.valid, vector.Words(rows))
	clear(p.valid)
	v.Rows, v.Valid = rows, nil
	for i, j := range at {
		if j < 0 || from.IsNull(int(j)) {
			v.Valid = p.valid
		} else {
			p.valid[i>>6] |= 1 << (i & 63)
		}
	}
	if v.Type.List {
		return v, p.lists.gather(p.entries.selector.mem, v, from, at)
	}
	return v, Gather(p.entries.selector.mem, v, from, at)
}
