package convert

import (
	"context"
	"errors"
	"fmt"
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
// the same columns, but not in the same order. Where a map or a struct of one is several columns of the other, what
// specs select of them is compared: a key whose value is null is none, and the last of several counts. It fails where
// they cannot be compared, not where they differ.
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
	arranged := len(o.SortBy)+len(o.PartitionBy) > 0 || o.Shuffle != nil
	before, err := openSide(ctx, o, in)
	if err != nil {
		return err
	}
	defer func() { before.close() }()
	result := Options{Store: o.Store, Profile: o.OutProfile}
	back, err := readBackOf(&o, before.schema())
	if err != nil {
		return err
	}
	if back != nil {
		before.source, result.Columns = back.of(before.source), back.columns
		o.SortBy = nil // who reads text sorts by text
	}
	for _, name := range made {
		result.Inputs = append(result.Inputs, storage.Quote(name))
	}
	found, err := find(ctx, result) // without a format, by which files without rows might be left out
	if err != nil {
		return err
	}
	if back != nil {
		result.Format = back.format
	}
	after, err := openSide(ctx, result, &found)
	if err != nil {
		return err
	}
	defer after.close()
	if arranged {
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
	m, err := match(a, b)
	if err != nil {
		return c, err
	}
	c.Columns = len(m.pairs) + len(m.maps)
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
		c.rows(a, b, m, n)
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
func (c *Comparison) rows(a, b *side, m *matched, n int64) {
	var differing []bool
	differ := func(row int64, name, inA, inB string) {
		if differing == nil {
			differing = make([]bool, n)
		}
		differing[row] = true
		c.differ("column %s: %s in %s, %s in %s", name, short(inA), a.where(a.used+row), short(inB),
			b.where(b.used+row))
	}
	for _, p := range m.pairs {
		p.rows(a, b, n, differ)
	}
	for _, p := range m.maps {
		p.rows(a, b, int(n), differ)
	}
	for _, d := range differing {
		if d {
			c.Different++
		}
	}
}

// rows compares the next n rows of a column.
func (p *pair) rows(a, b *side, n int64, differ func(row int64, name, inA, inB string)) {
	inA, inB := a.rec.Column(p.a.column), b.rec.Column(p.b.column)
	plain := len(p.a.fields)+len(p.b.fields) == 0
	if plain && equalRuns(inA, int(a.used), inB, int(b.used), int(n)) {
		return
	}
	for row := range n {
		x, y := p.a.at(a, row), p.b.at(b, row)
		if !equalCells(x, y) {
			differ(row, p.a.name, x.String(), y.String())
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
