package convert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/dustin/go-humanize"

	"github.com/penstock-ml/penstock/internal/storage"
)

// Comparison is what Compare found.
type Comparison struct {
	Rows    int64 `json:"rows"` // of both; where one has more, of that one
	Columns int   `json:"columns"`
	// Different counts rows. Those that one side lacks are among them.
	Different int64 `json:"different"`
	// First are the first differences, in words.
	First []string `json:"first,omitempty"`
}

// Err tells of differences, if there are any.
func (c Comparison) Err() error {
	if c.Different == 0 {
		return nil
	}
	return fmt.Errorf("%s of %s rows differ:\n  %s", humanize.Comma(c.Different), humanize.Comma(c.Rows),
		strings.Join(c.First, "\n  "))
}

// shown is how many differences are told.
const shown = 5

func (c *Comparison) differ(format string, args ...any) {
	if len(c.First) < shown {
		c.First = append(c.First, fmt.Sprintf(format, args...))
	}
}

// Compare compares the rows of two datasets, each read as Run would read it, one by one, in their order. They must have
// the same columns, but not in the same order. It fails where they cannot be compared, not where they differ.
func Compare(ctx context.Context, a, b Options) (c Comparison, err error) {
	var sides [2]side
	for i, o := range []Options{a, b} {
		if o.Store == nil {
			return c, errors.New("compare: no storage")
		}
		if err := o.checkInputs(); err != nil {
			return c, err
		}
		in, err := find(ctx, o)
		if err != nil {
			return c, err
		}
		_ = o.recognise(ctx, &in) // who looks at differences sees the columns' names
		if sides[i], err = openSide(ctx, o, &in); err != nil {
			return c, err
		}
		defer sides[i].close()
	}
	return compare(ctx, &sides[0], &sides[1])
}

// verify compares the inputs of a conversion with what it made.
func verify(ctx context.Context, o Options, in *inputs, made []string) error {
	before, err := openSide(ctx, o, in)
	if err != nil {
		return err
	}
	defer before.close()
	result := Options{Store: o.Store, Profile: o.OutProfile}
	for _, name := range made {
		result.Inputs = append(result.Inputs, storage.Quote(name))
	}
	found, err := find(ctx, result)
	if err != nil {
		return err
	}
	after, err := openSide(ctx, result, &found)
	if err != nil {
		return err
	}
	defer after.close()
	if len(o.SortBy)+len(o.PartitionBy) > 0 {
		err = verifyArranged(ctx, o, &before, &after)
	} else {
		var c Comparison
		if c, err = compare(ctx, &before, &after); err == nil {
			err = c.Err()
		}
	}
	if err != nil {
		return fmt.Errorf(
			"the output was written, but does not hold what the inputs do; do not use it, and report this: %w", err)
	}
	return nil
}

// side is one of two datasets.
type side struct {
	source
	in   *inputs
	rec  arrow.Record // being compared
	used int64        // rows of it
}

func openSide(ctx context.Context, o Options, in *inputs) (side, error) {
	if o.InferRows == 0 {
		o.InferRows = defaultInferRows
	}
	src, err := openSource(ctx, o, in)
	return side{source: src, in: in}, err
}

// fill reads more rows if none are left, and reports whether there are any.
func (s *side) fill(ctx context.Context) (bool, error) {
	if s.rec != nil && s.used < s.rec.NumRows() {
		return true, nil
	}
	var err error
	s.rec, err = s.next(ctx, batchRows)
	s.used = 0
	if errors.Is(err, errEnd) {
		s.rec = nil
		return false, nil
	}
	return err == nil, err
}

// where says of a row of the record where it stands.
func (s *side) where(i int64) string {
	end := s.behind()
	if row := end.Row - s.rec.NumRows() + i; row >= 0 {
		return fmt.Sprintf("%s row %d", s.in.name(end.Input), row)
	}
	return "a file before " + s.in.name(end.Input) // text files may end inside of a record
}

func compare(ctx context.Context, a, b *side) (c Comparison, err error) {
	columns, err := match(a, b)
	if err != nil {
		return c, err
	}
	c.Columns = len(columns)
	for {
		inA, err := a.fill(ctx)
		if err != nil {
			return c, err
		}
		inB, err := b.fill(ctx)
		if err != nil {
			return c, err
		}
		switch {
		case !inA && !inB:
			return c, nil
		case !inB:
			return c, c.more(ctx, a, b)
		case !inA:
			return c, c.more(ctx, b, a)
		}
		n := min(a.rec.NumRows()-a.used, b.rec.NumRows()-b.used)
		c.rows(a, b, columns, n)
		c.Rows, a.used, b.used = c.Rows+n, a.used+n, b.used+n
	}
}

// more counts the rows that only one side has.
func (c *Comparison) more(ctx context.Context, longer, shorter *side) error {
	c.differ("%s and what follows is not in %s, which ends", longer.where(longer.used), shorter.in.name(0))
	for {
		n := longer.rec.NumRows() - longer.used
		c.Rows, c.Different, longer.used = c.Rows+n, c.Different+n, longer.rec.NumRows()
		if more, err := longer.fill(ctx); err != nil || !more {
			return err
		}
	}
}

// rows compares the next n rows of both sides, column by column.
func (c *Comparison) rows(a, b *side, columns []int, n int64) {
	var differing []bool
	for i, j := range columns {
		inA, inB := a.rec.Column(i), b.rec.Column(j)
		if equalRuns(inA, int(a.used), inB, int(b.used), int(n)) {
			continue
		}
		for row := range n {
			if equal(inA, int(a.used+row), inB, int(b.used+row)) {
				continue
			}
			if differing == nil {
				differing = make([]bool, n)
			}
			differing[row] = true
			c.differ("column %s: %s in %s, %s in %s", a.schema().Field(i).Name,
				short(inA.ValueStr(int(a.used+row))), a.where(a.used+row),
				short(inB.ValueStr(int(b.used+row))), b.where(b.used+row))
		}
	}
	for _, d := range differing {
		if d {
			c.Different++
		}
	}
}

// short cuts a value that is shown.
func short(value string) string {
	const limit = 60
	if len(value) > limit {
		return strings.ToValidUTF8(value[:limit], "") + "..."
	}
	return value
}

// match returns, by column of a, the same column of b.
func match(a, b *side) ([]int, error) {
	inA, inB := a.schema().Fields(), b.schema().Fields()
	columns := make([]int, len(inA))
	for i, f := range inA {
		named := func(g arrow.Field) bool { return g.Name == f.Name }
		j := slices.IndexFunc(inB, named)
		if j < 0 {
			return nil, fmt.Errorf("column %s of %s is not in %s", f.Name, a.in.name(0), b.in.name(0))
		}
		if g := inB[j]; !sameType(written(f.Type), written(g.Type)) {
			return nil, fmt.Errorf("column %s is %v in %s, but %v in %s", f.Name, f.Type, a.in.name(0), g.Type,
				b.in.name(0))
		}
		columns[i] = j
	}
	for _, g := range inB {
		if !slices.ContainsFunc(inA, func(f arrow.Field) bool { return f.Name == g.Name }) {
			return nil, fmt.Errorf("column %s of %s is not in %s", g.Name, b.in.name(0), a.in.name(0))
		}
	}
	return columns, nil
}
