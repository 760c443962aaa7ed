package transform

import (
	"fmt"

	"github.com/penstock-ml/penstock/worker/vector"
)

// Where rows of a window may fail, the steps run again without those that did. A function is called on a window's rows
// once, all the same: what it made is kept until the window's end, and taken from there.

// recalled is what a function made of a window's rows.
type recalled struct {
	rows    []int32         // of the window: those that it was called with; none: it was not
	parents []int32         // which of these each row of the results is of
	out     []vector.Vector // the results, where the function has them
	again   []vector.Excerpt
	places  []int32 // of rows among those that are there yet; -1: it is not
	kept    []int32 // rows of the results
	behind  []int32 // parents, of these
	held    int64   // bytes that all this has
}

// Forget has functions be called anew: another window begins.
func (c *Chain) Forget() {
	for _, at := range c.calling {
		m := &c.steps[at].calls.made
		m.rows = m.rows[:0]
	}
}

// checkFailed finds what is wrong with the rows that a function says failed.
func checkFailed(c *Call) error {
	if len(c.Failed) > c.Skip {
		return fmt.Errorf("the function says of %d rows that they failed, and %d may", len(c.Failed), c.Skip)
	}
	next, failed := 0, make(map[int32]bool, len(c.Failed))
	for _, row := range c.Failed {
		if row.Row < next || row.Row >= c.N {
			return fmt.Errorf("the function says of row %d of %d, in no order, that it failed", row.Row, c.N)
		}
		next, failed[int32(row.Row)] = row.Row+1, true
	}
	for _, row := range c.Parents {
		if failed[row] {
			return fmt.Errorf("the function made something of row %d, and says that it failed", row)
		}
	}
	return nil
}

// keep keeps what a call made, and returns the error of rows that failed.
func (f *calling) keep(c *Call) error {
	m := &f.made
	if err := m.hold(f, 4*int64(2*c.N+len(c.Parents))); err != nil {
		return err
	}
	m.rows, m.parents = vector.Grow(m.rows, c.N), m.parents[:0]
	for i := range m.rows {
		m.rows[i] = int32(c.Rows.Of(i))
	}
	if c.Parents != nil {
		m.parents = append(m.parents, c.Parents...)
	} else {
		failed := c.Failed
		for i := range int32(c.N) {
			if len(failed) > 0 && failed[0].Row == int(i) {
				failed = failed[1:]
				continue
			}
			m.parents = append(m.parents, i)
		}
	}
	m.out = m.out[:0]
	for _, v := range f.out {
		m.out = append(m.out, *v)
	}
	if len(c.Failed) > 0 {
		return &RowsError{c.Failed}
	}
	return nil
}

// recall takes what was made of rows from what is kept; known is false if it has not all of it.
func (f *calling) recall(b *barrier, of Rows, rows int) (known bool, err error) {
	m := &f.made
	m.places = vector.Grow(m.places, len(m.rows))
	at := 0
	for i, row := range m.rows {
		if m.places[i] = -1; at < rows && of.Of(at) == int(row) {
			m.places[i] = int32(at)
			at++
		}
	}
	if len(m.rows) == 0 || at < rows {
		return false, nil
	}
	m.kept, m.behind = m.kept[:0], m.behind[:0]
	for i, parent := range m.parents {
		if place := m.places[parent]; place >= 0 {
			m.kept, m.behind = append(m.kept, int32(i)), append(m.behind, place)
		}
	}
	if f.parents = nil; b != nil {
		f.parents = m.behind
	} else if len(m.kept) != rows {
		return false, nil
	}
	return true, f.take(m)
}

// take makes the results that are kept.
func (f *calling) take(m *recalled) error {
	need := 4 * int64(cap(m.rows)+cap(m.parents)+cap(m.places)+cap(m.kept)+cap(m.behind))
	for i := range m.out {
		need += vector.SizeOf(&m.out[i], m.kept)
	}
	if err := m.hold(f, need); err != nil {
		return err
	}
	if m.again == nil {
		m.again = make([]vector.Excerpt, len(m.out))
	}
	for i := range m.out {
		*f.out[i] = *m.again[i].Take(&m.out[i], m.kept)
	}
	return nil
}

// hold asks for memory beyond what there is.
func (m *recalled) hold(f *calling, bytes int64) error {
	err := f.room(bytes - m.held)
	if err == nil {
		m.held = max(m.held, bytes)
	}
	return err
}
