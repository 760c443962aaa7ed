package offline

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
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
		if got != nil && got.row != nil && *got.row != 12 {
			t.Errorf("%v: row %d, want 12", c.err, *got.row)
		}
	}
}

// seen is a function of pictures that looks at what it is called with, and the Functions that has it.
type seen struct{ calls int }

func (s *seen) Function(*pb.Step, []spec.Type) (transform.Function, error) { return s, nil }
func (s *seen) Close()                                                     {}

func (s *seen) Call(_ context.Context, c *transform.Call) error {
	for i, v := range c.In {
		if v.Type.Kind == pb.Kind_PICTURE && (v.Ends[v.Rows] != 0 || len(c.Sizes[i]) > 0) {
			return errors.New("there are pictures")
		}
	}
	s.calls++
	return nil
}

// TestNoPictures calls a function that no picture came to with none.
func TestNoPictures(t *testing.T) {
	s := &seen{}
	step := &pb.Step{Outs: 1, Python: &pb.Function{}}
	in := []spec.Type{{Kind: pb.Kind_INT64}, {Kind: pb.Kind_PICTURE}}
	w := &watched{inner: s, enough: func() {}, calls: []*watchedCall{{step: step, in: in}}}
	if err := w.rest(t.Context()); err != nil || s.calls != 1 {
		t.Errorf("%d calls: %v", s.calls, err)
	}
}
