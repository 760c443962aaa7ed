package columns

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// selector finds the entries of chosen keys in a map column. A key that a row has more than once counts as the
// last of them, as a map's builder would have it.
type selector struct {
	mem          *allowance
	keys, values *column
	waits        bool           // it is for Rest
	entries      *vector.Vector // the values
	picks        []*pick
	byInt        map[int64]*pick
	byText       map[string]*pick
}

// pick is the reader of one key's values: null where a row lacks the key or its value is null.
type pick struct {
	selector *selector
	at       []int32 // for each row, the entry of the key, or -1
	valid    validity
	out      vector.Vector
}

func newSelector(keys, values *column, mem *allowance) *selector {
	return &selector{mem: mem, keys: keys, values: values, byInt: map[int64]*pick{}, byText: map[string]*pick{}}
}

// pick returns the reader of a key.
func (s *selector) pick(key string) (reader, error) {
	p := &pick{selector: s}
	p.out.Type.Kind = s.values.kind
	if s.keys.kind == pb.Kind_BINARY {
		if same := s.byText[key]; same != nil {
			return same, nil
		}
		s.byText[key] = p
	} else {
		k, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("key %q of column %s, whose keys are integers: %w", key, s.keys.name, err)
		}
		if same := s.byInt[k]; same != nil {
			return same, nil
		}
		s.byInt[k] = p
	}
	s.picks = append(s.picks, p)
	return p, nil
}

// find looks up the keys in rows that the columns have decoded.
func (s *selector) find(rows int) error {
	keys, err := s.keys.read(rows)
	if err != nil {
		return err
	}
	if s.entries, err = s.values.read(rows); err != nil {
		return err
	}
	if !slices.Equal(keys.Offsets[:rows+1], s.entries.Offsets[:rows+1]) {
		return s.keys.fail(errors.New("the map's keys and values differ in number"))
	}
	for _, p := range s.picks {
		if p.at, err = grow(s.mem, p.at, rows); err != nil {
			return s.keys.fail(err)
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

func (s *selector) wanted(keys *vector.Vector, j int32) *pick {
	switch keys.Type.Kind {
	case pb.Kind_INT32:
		return s.byInt[int64(keys.I32[j])]
	case pb.Kind_INT64:
		return s.byInt[keys.I64[j]]
	}
	return s.byText[string(keys.Data[keys.Ends[j]:keys.Ends[j+1]])]
}

// read takes the entries that find found.
func (p *pick) read(rows int) (*vector.Vector, error) {
	from, v := p.selector.entries, &p.out
	p.valid.reset()
	for _, j := range p.at[:rows] {
		if j < 0 || from.ElemIsNull(int(j)) {
			p.valid.add(0, 1)
		} else {
			p.valid.addOnes(1)
		}
	}
	v.Rows, v.Valid = rows, p.valid.bitmap()
	mem, err := p.selector.mem, error(nil)
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		v.Bool, err = pickFrom(mem, v.Bool, from.Bool, p.at)
	case pb.Kind_INT32:
		v.I32, err = pickFrom(mem, v.I32, from.I32, p.at)
	case pb.Kind_INT64:
		v.I64, err = pickFrom(mem, v.I64, from.I64, p.at)
	case pb.Kind_FLOAT32:
		v.F32, err = pickFrom(mem, v.F32, from.F32, p.at)
	case pb.Kind_FLOAT64:
		v.F64, err = pickFrom(mem, v.F64, from.F64, p.at)
	default:
		err = p.readBinary(from)
	}
	return v, err
}

func (p *pick) readBinary(from *vector.Vector) error {
	size := 0
	for _, j := range p.at {
		if j >= 0 {
			size += int(from.Ends[j+1] - from.Ends[j])
		}
	}
	v, mem := &p.out, p.selector.mem
	var err error
	if v.Ends, err = grow(mem, v.Ends, len(p.at)+1); err != nil {
		return err
	}
	if v.Data, err = grow(mem, v.Data, size); err != nil {
		return err
	}
	v.Ends, v.Data = v.Ends[:len(p.at)+1], v.Data[:0]
	v.Ends[0] = 0
	for i, j := range p.at {
		if j >= 0 {
			v.Data = append(v.Data, from.Data[from.Ends[j]:from.Ends[j+1]]...)
		}
		v.Ends[i+1] = int32(len(v.Data))
	}
	return nil
}

func pickFrom[T any](mem *allowance, out, from []T, at []int32) ([]T, error) {
	out, err := grow(mem, out, len(at))
	if err != nil {
		return out, err
	}
	out = out[:len(at)]
	for i, j := range at {
		if j >= 0 {
			out[i] = from[j]
		}
	}
	return out, nil
}
