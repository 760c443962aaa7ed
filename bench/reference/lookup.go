package reference

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go/format"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// side is the table that a transform looks values up in: all of its rows, by column.
type side struct {
	columns map[string]column
	rows    map[string][]*cell
	err     error
}

// sides reads the side tables of a spec, by the transform that names each. What cannot be read is an error of the
// transform's.
func (in *Interpreter) sides(ctx context.Context) map[int]*side {
	all := map[int]*side{}
	for i, t := range in.spec.GetTransforms() {
		if t.GetOp() == "lookup" {
			s := &side{columns: map[string]column{}, rows: map[string][]*cell{}}
			s.err = in.side(ctx, s, t.GetParams())
			all[i] = s
		}
	}
	return all
}

func (in *Interpreter) side(ctx context.Context, s *side, p parameters) error {
	profile := cmp.Or(p["storage"].GetText(), in.spec.GetDataset().GetStorage())
	files, err := in.store.List(ctx, profile, []string{p["table"].GetText()})
	if err != nil || len(files) != 1 {
		return errors.Join(fmt.Errorf("%d files", len(files)), err)
	}
	f, err := in.openFile(ctx, files[0], nil)
	if err != nil {
		return err
	}
	all := &scan{file: f}
	fill := map[string]filler{}
	for _, c := range f.columns {
		if c.isMap || !c.supported() || c.typ.Nested > 0 {
			continue
		}
		s.columns[c.name] = c
		if fill[c.name], err = all.bind(c, ""); err != nil {
			return err
		}
	}
	return all.rows(ctx, func(int64) {}, func() error {
		for name, set := range fill {
			c := &cell{}
			if err := set(c); err != nil {
				return err
			}
			own := &cell{}
			own.copyFrom(c)
			s.rows[name] = append(s.rows[name], own)
		}
		return nil
	})
}

// lookup adds a step for each column that a transform takes of its table.
func (r *resolver) lookup(at string, t *pb.Transform, in []string, s *side) error {
	if s.err != nil {
		return fmt.Errorf("table: %w", s.err)
	}
	slots, types := []int{}, []spec.Type{}
	for _, name := range in {
		slot, err := r.slot(name)
		if err != nil {
			return err
		}
		slots, types = append(slots, slot), append(types, r.types[slot])
	}
	find, err := s.finder(t.GetParams(), in, types, r.columns[in[len(in)-1]].unit)
	if err != nil {
		return err
	}
	for _, v := range listed(t.GetParams()["columns"]) {
		name := v.GetText()
		taken, err := s.taker(name, t.GetParams(), types[0], find)
		if err != nil {
			return err
		}
		out := cmp.Or(strings.ReplaceAll(t.GetOut(), "{}", name), name)
		step := step{at: at, in: slots, out: r.add(taken.out), op: taken}
		r.names[out] = step.out
		r.steps = append(r.steps, step)
	}
	return nil
}

// finder returns what finds the row for element j of the first input, and the first of the others; -1: there is none,
// and null: nothing is looked up. The last input may be a time of a unit.
func (s *side) finder(
	p parameters, in []string, types []spec.Type, unit string,
) (find func(in []*cell, j int) (row int, null bool), err error) {
	var keys []string
	for _, v := range listed(p["key"]) {
		keys = append(keys, v.GetText())
	}
	asOf := p["as_of"].GetText()
	last := len(in)
	if asOf != "" {
		last--
	}
	if len(keys) == 0 {
		keys = in[:last]
	}
	byKey := map[string][]int{}
	for row := range s.rows[keys[0]] {
		text, null := "", false
		for _, k := range keys {
			c := s.rows[k][row]
			if null = null || c.null; !null {
				text += keyText(c, 0, s.columns[k].typ)
			}
		}
		if null {
			continue
		}
		if len(byKey[text]) > 0 && asOf == "" && p["duplicates"].GetText() != "first" {
			return nil, fmt.Errorf("rows %d and %d have one key", byKey[text][0], row)
		}
		byKey[text] = append(byKey[text], row)
	}
	span, err := s.spans(p, asOf, unit)
	return func(in []*cell, j int) (int, bool) {
		text := ""
		for i, c := range in[:last] {
			at := 0
			if i == 0 {
				at = j
			}
			if c.null || c.isGone(at) {
				return -1, true
			}
			text += keyText(c, at, types[i])
		}
		rows := byKey[text]
		switch {
		case asOf != "" && in[last].null:
			return -1, true
		case asOf != "":
			return span(rows, in[last].ints[0]), false
		case len(rows) > 0:
			return rows[0], false
		}
		return -1, false
	}, err
}

func keyText(c *cell, j int, t spec.Type) string {
	if holdingOf(t.Kind) == storedTexts {
		return fmt.Sprintf("%q,", c.texts[j])
	}
	return fmt.Sprintf("%d,", c.ints[j])
}

// unitOf is the unit of a timestamp; "" of anything else.
func unitOf(e *format.SchemaElement) string {
	t, ok := e.LogicalType.Value.(*format.TimestampType)
	if !ok {
		return ""
	}
	switch t.Unit.Value.(type) {
	case *format.MilliSeconds:
		return "ms"
	case *format.MicroSeconds:
		return "us"
	}
	return "ns"
}

// spans returns what finds the newest of rows at a time of a unit; of those that are as new that is the last one.
func (s *side) spans(p parameters, asOf, unit string) (func(rows []int, now int64) int, error) {
	nanos := map[string]int64{"d": 86400e9, "s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1, "": 1}
	given := p["unit"].GetText()
	own, theirs := nanos[cmp.Or(unit, given)], nanos[cmp.Or(s.columns[asOf].unit, given)]
	in := func(n, unit int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(unit)) }
	var most *big.Int
	switch age := p["max_age"].GetKind().(type) {
	case *pb.Value_Int:
		most = in(age.Int, own)
	case *pb.Value_Text:
		text, times := age.Text, int64(1)
		if days, ok := strings.CutSuffix(text, "d"); ok {
			text, times = days+"h", 24
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, err
		}
		most = in(int64(d), times)
	}
	return func(rows []int, now int64) int {
		found := -1
		var newest *big.Int
		for _, row := range rows {
			c := s.rows[asOf][row]
			if c.null {
				continue
			}
			when, until := in(c.ints[0], theirs), in(now, own)
			tooOld := most != nil && new(big.Int).Sub(until, when).Cmp(most) > 0
			if when.Cmp(until) > 0 || tooOld || newest != nil && when.Cmp(newest) < 0 {
				continue
			}
			found, newest = row, when
		}
		return found
	}, nil
}

// taker makes the op that takes a column.
func (s *side) taker(
	name string, p parameters, first spec.Type, find func(in []*cell, j int) (int, bool),
) (operation, error) {
	c, ok := s.columns[name]
	if !ok {
		return operation{}, fmt.Errorf("the table has no column %s", name)
	}
	out := c.typ
	out.List = out.List || first.List
	var fallback *cell
	if v := p["default"]; v != nil && !c.typ.List {
		var err error
		if fallback, err = constant(v, c.typ); err != nil {
			return operation{}, err
		}
	}
	one := func(in []*cell, j int) *cell {
		row, null := find(in, j)
		switch {
		case !null && row >= 0:
			return s.rows[name][row]
		case !null && fallback != nil:
			return fallback
		}
		return &cell{null: true}
	}
	if !first.List {
		return operation{out: out, run: func(in []*cell, result *cell) error {
			result.copyFrom(one(in, 0))
			return nil
		}}, nil
	}
	return operation{out: out, run: func(in []*cell, result *cell) error {
		if result.null = in[0].null; result.null {
			return nil
		}
		for j := range in[0].count(first.Kind) {
			from := one(in, j)
			if result.gone = append(result.gone, from.null); from.null {
				result.appendZero(c.typ.Kind)
				continue
			}
			result.ints = append(result.ints, from.ints...)
			result.floats = append(result.floats, from.floats...)
			result.texts = append(result.texts, slices.Clone(from.texts)...)
		}
		return nil
	}}, nil
}
