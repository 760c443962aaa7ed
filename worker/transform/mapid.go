package transform

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// mapID looks ids up in a dictionary. That stands in the spec, so that results depend on nothing else: a file could
// change below a running job.
func mapID() Op {
	return Op{
		Name:    "map_id",
		Version: 2,
		Summary: "Looks ids or text up in a dictionary of keys, or in a range of count ids from first on. Others " +
			"become default, or null without one.",
		Exact: "int64, or float32 if one of `values` or `default` is written as a float (class weights; `2.0` " +
			"is one, and must be finite as a float32): the value of the key that the value is. `keys` are " +
			"listed, or are the ids from `first` to `first + count - 1`, which must be an int64; without " +
			"`values` a key's value is its place, from 0. What is no key becomes `default`, or null without one; " +
			"nulls stay null. With `vocabulary: fit` ids are 0 for null, then `buckets` ids for what the vocabulary " +
			"lacks (`1 + hash(x, 0) % buckets`; 0, too, if there are none), then the vocabulary's values in their " +
			"order. None is null then",
		Maps:   true,
		Inputs: "scalar or list of ints or text",
		Output: "int64, or float32 if a value or the default is a float; scalar or list like the input",
		Params: []Param{
			{
				Name: "keys", Want: Scalars, Positional: true, Python: "Sequence[int] | Sequence[str]",
				Doc: "ints or texts, no two alike; this, or first and count",
			},
			{Name: "first", Want: Int, Doc: "least id of the range"},
			{Name: "count", Want: PositiveInt, Doc: "ids in the range"},
			{Name: "values", Want: Numbers, Doc: "ints or floats, one for each key; left out: the key's place, from 0"},
			{Name: "default", Want: Number, Doc: "for what is no key; left out: null"},
			{
				Name: "vocabulary", Want: Text, OneOf: []string{spec.FitWord},
				Doc: "the keys are those of the data, the most frequent first: in place of keys, values and default",
			},
			{Name: "min_count", Want: PositiveInt, Doc: "of a vocabulary: how often a key is in the data at least"},
			{Name: "max_size", Want: PositiveInt, Doc: "of a vocabulary: how many keys it has at most"},
			{
				Name: "buckets", Want: Int,
				Doc: "of a vocabulary: among how many ids values are spread by a hash that it lacks; left out: 1",
			},
		},
		Fitting: spec.Fitting{
			By: "vocabulary", Params: map[string]string{"vocabulary": spec.Vocabulary},
			With: []string{"min_count", "max_size"},
		},
		Example: "{op: map_id, in: cat_*, keys: [17, 4, 99], values: [1, 2, 3], default: 0}",
		Infer: func(p Params, in []spec.Type) (spec.Type, error) {
			if !isInteger(in[0].Kind) && in[0].Kind != pb.Kind_BINARY {
				return spec.Type{}, fmt.Errorf("in: want a scalar or list of ints or text, found %v", in[0])
			}
			if hasFloats(p) {
				return spec.Type{Kind: pb.Kind_FLOAT32, List: in[0].List}, nil
			}
			return spec.Type{Kind: pb.Kind_INT64, List: in[0].List}, nil
		},
		New: func(p Params, in []spec.Type) (Kernel, error) {
			for _, name := range []string{"min_count", "max_size", "buckets"} {
				if p.Has(name) {
					return nil, fmt.Errorf("%s: want it with vocabulary: fit alone", name)
				}
			}
			if hasFloats(p) {
				return newMapID(p, in, mapFloats)
			}
			return newMapID(p, in, mapInts)
		},
	}
}

// mapIDOfInts has no floats: 2.0 is an int.
func mapIDOfInts() Op {
	op := mapID()
	op.Version, op.Output = 1, "int64, scalar or list like the input"
	op.Params = slices.Clone(op.Params[:5])
	op.Fitting = spec.Fitting{}
	op.Params[len(op.Params)-1].Want = Int
	op.Infer = func(_ Params, in []spec.Type) (spec.Type, error) { return mapID().Infer(Params{}, in) }
	op.New = func(p Params, in []spec.Type) (Kernel, error) { return newMapID(p, in, mapInts) }
	return op
}

// hasFloats reports whether a value is written as a float.
func hasFloats(p Params) bool {
	isFloat := func(v *pb.Value) bool {
		_, ok := v.GetKind().(*pb.Value_Float)
		return ok
	}
	values := p.Value("values")
	return isFloat(p.Value("default")) || values.GetInts() == nil && slices.ContainsFunc(spec.Elements(values), isFloat)
}

// mapValue is what a key may stand for.
type mapValue interface{ int64 | float32 }

// mapInts reads a parameter's values.
func mapInts(p Params, name string) ([]int64, error) {
	if n, ok := integer(p.Value(name)); ok {
		return []int64{n}, nil
	}
	values, other := p.ints(name)
	if other != nil {
		return nil, fmt.Errorf("%s: want ints, found %s", name, show(other))
	}
	return values, nil
}

func mapFloats(p Params, name string) ([]float32, error) {
	var values []float32
	for _, x := range p.Numbers(name) {
		if overflows(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%s: want finite float32s, found %v", name, x)
		}
		values = append(values, float32(x))
	}
	return values, nil
}

func newMapID[V mapValue](p Params, in []spec.Type, read func(p Params, name string) ([]V, error)) (Kernel, error) {
	m := mapper[V]{partial: !p.Has("default")}
	if !m.partial {
		otherwise, err := read(p, "default")
		if err != nil {
			return nil, err
		}
		m.otherwise = otherwise[0]
	}
	if in[0].Kind == pb.Kind_BINARY {
		texts, table, err := newTextMap(p, read)
		return &partial[V]{table: table, convert: func(dst []V, v *vector.Vector, valid []uint64) bool {
			return mapTexts(dst, v, valid, texts, m)
		}}, err
	}
	ids, err := newIDMap(p, read)
	if err != nil {
		return nil, err
	}
	find := func(dst []V, v *vector.Vector, valid []uint64) bool { return mapIDs(dst, v.I64, valid, ids, m) }
	if in[0].Kind == pb.Kind_INT32 {
		find = func(dst []V, v *vector.Vector, valid []uint64) bool { return mapIDs(dst, v.I32, valid, ids, m) }
	}
	return &partial[V]{table: ids.bytes(), convert: find}, nil
}

// mapValues returns the value of each of so many keys, nil if that is its place.
func mapValues[V mapValue](p Params, keys int64, read func(p Params, name string) ([]V, error)) ([]V, error) {
	switch hasRange := p.Has("first") || p.Has("count"); {
	case p.Has("keys") == hasRange:
		return nil, errors.New("keys: want a list of keys, or else both first and count")
	case hasRange && (!p.Has("first") || !p.Has("count")):
		return nil, errors.New("first, count: want both of them, or else keys")
	case hasRange && p.Int("first") > math.MaxInt64-(p.Int("count")-1):
		return nil, fmt.Errorf("first, count: want a range that ends at %d or before, found %d ids from %d on",
			int64(math.MaxInt64), p.Int("count"), p.Int("first"))
	case hasRange:
		keys = p.Int("count")
	case keys == 0:
		return nil, errors.New("keys: want at least one")
	}
	if !p.Has("values") {
		return nil, nil
	}
	values, err := read(p, "values")
	if err != nil {
		return nil, err
	}
	if int64(len(values)) != keys {
		return nil, fmt.Errorf("values: want one for each of the %d keys, found %d", keys, len(values))
	}
	return values, nil
}

// mapper says what becomes of values that are no key.
type mapper[V mapValue] struct {
	otherwise V
	partial   bool // they become null
}

func mapIDs[V mapValue, S int32 | int64](dst []V, src []S, valid []uint64, ids *idMap[V], m mapper[V]) (failed bool) {
	src = src[:len(dst)]
	for i, id := range src {
		value, ok := ids.find(int64(id))
		if !ok {
			value = m.otherwise
			if m.partial {
				clearBit(valid, i)
				failed = true
			}
		}
		dst[i] = value
	}
	return failed
}

func mapTexts[V mapValue](dst []V, v *vector.Vector, valid []uint64, texts map[string]V, m mapper[V]) (failed bool) {
	for i := range dst {
		value, ok := texts[string(v.Data[v.Ends[i]:v.Ends[i+1]])] // does not allocate
		if !ok {
			value = m.otherwise
			if m.partial {
				clearBit(valid, i)
				failed = true
			}
		}
		dst[i] = value
	}
	return failed
}

// newTextMap makes the map, and says how many bytes it takes.
func newTextMap[V mapValue](
	p Params, read func(p Params, name string) ([]V, error),
) (texts map[string]V, bytes int64, err error) {
	keys := spec.Elements(p.Value("keys"))
	values, err := mapValues(p, int64(len(keys)), read)
	switch {
	case err != nil:
		return nil, 0, err
	case !p.Has("keys"):
		return nil, 0, errors.New("first, count: want keys for text")
	}
	texts = make(map[string]V, len(keys))
	for i, v := range keys {
		text, ok := v.GetKind().(*pb.Value_Text)
		if !ok {
			return nil, 0, fmt.Errorf("keys: want texts to look text up, found %s", show(v))
		}
		if _, twice := texts[text.Text]; twice {
			return nil, 0, fmt.Errorf("keys: want no key twice, found %s again", show(v))
		}
		texts[text.Text] = valueOf(values, i)
		bytes += textEntry // the texts themselves are the program's
	}
	return texts, bytes, nil
}

// valueOf is the value of a key, which is its place if there are none.
func valueOf[V mapValue](values []V, i int) V {
	if values == nil {
		return V(i)
	}
	return values[i]
}

// idMap finds the values of ids: in a range by their distance from its first, else in an open hash table.
type idMap[V mapValue] struct {
	first  int64
	count  uint64 // of the range; 0: there is none
	values []V    // of the range; nil: the distance itself
	slots  []mapSlot[V]
	shift  uint
}

// textEntry is about how many bytes an entry of a map takes by texts: a string's, an int64, and what is free.
const textEntry = 48

// bytes is the size of the table.
func (m *idMap[V]) bytes() int64 {
	return int64(len(m.slots))*int64(unsafe.Sizeof(mapSlot[V]{})) + 8*int64(len(m.values))
}

type mapSlot[V mapValue] struct {
	id    int64
	value V
	used  bool
}

func (m *idMap[V]) find(id int64) (V, bool) {
	if at := uint64(id) - uint64(m.first); at < m.count {
		if m.values == nil {
			return V(int64(at)), true
		}
		return m.values[at], true
	}
	if m.slots == nil {
		return 0, false
	}
	for h := uint64(id) * golden >> (m.shift & 63); ; h++ {
		s := &m.slots[h&uint64(len(m.slots)-1)]
		if !s.used || s.id == id {
			return s.value, s.used
		}
	}
}

func newIDMap[V mapValue](p Params, read func(p Params, name string) ([]V, error)) (*idMap[V], error) {
	keys, other := p.ints("keys")
	if other != nil {
		return nil, fmt.Errorf("keys: want ints to look ids up, found %s", show(other))
	}
	values, err := mapValues(p, int64(len(keys)), read)
	switch {
	case err != nil:
		return nil, err
	case !p.Has("keys"):
		return &idMap[V]{first: p.Int("first"), count: uint64(p.Int("count")), values: values}, nil
	}
	width := bits.Len(uint(2 * len(keys)))
	m := &idMap[V]{slots: make([]mapSlot[V], 1<<width), shift: uint(64 - width)}
	for i, id := range keys {
		if _, twice := m.find(id); twice {
			return nil, fmt.Errorf("keys: want no key twice, found %d again", id)
		}
		h := uint64(id) * golden >> m.shift
		for m.slots[h&uint64(len(m.slots)-1)].used {
			h++
		}
		m.slots[h&uint64(len(m.slots)-1)] = mapSlot[V]{id, valueOf(values, i), true}
	}
	return m, nil
}
