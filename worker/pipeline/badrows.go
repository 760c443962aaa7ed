package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Rows whose own bytes make them fail are left out where the spec says so (on_error: skip_rows): what is wrong with
// them is the same on any worker, so each leaves out the same. They have no place among a window's output rows, which
// k counts. What is wrong with a row shows in three places: when it is decoded, in a step, and when it is laid out.
// What the first two find is left out before the first output row.

// maxBad bounds the rows that are left out of a window, beside what the spec says of an epoch: a batch's metadata names
// the place of each.
const maxBad = 4096

// maxRuns bounds how often the steps run on a window, where others of its rows fail each time: each run finds all that
// fail in one step.
const maxRuns = 64

// badRows are those of the window at hand.
type badRows struct {
	allowed int  // of an epoch
	most    int  // that may be left out
	counted bool // the window's output rows were: what is laid out must be as many
	failing bool // some fail in a step
	rows    []badRow
	first   error
}

// badRow is one of them.
type badRow struct {
	k     uint64 // the output row before which it would stand
	row   int64  // of the file
	cause string
}

func (b *badRows) begin(allowed int, counted bool) {
	*b = badRows{allowed: allowed, most: min(allowed, maxBad), counted: counted, rows: b.rows[:0]}
}

// add leaves a row out because of an error, of which cause is what lies behind the row's name. It returns the error if
// the row may not be left out.
func (b *badRows) add(k uint64, row int64, cause string, err error) error {
	if len(b.rows) == b.most {
		return b.refused(err)
	}
	if b.first == nil {
		b.first = err
	}
	b.rows = append(b.rows, badRow{k: k, row: row, cause: short(cause)})
	return nil
}

// refused is the error of a row that may not be left out as well.
func (b *badRows) refused(err error) error {
	if b.allowed == 0 {
		return err
	}
	return fmt.Errorf("%d rows of a window are bad, and on_error lets %d of an epoch be left out, %d of a window at "+
		"most: %w", len(b.rows)+1, b.allowed, maxBad, err)
}

// left is how many more may be left out before the window is laid out.
func (b *badRows) left() int { return b.most - len(b.rows) }

// maxCause bounds what is said of a row, in bytes.
const maxCause = 300

func short(words string) string {
	if len(words) > maxCause {
		words = words[:maxCause] + " ..."
	}
	return strings.ToValidUTF8(words, "\ufffd")
}

// clear has rows not be chosen that are left out.
func (b *badRows) clear(chosen []uint64, first int64) {
	for _, r := range b.rows {
		at := r.row - first
		chosen[at>>6] &^= 1 << (at & 63)
	}
}

// faults takes in what the decoder could not decode of a window.
func (c *computer) faults(w *tensor.Window) error {
	faulty, ok := c.decoder.(formats.Faulty)
	if !ok {
		return nil
	}
	for _, f := range faulty.Faults() {
		row := w.FirstRow + int64(f.Row)
		err := fmt.Errorf("%s row %d: %w", w.File.GetUri(), row, f.Err)
		if err := c.bad.add(0, row, f.Err.Error(), err); err != nil {
			return err
		}
	}
	return nil
}

// withoutBad runs the steps on a window, and again without the rows that make one fail.
func (c *computer) withoutBad(w *tensor.Window, steps func() error) error {
	c.chain.Forget()
	for before, runs := *w, 1; w.Len() > 0; runs++ {
		err := steps()
		rows := transform.OwnRows(err)
		if len(rows) == 0 {
			return err
		}
		if runs == maxRuns {
			return fmt.Errorf("rows of a window fail however often it is computed without those that do, %d times so "+
				"far; does a function fail at random? %w", runs, err)
		}
		*w = before
		// The steps tell of them in the window's order, which may be shuffled.
		slices.SortStableFunc(rows, func(a, b transform.RowError) int { return cmp.Compare(a.Row, b.Row) })
		var bad []int64
		for i := range rows {
			row := int64(rows[i].Row)
			if len(bad) > 0 && bad[len(bad)-1] == row { // several were made of it
				continue
			}
			if err := c.bad.add(0, row, rows[i].Error(), &rows[i]); err != nil {
				return err
			}
			bad = append(bad, row)
		}
		w.Order = slices.DeleteFunc(ordered(w, &c.windows.order), func(at int32) bool {
			_, is := slices.BinarySearch(bad, w.RowOf(int(at)))
			return is
		})
		before, c.bad.failing = *w, true
	}
	return nil
}

// ordered lists a window's output rows: where none are listed, in the memory of into.
func ordered(w *tensor.Window, into *[]int32) []int32 {
	if w.Order != nil {
		return w.Order
	}
	*into = vector.Grow(*into, w.Rows)
	copy(*into, vector.Counting(w.Rows))
	return *into
}

// leaveOut leaves rows out that cannot be laid out; of the window so many output rows are. It returns the error if they
// may not be.
func (c *computer) leaveOut(w *tensor.Window, err error) error {
	bad, ok := errors.AsType[*tensor.BadRowsError](err)
	if !ok {
		return err
	}
	if c.bad.counted && c.bad.allowed > 0 {
		return fmt.Errorf("on_error lets rows be left out, but not where they were counted before they are read, and "+
			"counting did not see this one: use last_batch: pad or uneven, with order: fast: %w", err)
	}
	for i := range c.bad.rows { // whose places the rows that are left out were counted for
		r := &c.bad.rows[i]
		before, _ := slices.BinarySearch(bad.Outputs, int(r.k))
		r.k -= uint64(before)
	}
	for i, output := range bad.Outputs {
		refused := c.bad.add(uint64(output-i), w.RowOf(w.Source(output)), bad.Cause(i), err)
		if refused != nil {
			return refused
		}
	}
	slices.SortStableFunc(c.bad.rows, func(a, b badRow) int { return cmp.Compare(a.k, b.k) })
	order, next := ordered(w, &c.windows.kept), 0
	w.Order = order[:0]
	for output, row := range order {
		if next < len(bad.Outputs) && bad.Outputs[next] == output {
			next++
			continue
		}
		w.Order = append(w.Order, row)
	}
	return nil
}

// namedRows is how many bad rows of a batch are named.
const namedRows = 4

// tell says in a batch's metadata what was left out before its rows, and before the row behind them if it is the last.
func (b *badRows) tell(m *pb.BatchMeta) {
	end := m.GetK() + uint64(m.GetRows())
	for _, r := range b.rows {
		switch {
		case r.k < m.GetK():
			m.SkippedBefore++
		case r.k < end || m.GetLast() && r.k == end:
			m.Skipped = append(m.Skipped, r.k)
			if len(m.BadRows) < namedRows {
				m.BadRows = append(m.BadRows, &pb.BadRow{Row: r.row, Cause: r.cause})
			}
		}
	}
}
