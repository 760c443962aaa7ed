package decode

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Selector finds the entries of chosen keys in a map column. A key that a row has more than once counts as the
// last of them, as a map's builder would have it.
type Selector struct {
	mem          *Allowance
	keys, values Reader
	kind         [2]pb.Kind     // of the keys, and of the values
	entries      *vector.Vector // the values
	picks        []*Pick
	byInt        map[int64]*Pick
	byText       map[string]*Pick
}

// Pick is the Reader of one key's values: null where a row lacks the key or its value is null.
type Pick struct {
	selector *Selector
	at       []int32 // for each row, the entry of the key, or -1
	valid    []uint64
	out      vector.Vector
}

// NewSelector returns a selector of a map whose keys and values are lists of such kinds.
func NewSelector(keys, values Reader, key, value pb.Kind, mem *Allowance) *Selector {
	return &Selector{
		mem: mem, keys: keys, values: values, kind: [2]pb.Kind{key, value}, byInt: map[int64]*Pick{},
		byText: map[string]*Pick{},
	}
}

// Pick returns the reader of a key, which reads what Find found.
func (s *Selector) Pick(key string) (*Pick, error) {
	p := &Pick{selector: s}
	p.out.Type.Kind = s.kind[1]
	if s.kind[0] == pb.Kind_BINARY {
		if same := s.byText[key]; same != nil {
			return same, nil
		}
		s.byText[key] = p
	} else {
		k, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("key %q of a map whose keys are integers: %w", key, err)
		}
		if same := s.byInt[k]; same != nil {
			return same, nil
		}
		s.byInt[k] = p
	}
	s.picks = append(s.picks, p)
	return p, nil
}

// Of is the selector that the reader is of.
func (p *Pick) Of() *Selector { return p.selector }

// Find looks up the keys in rows that are decoded.
func (s *Selector) Find(rows int) error {
	keys, err := s.keys.Read(rows)
	if err != nil {
		return err
	}
	if s.entries, err = s.values.Read(rows); err != nil {
		return err
	}
	if !slices.Equal(keys.Offsets[:rows+1], s.entries.Offsets[:rows+1]) {
		return errors.New("the map's keys and values differ in number")
	}
	for _, p := range s.picks {
		if p.at, err = Grow(s.mem, p.at, rows); err != nil {
			return err
		}
		p.at = p.at[:rows]
		for i := range p.at {
			p.at[i] = -1
		}
	}
	for row := range rows {
		for j := keys.Offsets[row]; j < keys.Offsets[row+1]; j++ {
			if keys.ElemIsNull(int(j)) {
				continue
			}
			if p := s.wanted(keys, j); p != nil {
				p.at[row] = j
			}
		}
	}
	return nil
}

func (s *Selector) wanted(keys *vector.Vector, j int32) *Pick {
	switch keys.Type.Kind {
	case pb.Kind_INT32:
		return s.byInt[int64(keys.I32[j])]
	case pb.Kind_INT64:
		return s.byInt[keys.I64[j]]
	}
	return s.byText[string(keys.Data[keys.Ends[j]:keys.Ends[j+1]])]
}

// Read takes the entries that Find found.
func (p *Pick) Read(rows int) (*vector.Vector, error) {
	from, v := p.selector.entries, &p.out
	p.valid = vector.Grow(p.valid, vector.Words(rows))
	clear(p.valid)
	v.Rows, v.Valid = rows, nil
	for i, j := range p.at[:rows] {
		if j < 0 || from.ElemIsNull(int(j)) {
			v.Valid = p.valid
		} else {
			p.valid[i>>6] |= 1 << (i & 63)
		}
	}
	return v, Gather(p.selector.mem, v, from, p.at)
}
