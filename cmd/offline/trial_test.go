package offline

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/python"
	"github.com/penstock-ml/penstock/worker/transform"
)

// TestWhatFailsByItsCode tells what a function does wrong from what this machine does, or a call without rows.
func TestWhatFailsByItsCode(t *testing.T) {
	raised := func(what string) error { return &python.FunctionError{What: what} }
	step := &pb.Step{At: "transforms[1]", Python: &pb.Function{Name: "f"}}
	for _, c := range []struct {
		rows int
		err  error
		want string // "": nothing
	}{
		{3, raised("ValueError: x"), "ValueError: x"},
		{0, raised("ValueError: x"), ""},
		{0, raised("ModuleNotFoundError: x"), "ModuleNotFoundError: x"},
		{3, &transform.RowError{Row: 2, What: "fails: found int64"}, "found int64"},
		{0, fmt.Errorf("%w: KeyError: x", python.ErrCannotRun), "KeyError: x"},
		{3, raised("its process died of signal 9 (killed), and so did a second one"), ""},
		{0, fmt.Errorf("%w: its process took 600 MiB", python.ErrCannotRun), ""},
		{3, fmt.Errorf("%w: no memory", python.ErrNoProcess), ""},
		{3, context.DeadlineExceeded, ""},
		{3, errors.New("the function made 3 rows of int32"), ""},
	} {
		call := &transform.Call{N: c.rows, Rows: transform.Rows{First: 10, N: c.rows}}
		got := failureOf(step, call, c.err)
		if (got != nil) != (c.want != "") || got != nil && (got.What != c.want || got.Name != "f") {
			t.Errorf("%d rows, %v: %+v; want %q", c.rows, c.err, got, c.want)
		}
		if got != nil && got.Row != nil && *got.Row != 12 {
			t.Errorf("%v: row %d, want 12", c.err, *got.Row)
		}
	}
}
