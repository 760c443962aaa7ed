package transform

import (
	"errors"
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/lookup"
	"github.com/penstock-ml/penstock/worker/vector"
)

// join is what specs say. spec.Resolve makes a step of it that finds rows of the table, and one for each column.
func join() Op {
	return Op{
		Name:    spec.LookupOp,
		Version: 1,
		Summary: "Takes columns of the row of a side table that has the inputs as its key. Keys that the table lacks " +
			"become default, or null without one.",
		Exact: "the column's value in the row whose `key` columns are the inputs. Of rows with `as_of` that is the newest " +
			"one that is not newer than the last input, nor older than that by more than `max_age`; of rows as new " +
			"as each other the last one. A key that the table lacks becomes `default`, or null without one; so does " +
			"one of which no row counts at that time. A null key becomes null, and so does a null time. Rows of the " +
			"table that have a null key or a null time count as none",
		Inputs: "one scalar or list of ints or text for each column of the key, of several scalars; with as_of a " +
			"time (int32, int64 or a timestamp) behind them",
		Output: "the column's type; a list of the column's type for a list",
		Fails:  "a table with two rows of one key, unless `duplicates` or `as_of` says which counts",
		Params: []Param{
			{
				Name: "table", Want: Text, Required: true, Positional: true, Python: "str | os.PathLike[str]",
				Doc: "URI of the file, which is pinned when the session is opened",
			},
			{
				Name: "columns", Want: Texts, Required: true, Positional: true,
				Doc: "names of the columns to take",
			},
			{
				Name: "key", Want: Texts,
				Doc: "names of the key's columns; left out: those of the inputs",
			},
			{
				Name: "default", Want: Scalar,
				Doc: "for keys that the table lacks, in columns of scalars; left out: null",
			},
			{
				Name: "duplicates", Want: Text, Default: "error", OneOf: []string{"error", "first"},
				Doc: "what two rows of one key are: an error, or the first of them counts",
			},
			{Name: "as_of", Want: Text, Doc: "column that says from when on a row counts"},
			{
				Name: "max_age", Want: Scalar, Python: "int | str",
				Doc: "rows that are older count as none: an int in the unit of the time, or a text such as 90s, 12h " +
					"or 7d; left out: any age",
			},
			{
				Name: "unit", Want: Text, OneOf: []string{"d", "s", "ms", "us", "ns"},
				Doc: "what a time counts in, if that is an int or a date, which counts d, and the other one is a " +
					"timestamp",
			},
			{Name: "storage", Want: Text, Doc: "storage profile that opens the table; left out: the dataset's"},
		},
		Out: "name of the result, with {} for the column's; by default the column's alone",
		Example: "{op: lookup, in: cat_1, table: 's3://bucket/items.parquet', key: item_id, columns: [price, stock], " +
			"out: \"item_{}\"}",
		resolved: true,
	}
}

// lookupRow finds the rows of a step's table. Numbers of rows are int32; Absent is no row.
func lookupRow() Op {
	return Op{
		Name:    spec.LookupRowOp,
		Version: 1,
		Summary: "Finds rows of a side table.",
		Inputs:  "the keys, and the time",
		Output:  "int32, scalar or list like the first input",
		Params: []Param{
			{Name: "as_of", Want: Bool, Default: false, Doc: "the last input is a time"},
			{Name: "max_age", Want: Int, Doc: "in the time's unit"},
			{Name: "times", Want: PositiveInt, Default: 1, Doc: "how many of the table's units one of the time's is"},
			{Name: "per", Want: PositiveInt, Default: 1, Doc: "how many of the time's units one of the table's is"},
		},
		Infer: func(p Params, in []spec.Type) (spec.Type, error) {
			keys := in
			if p.Bool("as_of") && len(in) > 0 {
				keys = in[:len(in)-1]
				if t := in[len(keys)]; t.List || !isInteger(t.Kind) {
					return spec.Type{}, fmt.Errorf("in: want a time, an int or a timestamp, as the last one, found %v",
						t)
				}
			}
			if len(keys) == 0 {
				return spec.Type{}, errors.New("in: found nothing; want the keys to look up")
			}
			for _, t := range keys {
				if !isInteger(t.Kind) && t.Kind != pb.Kind_BINARY || t.List && len(keys) > 1 {
					return spec.Type{}, fmt.Errorf("in: want ints or texts to look up, scalars if the key has several "+
						"columns, found %v", t)
				}
			}
			return spec.Type{Kind: pb.Kind_INT32, List: keys[0].List}, nil
		},
		newLookup: func(p Params, in []spec.Type, t *lookup.Table) (Kernel, error) {
			k := &rowFinder{table: t, keys: len(in)}
			if t.AsOf() != p.Bool("as_of") {
				return nil, errors.New("the step and its table do not agree on whether rows count from a time on")
			}
			if t.AsOf() {
				k.keys--
				k.times = &times{times: p.Int("times"), per: p.Int("per"), maxAge: -1}
				if p.Has("max_age") {
					k.times.maxAge = p.Int("max_age")
				}
			}
			return k, nil
		},
	}
}

// lookupColumn takes a column of the rows that lookupRow found.
func lookupColumn() Op {
	return Op{
		Name:    spec.LookupColumnOp,
		Version: 1,
		Summary: "Takes a column of rows of a side table.",
		Inputs:  "rows, as lookup_row makes them",
		Output:  "the column's type; a list of it for a list",
		Params: []Param{
			{Name: "column", Want: Int, Default: 0, Doc: "which one, behind those of the key"},
			{Name: "type", Want: Text, Required: true, Doc: "the column's type"},
			{Name: "default", Want: Scalar, Doc: "for rows that there are not"},
		},
		Infer: func(p Params, in []spec.Type) (spec.Type, error) {
			t, ok := spec.ParseType(p.Text("type"))
			switch {
			case !ok || !t.Computes() || isPicture(t):
				return spec.Type{}, fmt.Errorf("a lookup cannot take a column of %s", p.Text("type"))
			case len(in) != 1 || in[0].Kind != pb.Kind_INT32:
				return spec.Type{}, fmt.Errorf("in: want rows of a table, found %v", in)
			case t.List && in[0].List:
				return spec.Type{}, fmt.Errorf("a list of keys makes a list of values, and this column has lists: it "+
					"is %v; look up scalars, or take another column", t)
			case p.Has("default") && !t.List:
				if _, err := newTaker(t, p); err != nil {
					return spec.Type{}, err
				}
			}
			t.List = t.List || in[0].List
			return t, nil
		},
		newLookup: func(p Params, _ []spec.Type, t *lookup.Table) (Kernel, error) {
			at := p.Int("column")
			if at < 0 || at >= int64(len(t.Columns())) {
				return nil, fmt.Errorf("column %d of a table that has %d", at, len(t.Columns()))
			}
			c := t.Columns()[at]
			if want, _ := spec.ParseType(p.Text("type")); c.Type != want {
				return nil, fmt.Errorf("column %d of the table is %v, the step says %v", at, c.Type, want)
			}
			take, err := newTaker(c.Type, p)
			if err != nil {
				return nil, err
			}
			take.pieces(c.Pieces)
			return take, nil
		},
	}
}

// rowFinder is the kernel of lookupRow. Rows of null keys are Absent, too.
type rowFinder struct {
	table       *lookup.Table
	keys        int
	times       *times // nil: rows count at any time
	valid       []uint64
	from, until []int64
}

func (k *rowFinder) again() Kernel { return &rowFinder{table: k.table, keys: k.keys, times: k.times} }

// Borrows says that results never are the inputs' values.
func (k *rowFinder) Borrows() bool { return false }

func (k *rowFinder) Run(out *vector.Vector, in []*vector.Vector) error {
	first := in[0]
	n := first.Len()
	out.I32 = vector.Grow(out.I32, n)
	k.table.Find(out.I32, in[:k.keys])
	shareShape(out, first)
	valid, own := first.ValueValid(), false
	and := func(v *vector.Vector) {
		if !hasNulls(v.Valid, v.Rows) {
			return
		}
		if !own {
			k.valid = copyValid(k.valid, valid, n)
			valid, own = k.valid, true
		}
		clearNulls(valid, first, v)
	}
	for _, v := range in[1:] {
		and(v)
	}
	if own {
		setValueValid(out, valid)
	}
	if k.times != nil {
		k.from, k.until = vector.Grow(k.from, n), vector.Grow(k.until, n)
		k.times.spans(k.from, k.until, first, in[k.keys])
		k.table.At(out.I32, k.from, k.until)
	}
	return nil
}

// clearNulls clears the bits of values of a vector whose row is null in another one, of scalars.
func clearNulls(valid []uint64, values, v *vector.Vector) {
	if !values.Type.List {
		for i, word := range v.Valid[:vector.Words(v.Rows)] {
			valid[i] &= word
		}
		return
	}
	for row := range v.Rows {
		if v.IsNull(row) {
			for j := values.Offsets[row]; j < values.Offsets[row+1]; j++ {
				clearBit(valid, int(j))
			}
		}
	}
}

// times makes of the time of an example the span in which a row of the table has to count, in the table's unit.
type times struct {
	times, per int64 // one of them is 1
	maxAge     int64 // -1: any
}

// spans writes the span for each value of a vector, whose row's time another one has.
func (t *times) spans(from, until []int64, values, at *vector.Vector) {
	for row := range at.Rows {
		first, last := row, row+1
		if values.Type.List {
			first, last = int(values.Offsets[row]), int(values.Offsets[row+1])
		}
		if first == last {
			continue
		}
		now := int64(0)
		if at.Type.Kind == pb.Kind_INT32 {
			now = int64(at.I32[row])
		} else {
			now = at.I64[row]
		}
		low, high := t.span(now)
		for j := first; j < last; j++ {
			from[j], until[j] = low, high
		}
	}
}

func (t *times) span(now int64) (from, until int64) {
	from, until = math.MinInt64, multiplied(floorDiv(now, t.per), t.times)
	if t.maxAge >= 0 && now >= math.MinInt64+t.maxAge {
		oldest := now - t.maxAge
		from = multiplied(oldest, t.times)
		if t.per > 1 {
			if from = floorDiv(oldest, t.per); from*t.per != oldest {
				from++
			}
		}
	}
	return from, until
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// multiplied is a product, or the int64 that is nearest to it. No row counts at the least one only because it is.
func multiplied(a, b int64) int64 {
	switch {
	case a > math.MaxInt64/b:
		return math.MaxInt64
	case a < math.MinInt64/b:
		return math.MinInt64
	}
	return a * b
}
