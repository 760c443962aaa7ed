package reference

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
)

// truth is SQL's: no, unknown (something was null) or yes.
type truth int

const (
	no truth = iota
	unknown
	yes
)

// predicate judges a row by its cells, one for each slot, and its place.
type predicate func(cells []cell, at place) truth

// comparison of a column's value with a literal: negative, 0 or positive, and whether they can be compared at all,
// which a NaN cannot.
type comparer func(c *cell) (sign int, ok bool)

// binder finds the slot and kind of a column that is compared with literals of the given kind (unspecified for `is
// null`).
type binder func(name string, literal pb.Kind) (slot int, k pb.Kind, err error)

func (r *resolver) resolveFilter(text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	e, err := filter.Parse(text)
	if err != nil {
		return err
	}
	r.filter, err = compile(e, func(name string, _ pb.Kind) (int, pb.Kind, error) {
		slot, err := r.slot(name)
		if err != nil {
			return 0, 0, err
		}
		if t := r.types[slot]; t.List {
			return 0, 0, fmt.Errorf("%s is %v; want a scalar", name, t)
		}
		r.filterSlots = append(r.filterSlots, slot)
		return slot, r.types[slot].Kind, nil
	})
	return err
}

func compile(e *filter.Expr, bind binder) (predicate, error) {
	var args []predicate
	for _, a := range e.Args {
		p, err := compile(a, bind)
		if err != nil {
			return nil, err
		}
		args = append(args, p)
	}
	switch e.Op {
	case filter.Holds:
		return compileCondition(e.Cond, bind)
	case filter.And:
		return func(cells []cell, at place) truth {
			t := yes
			for _, p := range args {
				t = min(t, p(cells, at))
			}
			return t
		}, nil
	case filter.Or:
		return func(cells []cell, at place) truth {
			t := no
			for _, p := range args {
				t = max(t, p(cells, at))
			}
			return t
		}, nil
	case filter.Not:
		return func(cells []cell, at place) truth { return yes - args[0](cells, at) }, nil
	}
	return compileTest(e, bind)
}

// compileCondition is for what is no test of one operand.
func compileCondition(n *expr.Node, bind binder) (predicate, error) {
	f, err := interpret(n, func(name string) (int, pb.Kind, error) { return bind(name, pb.Kind_KIND_UNSPECIFIED) })
	if err == nil && f.kind != pb.Kind_BOOL {
		err = fmt.Errorf("%v is %v", n, f.kind)
	}
	return func(cells []cell, at place) truth {
		in := make([]*cell, len(cells))
		for i := range cells {
			in[i] = &cells[i]
		}
		return f.of(in, at).truth()
	}, err
}

// compileTest is for tests of one operand.
func compileTest(e *filter.Expr, bind binder) (predicate, error) {
	literal := pb.Kind_KIND_UNSPECIFIED
	if len(e.Values) > 0 {
		literal = e.Values[0].Kind
	}
	look, kind, err := compileOperand(e.Operand, literal, bind)
	if err != nil {
		return nil, err
	}
	var compare []comparer
	for _, v := range e.Values {
		c, err := comparerOf(kind, v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Column, err)
		}
		compare = append(compare, c)
	}
	return func(cells []cell, at place) truth {
		c := look(cells, at)
		switch {
		case e.Op == filter.IsNull:
			return truthOf(c.null)
		case e.Op == filter.IsNotNull:
			return truthOf(!c.null)
		case c.null:
			return unknown
		}
		return truthOf(holds(e.Op, c, compare))
	}, nil
}

// holds applies an operator to a value and its literals.
func holds(op filter.Op, c *cell, compare []comparer) bool {
	if op == filter.In || op == filter.NotIn {
		for _, cmp := range compare {
			if sign, ok := cmp(c); ok && sign == 0 {
				return op == filter.In
			}
		}
		return op == filter.NotIn
	}
	sign, ok := compare[0](c)
	if !ok {
		return op == filter.Ne
	}
	switch op {
	case filter.Eq:
		return sign == 0
	case filter.Ne:
		return sign != 0
	case filter.Lt:
		return sign < 0
	case filter.Le:
		return sign <= 0
	case filter.Gt:
		return sign > 0
	}
	return sign >= 0 // filter.Ge
}

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// comparerOf compares values of a kind with a literal. Numbers are compared exactly; against float32 columns a literal
// with a fraction is first rounded to float32, if it fits.
func comparerOf(k pb.Kind, v expr.Value) (comparer, error) {
	switch {
	case k == pb.Kind_BINARY && v.Kind == pb.Kind_BINARY:
		want := []byte(v.Text)
		return func(c *cell) (int, bool) { return bytes.Compare(c.texts[0], want), true }, nil
	case k == pb.Kind_BOOL && v.Kind == pb.Kind_BOOL:
		return func(c *cell) (int, bool) { return int(c.ints[0] - boolInt(v.Bool)), true }, nil
	case k == pb.Kind_BOOL || k == pb.Kind_BINARY || v.Kind == pb.Kind_BINARY || v.Kind == pb.Kind_BOOL:
		return nil, fmt.Errorf("values of kind %v compared with %v", k, v)
	}
	want := new(big.Float).SetInt64(v.Int)
	if v.Kind == pb.Kind_FLOAT64 {
		x := v.Float
		if narrow := float64(float32(x)); k == pb.Kind_FLOAT32 && !math.IsInf(narrow, 0) {
			x = narrow
		}
		if x != x {
			return func(*cell) (int, bool) { return 0, false }, nil
		}
		want = big.NewFloat(x)
	}
	if holdingOf(k) == storedInts {
		return func(c *cell) (int, bool) { return new(big.Float).SetInt64(c.ints[0]).Cmp(want), true }, nil
	}
	return func(c *cell) (int, bool) {
		if x := c.floats[0]; x == x {
			return big.NewFloat(x).Cmp(want), true
		}
		return 0, false
	}, nil
}

// partitions returns the files whose paths pass a predicate over their hive partition keys
// (".../day=3/part-0.parquet").
func partitions(files []*pb.File, text string) ([]*pb.File, error) {
	if text == "" {
		return files, nil
	}
	e, err := filter.Parse(text)
	if err != nil {
		return nil, err
	}
	var kept []*pb.File
	for _, f := range files {
		ok, err := inPartition(e, f.GetUri())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.GetUri(), err)
		}
		if ok {
			kept = append(kept, f)
		}
	}
	return kept, nil
}

func inPartition(e *filter.Expr, uri string) (bool, error) {
	_, path, _ := strings.Cut(uri, "://")
	parts := strings.Split(path, "/")
	keys := map[string]string{} // the last directory counts
	for _, dir := range parts[:len(parts)-1] {
		if k, v, ok := strings.Cut(dir, "="); ok {
			keys[unescaped(k)] = v
		}
	}
	var cells []cell
	p, err := compile(e, func(name string, literal pb.Kind) (int, pb.Kind, error) {
		c, k, err := partitionValue(keys, name, literal)
		cells = append(cells, c)
		return len(cells) - 1, k, err
	})
	if err != nil {
		return false, err
	}
	return p(cells, place{}) == yes, nil
}

// unescaped undoes percent escapes, where they are such.
func unescaped(s string) string {
	return escape.ReplaceAllStringFunc(s, func(e string) string {
		b, _ := strconv.ParseUint(e[1:], 16, 8)
		return string([]byte{byte(b)})
	})
}

var escape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`) //nolint:gochecknoglobals // a constant

func partitionValue(keys map[string]string, name string, literal pb.Kind) (cell, pb.Kind, error) {
	raw, ok := keys[name]
	if !ok || raw == "__HIVE_DEFAULT_PARTITION__" {
		return cell{null: true}, literal, nil
	}
	text := unescaped(raw)
	switch literal {
	case pb.Kind_BOOL:
		b, err := strconv.ParseBool(text)
		return cell{ints: []int64{boolInt(b)}}, literal, err
	case pb.Kind_INT64, pb.Kind_FLOAT64:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return cell{ints: []int64{n}}, pb.Kind_INT64, nil
		}
		x, err := strconv.ParseFloat(text, 64)
		return cell{floats: []float64{x}}, pb.Kind_FLOAT64, err
	}
	return cell{texts: [][]byte{[]byte(text)}}, pb.Kind_BINARY, nil
}
