package transform

import (
	"errors"
	"fmt"
)

// RowError is about one row: a kernel's names that of its vectors, Run's that of the file.
type RowError struct {
	Step string // "transforms[3] (clamp of int_1)"; Run says it
	Row  int
	What string // "has 3 ids and 2 scores": what is wrong with the row
	// Own says that the row's own values make it so, on any worker: without it, the others are well.
	Own bool
}

func (e *RowError) Error() string {
	if e.Step == "" {
		return fmt.Sprintf("row %d %s", e.Row, e.What)
	}
	return fmt.Sprintf("%s: row %d %s", e.Step, e.Row, e.What)
}

// RowsError is about rows that fail in one step, each by its own values, ascending. In words it is about the first.
type RowsError struct{ Rows []RowError }

func (e *RowsError) Error() string { return e.Rows[0].Error() }

func (e *RowsError) Unwrap() error { return &e.Rows[0] }

// OwnRows are the rows that an error is about which fail by their own values; without them, the others are well.
func OwnRows(err error) []RowError {
	if of, ok := errors.AsType[*RowsError](err); ok {
		return of.Rows
	}
	if of, ok := errors.AsType[*RowError](err); ok && of.Own {
		return []RowError{*of}
	}
	return nil
}

// maxFailing is how many rows are told of at once that fail in a step. More show when it runs without these.
const maxFailing = 8 << 10

// failing gathers the rows that fail in a step by their own values, so that one run finds all of them.
type failing struct{ rows []RowError }

// add notes a row, and returns errors that are about something else.
func (f *failing) add(err error) error {
	of, ok := errors.AsType[*RowError](err)
	if !ok || !of.Own {
		return err
	}
	if len(f.rows) < maxFailing {
		f.rows = append(f.rows, *of)
	}
	return nil
}

// err is an error of all of them; nil: there are none.
func (f *failing) err() error {
	if len(f.rows) == 0 {
		return nil
	}
	return &RowsError{f.rows}
}

// placed names the step that failed, and the rows of the file, where the error is about some of the vectors.
func (c *Chain) placed(step string, err error) error {
	place := func(of RowError) RowError {
		return RowError{Step: step, Row: int(c.rows.Row(of.Row)), What: of.What, Own: of.Own}
	}
	if of, ok := errors.AsType[*RowsError](err); ok {
		rows := make([]RowError, len(of.Rows))
		for i, row := range of.Rows {
			rows[i] = place(row)
		}
		return &RowsError{rows}
	}
	if of, ok := errors.AsType[*RowError](err); ok {
		at := place(*of)
		return &at
	}
	return fmt.Errorf("%s: %w", step, err)
}
