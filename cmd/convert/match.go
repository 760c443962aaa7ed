package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/spec"
)

// What is compared of two datasets: columns of one name, and where a map or a struct of one side is several columns of
// the other, the features that specs select of both. How columns are made of maps is not used for it.

// view is a column of a side, or a field of structs in it.
type view struct {
	name   string
	typ    arrow.DataType // as it is written
	column int
	fields []int // of structs, and of structs in lists
	listed bool
}

// pair is the same on both sides.
type pair struct{ a, b view }

// matched is what two sides are compared by.
type matched struct {
	pairs []pair
	maps  []*mapPair
}

// views are what a side has by name.
type views struct {
	order  []string
	byName map[string]view
}

func (v *views) add(of view) error {
	if _, ok := v.byName[of.name]; ok {
		return fmt.Errorf("two columns are named %s", of.name)
	}
	v.order = append(v.order, of.name)
	v.byName[of.name] = of
	return nil
}

// viewsOf are the columns of a side; of those to open, their fields.
func viewsOf(s *side, open map[string]bool) (*views, error) {
	v := &views{byName: map[string]view{}}
	for i, f := range s.schema().Fields() {
		of := view{name: f.Name, typ: written(f.Type), column: i}
		var err error
		if open[f.Name] {
			err = v.openStruct(of)
		} else {
			err = v.add(of)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.in.name(0), err)
		}
	}
	return v, nil
}

// openStruct adds the fields of structs, and of structs in a list.
func (v *views) openStruct(of view) error {
	t, listed := of.typ, of.listed
	if list, ok := t.(*arrow.ListType); ok {
		t, listed = list.Elem(), true
	}
	s, ok := t.(*arrow.StructType)
	if !ok {
		if of.listed {
			of.typ = arrow.ListOf(of.typ)
		}
		return v.add(of)
	}
	for i, f := range s.Fields() {
		below := view{of.name + "." + f.Name, f.Type, of.column, append(slices.Clip(of.fields), i), listed}
		if err := v.openStruct(below); err != nil {
			return err
		}
	}
	return nil
}

// match says what of two sides is compared.
func match(a, b *side) (*matched, error) {
	open := opened(a.schema(), b.schema())
	inA, err := viewsOf(a, open)
	if err != nil {
		return nil, err
	}
	inB, err := viewsOf(b, open)
	if err != nil {
		return nil, err
	}
	m := &matched{}
	maps := mapPairs{byName: map[string]*mapPair{}}
	for i, of := range []*views{inA, inB} {
		other := []*views{inB, inA}[i]
		for _, name := range of.order {
			if _, both := other.byName[name]; both {
				continue
			}
			sides := [2]*side{a, b}
			if err := maps.explain(of.byName[name], i, inA, inB); err != nil {
				return nil, fmt.Errorf("column %s of %s is not in %s%w", name, sides[i].in.name(0),
					sides[1-i].in.name(0), err)
			}
		}
	}
	if err := maps.checkAlone(inA, inB, a, b); err != nil {
		return nil, err
	}
	for _, name := range inA.order {
		f := inA.byName[name]
		g, ok := inB.byName[name]
		if !ok {
			continue
		}
		if !sameType(f.typ, g.typ) {
			return nil, fmt.Errorf("column %s is %v in %s, but %v in %s", name, a.typeOf(f), a.in.name(0), b.typeOf(g),
				b.in.name(0))
		}
		if maps.byName[name] == nil {
			m.pairs = append(m.pairs, pair{f, g})
		}
	}
	m.maps = maps.all
	return m, nil
}

// typeOf is a column's type as the side has it.
func (s *side) typeOf(v view) arrow.DataType {
	if len(v.fields) > 0 {
		return v.typ
	}
	return s.schema().Field(v.column).Type
}

// opened are the columns of structs that are compared field by field: those that one side lacks, and those of which
// the other side, or their own, has a map's keys beside them.
func opened(a, b *arrow.Schema) map[string]bool {
	open := map[string]bool{}
	names := [2]map[string]bool{{}, {}}
	for i, s := range []*arrow.Schema{a, b} {
		for _, f := range s.Fields() {
			names[i][f.Name] = true
		}
	}
	for i, s := range []*arrow.Schema{a, b} {
		for _, f := range s.Fields() {
			if !names[1-i][f.Name] {
				open[f.Name] = true
				for dot := strings.IndexByte(f.Name, '.'); dot >= 0; {
					open[f.Name[:dot]] = true
					next := strings.IndexByte(f.Name[dot+1:], '.')
					if next < 0 {
						break
					}
					dot += 1 + next
				}
			}
		}
	}
	return open
}

// mapPairs are the maps of which one side has keys in columns of their own.
type mapPairs struct {
	all    []*mapPair
	byName map[string]*mapPair
}

// explain takes a column that one side alone has: a map, of which the other one has keys, or a key of a map.
func (p *mapPairs) explain(v view, side int, inA, inB *views) error {
	for dot := strings.LastIndexByte(v.name, '.'); dot > 0; dot = strings.LastIndexByte(v.name[:dot], '.') {
		path, key := v.name[:dot], v.name[dot+1:]
		maps := [2]*arrow.MapType{mapOf(inA, path), mapOf(inB, path)}
		t := maps[0]
		if t == nil {
			t = maps[1]
		}
		if t == nil {
			continue
		}
		m := p.of(path, t, inA, inB)
		f, k, ok := m.featureOf(key)
		if !ok {
			return fmt.Errorf(", nor is it a key of map %s, whose keys are %v", path, t.KeyType())
		}
		if !sameType(v.typ, f.typ) {
			return fmt.Errorf(": it is %v, and the values of map %s are %v", v.typ, path, f.typ)
		}
		f.flats[side] = append(f.flats[side], flat{k, v})
		return nil
	}
	if mapOf(inA, v.name) != nil || mapOf(inB, v.name) != nil {
		return nil // checkAlone looks at it
	}
	return errNowhere
}

// errNowhere says nothing more of a column that one side lacks.
var errNowhere = errors.New("")

// checkAlone refuses maps that one side alone has, and no key of which is a column of the other.
func (p *mapPairs) checkAlone(inA, inB *views, a, b *side) error {
	for i, of := range []*views{inA, inB} {
		for _, name := range of.order {
			if _, both := []*views{inB, inA}[i].byName[name]; both || mapOf(of, name) == nil {
				continue
			}
			if m := p.byName[name]; m == nil || !m.has(1-i) {
				sides := [2]*side{a, b}
				return fmt.Errorf("column %s of %s is not in %s", name, sides[i].in.name(0), sides[1-i].in.name(0))
			}
		}
	}
	return nil
}

func mapOf(v *views, name string) *arrow.MapType {
	of := v.byName[name]
	if t, ok := of.typ.(*arrow.MapType); ok && !of.listed {
		return t
	}
	return nil
}

// of is the pair of a map, which one side may lack.
func (p *mapPairs) of(path string, t *arrow.MapType, inA, inB *views) *mapPair {
	m := p.byName[path]
	if m != nil {
		return m
	}
	key := t.KeyType().ID()
	m = &mapPair{
		name: path, ints: widthOf(t.KeyType()) > 0 && key != arrow.FIXED_SIZE_BINARY, unsigned: key == arrow.UINT64,
	}
	for i, of := range []*views{inA, inB} {
		if v := of.byName[path]; mapOf(of, path) != nil {
			m.maps[i] = &v
		}
	}
	if inner, ok := t.ItemType().(*arrow.MapType); ok {
		m.features = []*feature{
			{field: "key", typ: arrow.ListOf(inner.KeyType())},
			{field: "value", typ: arrow.ListOf(inner.ItemType()), child: 1},
		}
	} else {
		m.features = []*feature{{typ: t.ItemType()}}
	}
	p.all = append(p.all, m)
	p.byName[path] = m
	return m
}

// featureOf is what a column is of a map, by what follows the map's name.
func (m *mapPair) featureOf(name string) (f *feature, k mapKey, ok bool) {
	for _, f := range m.features {
		text := name
		if f.field != "" {
			if text, ok = strings.CutSuffix(name, "."+f.field); !ok {
				continue
			}
		}
		i, err := spec.IntKey(text)
		switch {
		case !m.ints:
			return f, mapKey{text: text}, text != ""
		case err == nil && intText(i, m.unsigned) == text:
			return f, mapKey{number: i}, true
		}
	}
	return nil, k, false
}
