package pipeline

import (
	"fmt"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/tensor"
)

// ShortError says that a window has fewer rows than its trainer has of it. Nobody can go on, as where a file changed.
type ShortError struct {
	Window      uint32
	Rows, Taken uint64
	By          string // the functions that choose or make its rows; "": there are none
}

func (e *ShortError) Error() string {
	return fmt.Sprintf("window %d has %d rows, and the trainer has taken %d of it: %s", e.Window, e.Rows, e.Taken,
		whyOthers(e.By))
}

func (e *ShortError) Unwrap() error { return storage.ErrChanged }

// CountError says that a window has other rows than were counted of it, by which they were granted. Nobody can go on,
// either.
type CountError struct {
	First         int64 // row of the file
	Rows, Counted int
	By            string // as in ShortError
}

func (e *CountError) Error() string {
	return fmt.Sprintf("the window from row %d on has %d rows, and %d were counted before: %s", e.First, e.Rows,
		e.Counted, whyOthers(e.By))
}

func (e *CountError) Unwrap() error { return storage.ErrChanged }

// whyOthers says why rows may be others than they were.
func whyOthers(by string) string {
	if by == "" {
		return "do all workers run the same release, and is the file as it was?"
	}
	return "the number of rows that " + by + " makes does not repeat; have it depend on its inputs alone"
}

// repeats checks that a window, which begins at a row of an extent, has the rows that were counted, if they were.
func (c *computer) repeats(g *extent, row int64, w *tensor.Window) error {
	i := row / g.GetWindowRows()
	if i >= int64(len(g.GetOutputs())) || int(g.GetOutputs()[i]) == w.Len() {
		return nil
	}
	if err := c.bad.first; err != nil { // a row that is bad where counting does not look
		return err
	}
	return &CountError{
		First: g.GetFirstRow() + row, Rows: w.Len(), Counted: int(g.GetOutputs()[i]), By: c.chain.Barriers(),
	}
}
