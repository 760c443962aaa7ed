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

// badRows are those of the window at hand.
type badRows struct {
	most    int  // that may be left out
	counted bool // the window's output rows were: what is laid out must be as many
	rows    []badRow
	first   error
}

// badRow is one of them.
type badRow struct {
	k     uint64 // the output row before which it would stand
	row   int64  // of the file
	cause string
}

func (b *badRows) begin(most int, counted bool) {
	*b = badRows{most: min(most, maxBad), counted: counted, rows: b.rows[:0]}
}

// add leaves a row out because of an error, of which cause is what lies behind the row's name. It returns the error if
// the row may not be left out.
func (b *badRows) add(k uint64, row int64, cause string, err error) error {
	if len(b.rows) == b.most {
		return err
	}
	if b.first == nil {
		b.first = err
	}
	b.rows = append(b.rows, badRow{k: k, row: row, cause: short(cause)})
	return nil
}

// maxCause bounds what is said of a row, in bytes.
const maxCause = 300

func short(words string) string {
	if len(words) > maxCause {
		words = words[:maxCause] + " ..."
	}
	return strings.ToValidUTF8(words, "\ufffd")
}

// has reports whether a row of the file is left out.
func (b *badRows) has(row int64) bool {
	return slices.ContainsFunc(b.rows, func(r badRow) bool { return r.row == row })
}

// clear has rows not be chosen that are left out.
func (b *badRows) clear(chosen []uint64, first int64) {
	for _, r := range b.rows {
		at := r.row - first
		chosen[at>>6] &^= 1 << (at & 63)
	}
}

// faults takes in what the decoder could not decode of a window, by Next, or by Rest, once rows were chosen: others do
// not matter then.
func (c *computer) faults(w *tensor.Window, chosen bool) error {
	faulty, ok := c.decoder.(formats.Faulty)
	if !ok {
		return nil
	}
	var late []int32
	for _, f := range faulty.Faults() {
		row := w.FirstRow + int64(f.Row)
		if chosen && (c.bad.has(row) || w.Order != nil && !slices.Contains(w.Order, int32(f.Row))) {
			continue
		}
		err := fmt.Errorf("%s row %d: %w", w.File.GetUri(), row, f.Err)
		if err := c.bad.add(0, row, f.Err.Error(), err); err != nil {
			return err
		}
		late = append(late, int32(f.Row))
	}
	if chosen && len(late) > 0 {
		w.Order = slices.DeleteFunc(ordered(w, &c.windows.order), func(row int32) bool {
			return slices.Contains(late, row)
		})
	}
	return nil
}

// withoutBad runs the steps on a window, and again without each row that makes them fail.
func (c *computer) withoutBad(w *tensor.Window, steps func() error) error {
	for before := *w; w.Len() > 0; {
		err := steps()
		bad, ok := errors.AsType[*transform.RowError](err)
		if !ok || !bad.Own {
			return err
		}
		*w = before
		row := int64(bad.Row)
		if err := c.bad.add(0, row, err.Error(), err); err != nil {
			return err
		}
		w.Order = slices.DeleteFunc(ordered(w, &c.windows.order), func(at int32) bool {
			return w.RowOf(int(at)) == row
		})
		before = *w
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
	if !ok || c.bad.counted {
		return err
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
