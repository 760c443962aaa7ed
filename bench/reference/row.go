package reference

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// recordFile is a file whose rows are records, all of them in memory.
type recordFile struct {
	columns []column
	records []record
	at      int // of the record that fillers read
}

// record is a row of such a file: a value is nil, bool, int64, float64, float32, textual, numeral, or []any of these.
type record interface {
	// value is what the row has of a column; false: nothing.
	value(c column) (v any, ok bool, err error)
}

// textual is what a value of kind BINARY is.
type textual []byte

// numeral is a number as a text has it.
type numeral string

func (f *recordFile) all() []column { return f.columns }

func (f *recordFile) count() int64 { return int64(len(f.records)) }

func (f *recordFile) find(c column, key string, absent *cell) (filler, error) {
	if key != "" {
		return nil, fmt.Errorf("column %s has no keys", c.name)
	}
	for _, have := range f.columns {
		if have.name == c.name {
			c.own, c.path, c.shape, c.kind = have.own, have.path, have.shape, have.kind
		}
	}
	return func(to *cell) error {
		v, ok, err := f.records[f.at].value(c)
		if err != nil || !ok {
			to.copyFrom(absent)
			return err
		}
		to.clear()
		return to.put(v, c)
	}, nil
}

func (f *recordFile) rows(ctx context.Context, progress func(rows int64), row func() error) error {
	for f.at = range f.records {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := row(); err != nil {
			return err
		}
		progress(1)
	}
	return nil
}

// put sets a row's value, which must be of the column's type.
func (c *cell) put(v any, of column) error {
	if c.null = v == nil; c.null {
		return nil
	}
	if !of.typ.List {
		return c.putOne(v, of)
	}
	for len(c.inner) < int(of.typ.Nested) {
		c.inner = append(c.inner, nil)
	}
	return c.putList(v, of, 0)
}

// putList sets a list, in which there are lists down to the last level.
func (c *cell) putList(v any, of column, level int) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("%v is no list", v)
	}
	if level > 0 {
		c.inner[level-1] = append(c.inner[level-1], len(list))
	}
	for _, v := range list {
		switch {
		case level < int(of.typ.Nested) && v == nil:
			c.inner[level] = append(c.inner[level], -1)
		case level < int(of.typ.Nested):
			if err := c.putList(v, of, level+1); err != nil {
				return err
			}
		default:
			if c.gone = append(c.gone, v == nil); v == nil {
				c.appendZero(of.typ.Kind)
			} else if err := c.putOne(v, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// putOne adds a value that is no list.
func (c *cell) putOne(v any, of column) error {
	wrong := fmt.Errorf("%v, where %v is wanted", v, of.typ)
	kind := of.typ.Kind
	if n, ok := v.(numeral); ok {
		return c.putNumber(string(n), of)
	}
	switch v := v.(type) {
	case bool:
		if kind != pb.Kind_BOOL {
			return wrong
		}
		c.ints = append(c.ints, boolInt(v))
	case textual:
		if kind != pb.Kind_BINARY {
			return wrong
		}
		c.texts = append(c.texts, v)
	case int64:
		if holdingOf(kind) != storedInts || kind == pb.Kind_BOOL || !fits(v, of) {
			return wrong
		}
		c.ints = append(c.ints, v)
	case float32:
		if kind != pb.Kind_FLOAT32 && kind != pb.Kind_FLOAT64 {
			return wrong
		}
		c.floats = append(c.floats, float64(v))
	case float64:
		if kind != pb.Kind_FLOAT64 {
			return wrong
		}
		c.floats = append(c.floats, v)
	default:
		return wrong
	}
	return nil
}

// fits reports whether an integer is one of a column's.
func fits(n int64, of column) bool {
	kind := of.own
	if kind == pb.Kind_KIND_UNSPECIFIED {
		kind = of.typ.Kind
	}
	return n == wrapped(n, kind)
}

// putNumber adds a number that is written as text: of integers those that are whole and fit, of floats the nearest.
func (c *cell) putNumber(s string, of column) error {
	switch of.typ.Kind {
	case pb.Kind_FLOAT32, pb.Kind_FLOAT64:
		if strings.ContainsAny(s, "xX_") {
			return fmt.Errorf("%q is no number", s)
		}
		x, err := strconv.ParseFloat(s, 8*spec.Width(of.typ.Kind))
		c.floats = append(c.floats, x)
		return err
	case pb.Kind_BOOL, pb.Kind_BINARY:
		return fmt.Errorf("the number %s where %v is wanted", s, of.typ)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && !fits(n, of) {
		err = fmt.Errorf("%d, where %v is wanted", n, of.typ)
	}
	c.ints = append(c.ints, n)
	return err
}

// declared are the columns that a dataset declares, by name.
func declared(how *pb.Format) ([]column, error) {
	var out []column
	for name, typ := range how.GetColumns() {
		c, ok := spec.ParseColumn(typ)
		if !ok {
			return nil, fmt.Errorf("column %s: %q is no type", name, typ)
		}
		out = append(out, column{
			name: name, typ: c.Type, own: c.Own, shape: c.Shape, text: c.Text, declared: true,
			path: strings.Split(name, "."),
		})
	}
	return out, nil
}

// declare puts declared columns in the place of those that records show, and of what these have below them.
func declare(shown, declared []column) []column {
	for _, d := range declared {
		shown = slices.DeleteFunc(shown, func(c column) bool {
			n := min(len(c.path), len(d.path))
			return slices.Equal(c.path[:n], d.path[:n])
		})
	}
	return append(shown, declared...)
}

// small gives a column of integers or floats that ops have no kind for the one that they have.
func (c column) small() column {
	if spec.Small(c.typ.Kind) {
		c.own, c.typ.Kind = c.typ.Kind, spec.StandIn(c.typ.Kind)
	}
	return c
}

// option is a value of a format's option, if the dataset gives it.
func option(how *pb.Format, name, otherwise string) string {
	if v, ok := how.GetOptions()[name]; ok {
		return v.GetText()
	}
	return otherwise
}

// numbersOf are those of a kind that lie in bytes, little endian.
func numbersOf(data []byte, kind pb.Kind) ([]any, error) {
	width := spec.Width(kind)
	if width == 0 || len(data)%width != 0 {
		return nil, errors.New("its numbers are cut short")
	}
	var c cell
	c.appendRaw(data, kind)
	out := []any{}
	for _, n := range c.ints {
		if kind == pb.Kind_BOOL {
			out = append(out, n != 0)
			continue
		}
		out = append(out, n)
	}
	for _, x := range c.floats {
		if kind == pb.Kind_FLOAT64 {
			out = append(out, x)
			continue
		}
		out = append(out, float32(x))
	}
	return out, nil
}
