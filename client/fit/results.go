package fit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/penstock-ml/penstock/internal/fitted"
)

// result makes the rows of a statistic of what a column's set has.
type result interface {
	// take is called with each distinct value, in ascending order.
	take(key []byte, count uint64) error
	// rows is called once there are no more.
	rows(write func(fitted.Row) error) error
}

// finish makes the results of a column.
func (c *column) finish(ctx context.Context) error {
	for _, s := range c.Statistics {
		c.results = append(c.results, c.resultOf(s))
	}
	if c.set == nil {
		return nil
	}
	m, done, err := c.set.all()
	if err != nil {
		return err
	}
	defer done()
	c.rounded = c.set.rounded
	for n := 0; ; n++ {
		ok, err := m.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if n%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, r := range c.results {
			if err := r.take(m.key(), m.count()); err != nil {
				return err
			}
		}
	}
	return c.set.release()
}

func (c *column) resultOf(s fitted.Statistic) result {
	switch s.Name {
	case fitted.Moments:
		return &moments{c}
	case fitted.Quantiles:
		return newQuantiles(c, s)
	case fitted.MostFrequent:
		return &mostFrequent{column: c}
	}
	return &vocabulary{column: c, least: s.MinCount, sorted: byCount{
		column: c.index, folder: c.folder, memory: c.sorting, max: s.MaxSize,
	}}
}

// write writes the results.
func (c *column) write(w *fitted.Writer) error {
	for i, s := range c.Statistics {
		relative := 0.0
		if c.rounded && s.Name == fitted.Quantiles {
			relative = roundingError
		}
		if err := w.Begin(s, c.Kind, relative); err != nil {
			return err
		}
		if err := c.results[i].rows(w.Append); err != nil {
			return err
		}
	}
	return nil
}

// value is that of a key of the set.
func (c *column) value(key []byte) fitted.Value {
	if c.flip != 0 {
		return fitted.Int(int64(binary.BigEndian.Uint64(key)))
	}
	return valueOf(key, c.Kind, c.rounded)
}

// place is where the set has the value of a rank among int64s: in the order of uint64s negative ones come last.
func (c *column) place(rank uint64) uint64 {
	switch negative := c.tally.Negative; {
	case c.flip == 0:
		return rank
	case rank <= negative:
		return rank + c.tally.Values - negative
	default:
		return rank - negative
	}
}

type moments struct{ *column }

func (moments) take([]byte, uint64) error { return nil }

func (m *moments) rows(write func(fitted.Row) error) error {
	t := &m.tally
	s := fitted.Summary{
		Values: int64(t.Values), Nulls: int64(t.Nulls), NaNs: int64(t.NaNs), Infinite: int64(t.Infinite),
	}
	if t.Values > 0 {
		number := func(key uint64) fitted.Value {
			return valueOf(binary.BigEndian.AppendUint64(nil, key), m.Kind, false)
		}
		s.Min, s.Max = number(t.Min), number(t.Max)
		if t.Infinite == 0 {
			mean, std := m.exact.meanStd(t.Values)
			s.Mean, s.Std = fitted.Float(mean), fitted.Float(std)
		}
	}
	for _, r := range s.Rows() {
		if err := write(r); err != nil {
			return err
		}
	}
	return nil
}

// quantiles are the values at ranks: that of share q of n values is the least whole number that is at least q n, and 1.
type quantiles struct {
	*column
	names  []string
	ranks  []uint64 // in the set
	order  []int    // of the ranks
	values []fitted.Value
	seen   uint64
}

func newQuantiles(c *column, s fitted.Statistic) *quantiles {
	q := &quantiles{column: c, names: s.Names()}
	for _, share := range s.Shares {
		exact, _ := new(big.Rat).SetString(strconv.FormatFloat(share, 'g', -1, 64))
		q.ranks = append(q.ranks, c.place(rank(exact, c.tally.Values)))
	}
	for i := 1; i < s.Parts; i++ {
		q.ranks = append(q.ranks, c.place(rank(big.NewRat(int64(i), int64(s.Parts)), c.tally.Values)))
	}
	for i := range q.ranks {
		q.order = append(q.order, i)
	}
	slices.SortStableFunc(q.order, func(a, b int) int { return cmp.Compare(q.ranks[a], q.ranks[b]) })
	q.values = make([]fitted.Value, len(q.ranks))
	return q
}

func rank(share *big.Rat, n uint64) uint64 {
	at := share.Mul(share, new(big.Rat).SetInt(new(big.Int).SetUint64(n)))
	whole, rest := new(big.Int).QuoRem(at.Num(), at.Denom(), new(big.Int))
	r := whole.Uint64()
	if rest.Sign() > 0 {
		r++
	}
	return max(r, 1)
}

func (q *quantiles) take(key []byte, count uint64) error {
	q.seen += count
	for len(q.order) > 0 && q.ranks[q.order[0]] <= q.seen {
		q.values[q.order[0]] = q.value(key)
		q.order = q.order[1:]
	}
	return nil
}

func (q *quantiles) rows(write func(fitted.Row) error) error {
	for i, name := range q.names {
		if err := write(fitted.Row{Name: name, ID: -1, Count: -1, Value: q.values[i]}); err != nil {
			return err
		}
	}
	return nil
}

type mostFrequent struct {
	*column
	key   []byte
	count uint64
}

func (m *mostFrequent) take(key []byte, count uint64) error {
	if count > m.count {
		m.key, m.count = bytes.Clone(key), count
	}
	return nil
}

func (m *mostFrequent) rows(write func(fitted.Row) error) error {
	r := fitted.Row{Name: fitted.MostFrequent, ID: -1, Count: int64(m.count)}
	if m.count > 0 {
		r.Value = m.value(m.key)
	}
	return write(r)
}

type vocabulary struct {
	*column
	least  uint64
	sorted byCount
}

func (v *vocabulary) take(key []byte, count uint64) error {
	if count < v.least {
		return nil
	}
	return v.sorted.add(key, count)
}

func (v *vocabulary) rows(write func(fitted.Row) error) error {
	id := int64(0)
	if err := v.sorted.each(func(key []byte, count uint64) error {
		r := fitted.Row{ID: id, Value: v.value(key), Count: int64(count)}
		id++
		return write(r)
	}); err != nil {
		return fmt.Errorf("column %s: vocabulary: %w", v.Name, err)
	}
	return v.sorted.release()
}

// needsSet reports whether a statistic needs the distinct values, and whether it needs them exactly.
func needsSet(s fitted.Statistic) (set, exact bool) {
	return s.Name != fitted.Moments, s.Name == fitted.MostFrequent || s.Name == fitted.Vocabulary
}
