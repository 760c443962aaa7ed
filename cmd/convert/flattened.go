package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/dustin/go-humanize"

	"github.com/penstock-ml/penstock/api/natural"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/storage"
)

// mostFlat is how many columns keys of maps become at most.
const mostFlat = 10_000

// flattening makes a layout in which maps and structs are columns.
type flattening struct {
	options Options
	in      *inputs
	inputs  *layout
	columns []spec.Column // of the inputs, as specs see them
	names   spec.Names
	spots   [][]spot // by column
	maps    []*flatMap
	structs map[int]bool // columns
	rows    int64        // of the inputs, if keys were counted
	notes   []string
}

// layoutOf is the layout that the options ask for.
func layoutOf(ctx context.Context, o Options, in *inputs, inputs *arrow.Schema) (*layout, error) {
	l := asTheyAre(inputs)
	if len(o.Flatten) == 0 {
		return l, nil
	}
	described, err := describe(ctx, l)
	if err != nil {
		return nil, err
	}
	f := &flattening{
		options: o, in: in, inputs: l, columns: described.Columns, names: spec.NamesOf(described),
		structs: map[int]bool{},
	}
	for i, field := range inputs.Fields() {
		f.spots = append(f.spots, spots(i, field))
	}
	if l, err = f.layout(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", in.name(0), err)
	}
	in.notes = append(in.notes, f.notes...)
	return l, nil
}

// describe says what specs see in files of a layout.
func describe(ctx context.Context, l *layout) (spec.Schema, error) {
	var file bytes.Buffer
	var e parquetEncoder
	if err := e.begin(&file, l); err != nil {
		return spec.Schema{}, err
	}
	if err := e.end(); err != nil {
		return spec.Schema{}, err
	}
	one := storage.InMemory(file.Bytes())
	described, err := formats.Load(ctx, one, "", &pb.File{Uri: "empty.parquet", Size: int64(len(one))}, nil)
	if err != nil {
		return spec.Schema{}, err
	}
	return described.Columns().Schema, nil
}

func (f *flattening) layout(ctx context.Context) (*layout, error) {
	named := map[*flatMap][]string{}
	for i := range f.options.Flatten {
		asked := &f.options.Flatten[i]
		for _, name := range asked.Columns {
			m, err := f.find(name)
			if err != nil {
				return nil, err
			}
			switch {
			case m != nil:
				named[m] = asked.keysOf(m)
			case asked.Keys != nil:
				return nil, fmt.Errorf("column %s is of structs, of which --flatten takes all fields: leave the "+
					"keys out", name)
			}
		}
	}
	if err := f.chooseKeys(ctx, named); err != nil {
		return nil, err
	}
	l := &layout{}
	for i := range f.inputs.columns {
		f.lay(l, i)
	}
	seen := map[string]bool{}
	for _, c := range l.columns {
		if seen[c.field.Name] {
			return nil, fmt.Errorf("two columns would be named %s: rename one of the inputs, or do not flatten it",
				c.field.Name)
		}
		seen[c.field.Name] = true
	}
	return l, nil
}

// find takes a map, or a column of structs, that is named.
func (f *flattening) find(name string) (*flatMap, error) {
	s, ok := f.spot(name)
	if !ok {
		near := ""
		if n := natural.Nearest(name, f.flattenable); n != "" {
			near = "; nearest: " + n
		}
		return nil, fmt.Errorf("--flatten %s: there is no such column%s", name, near)
	}
	switch {
	case s.typ.ID() == arrow.MAP && !s.listed:
		return f.findMap(s)
	case structOf(s.typ) == nil:
		return nil, fmt.Errorf("--flatten %s: the column is %v, and only maps, structs and lists of structs can be "+
			"flattened", name, s.written())
	case len(s.fields) > 0:
		return nil, fmt.Errorf("--flatten %s: it is a part of column %s: flatten that", name, s.path[0])
	}
	for _, c := range f.columns {
		if c.Path[0] == s.path[0] && c.Unsupported != "" && !c.Untyped {
			return nil, fmt.Errorf("--flatten %s: %s can be no column: it is %s", name, c.Name, c.Unsupported)
		}
	}
	f.structs[s.column] = true
	return nil, nil
}

func (f *flattening) spot(name string) (spot, bool) {
	for _, column := range f.spots {
		for _, s := range column {
			if s.name() == name {
				return s, true
			}
		}
	}
	return spot{}, false
}

// flattenable yields names of what can be flattened.
func (f *flattening) flattenable(yield func(string) bool) {
	for _, column := range f.spots {
		for _, s := range column {
			ok := s.typ.ID() == arrow.MAP && !s.listed || structOf(s.typ) != nil && len(s.fields) == 0
			if ok && !yield(s.name()) {
				return
			}
		}
	}
}

func (f *flattening) findMap(s spot) (*flatMap, error) {
	m := &flatMap{spot: s}
	for _, c := range f.columns {
		if !slices.Equal(c.Path, s.path) {
			continue
		}
		if c.Unsupported != "" {
			return nil, fmt.Errorf("--flatten %s: its keys cannot be columns: it is %s", s.name(), c.Unsupported)
		}
		m.columns = append(m.columns, c)
	}
	m.keys = newKeyTable(s.typ.(*arrow.MapType).KeyType())
	f.maps = append(f.maps, m)
	return m, nil
}

// chooseKeys says of each map which keys become columns: those that are named of it, or all.
func (f *flattening) chooseKeys(ctx context.Context, named map[*flatMap][]string) (err error) {
	var counts []*keyCount
	for _, m := range f.maps {
		if named[m] == nil || f.options.RestBelow > 0 {
			counts = append(counts, newKeyCount(m))
		}
	}
	if len(counts) > 0 {
		if f.rows, err = countKeys(ctx, f.options, f.in, counts); err != nil {
			return err
		}
	}
	var all []int64 // rows of each column
	for _, m := range f.maps {
		chosen := countsOf(named[m])
		if at := slices.IndexFunc(counts, func(c *keyCount) bool { return c.of == m }); at >= 0 {
			chosen = counts[at].chosen(named[m])
		}
		listed := slices.ContainsFunc(f.options.Flatten, func(a Flattening) bool {
			return a.Listed && slices.Contains(a.Columns, m.name())
		})
		rows, err := f.choose(m, chosen, named[m] != nil && !listed)
		if err != nil {
			return err
		}
		all = append(all, rows...)
	}
	return f.checkNumber(all)
}

// countsOf are keys that are not counted.
func countsOf(named []string) (all []countedKey) {
	for _, key := range named {
		all = append(all, countedKey{key, math.MaxInt64})
	}
	return all
}

// chosen are the keys that are counted, or of them those that are named.
func (c *keyCount) chosen(named []string) []countedKey {
	all := c.sorted()
	if named == nil {
		return all
	}
	rows := map[string]int64{}
	for _, key := range all {
		rows[key.text] = key.rows
	}
	chosen := make([]countedKey, len(named))
	for i, key := range named {
		chosen[i] = countedKey{key, rows[key]}
	}
	return chosen
}

// choose takes keys that are frequent, and can be names, and returns in how many rows each column has a value. What
// cannot be a name is an error where strict.
func (f *flattening) choose(m *flatMap, chosen []countedKey, strict bool) (rows []int64, err error) {
	for _, key := range chosen {
		names, err := f.namesOf(m, key.text)
		switch {
		case err != nil && strict:
			return nil, fmt.Errorf("--flatten %s=%s: %w", m.name(), key.text, err)
		case err != nil || float64(key.rows) < f.options.RestBelow*float64(f.rows):
			m.rest++
			continue
		case m.keys.has(key.text): // it is named twice
			continue
		}
		m.keys.addText(key.text)
		m.names = append(m.names, names)
		for range names {
			rows = append(rows, key.rows)
		}
	}
	m.keys.close()
	note := fmt.Sprintf("%s: %s of its keys are columns", m.name(), humanize.Comma(int64(m.keys.len())))
	if m.rest > 0 {
		note += fmt.Sprintf("; %s are not, as they are rare, or no names, and stay in it", humanize.Comma(m.rest))
	}
	f.notes = append(f.notes, note)
	return rows, nil
}

var (
	errNoText  = errors.New("the key is no UTF-8, which names are")
	errClashes = errors.New("another column has that name")
)

// namesOf are the names of a key's columns: those by which a spec selects the key.
func (f *flattening) namesOf(m *flatMap, key string) (names []string, err error) {
	if !utf8.ValidString(key) {
		return nil, errNoText
	}
	for _, c := range m.columns {
		name := c.Feature(key)
		src, err := f.names.Source(name)
		switch {
		case err != nil:
			return nil, err
		case src == nil || src.Key == nil || src.GetKey() != key || !slices.Equal(src.GetPath(), m.path) ||
			!slices.Equal(src.GetField(), c.Field):
			return nil, fmt.Errorf("%s: %w", name, errClashes)
		}
		names = append(names, name)
	}
	return names, nil
}

// checkNumber refuses too many columns, and says which share of rows would leave the most frequent ones.
func (f *flattening) checkNumber(rows []int64) error {
	if len(rows) <= mostFlat {
		return nil
	}
	var which []string
	for _, m := range f.maps {
		which = append(which, m.name())
	}
	slices.SortFunc(rows, func(a, b int64) int { return int(b - a) })
	todo := "name fewer keys"
	if most := rows[mostFlat]; f.rows > 0 && most < f.rows {
		todo = fmt.Sprintf("--rest-below %s leaves the rarer ones in the map, or name the keys, as --flatten %s=1,2",
			roundedUp(float64(most+1)/float64(f.rows)), which[0])
	}
	return fmt.Errorf("keys of %s would become %s columns, and a file has at most %s of them: %s",
		strings.Join(which, ", "), humanize.Comma(int64(len(rows))), humanize.Comma(mostFlat), todo)
}

// roundedUp is a share with two digits that is not less.
func roundedUp(x float64) string {
	scale := math.Pow(10, math.Floor(math.Log10(x))-1)
	return fmt.Sprintf("%.3g", math.Ceil(x/scale-1e-9)*scale)
}
