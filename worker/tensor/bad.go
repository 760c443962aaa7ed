package tensor

import (
	"fmt"
	"strings"
)

// BadRowsError says which rows of a piece cannot be laid out because of their values, on any worker.
type BadRowsError struct {
	Tensor  string
	Outputs []int // rows of the window's output, ascending
	row     string
	causes  []error
}

func (e *BadRowsError) Error() string {
	return fmt.Sprintf("tensor %s: %s%v", e.Tensor, e.row, e.causes[0])
}

// Cause is what is wrong with a row, without its name.
func (e *BadRowsError) Cause(i int) string {
	return fmt.Sprintf("tensor %s: %s", e.Tensor, strings.TrimLeft(e.causes[i].Error(), ": "))
}

// badRows gathers those of an output.
type badRows struct {
	of  *Window
	err *BadRowsError // nil: there are none
}

// maxBad is how many bad rows of a piece are named at once. More show when it is laid out without these.
const maxBad = 256

// add notes a row of the window's output. The cause's words come behind the row's name.
func (b *badRows) add(output int, cause error) {
	if b.err == nil {
		b.err = &BadRowsError{row: fmt.Sprintf("%s row %d", b.of.File.GetUri(), b.of.RowOf(b.of.Source(output)))}
	}
	if e := b.err; len(e.Outputs) < maxBad {
		e.Outputs, e.causes = append(e.Outputs, output), append(e.causes, cause)
	}
}

// any is an error of all of them; nil: there are none.
func (b *badRows) any() error {
	if b.err == nil {
		return nil
	}
	return b.err
}
