package convert

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"pgregory.net/rapid"
)

// inOrder orders columns by their places, however many there are, and takes a sample if it has a place for it.
func inOrder(order []int, sampled *[]byte) *Order {
	return &Order{From: "test", Of: func(_ context.Context, _ []string, sample func() ([]byte, error)) (_ []int, err error) {
		if sampled != nil {
			*sampled, err = sample()
		}
		return order, err
	}}
}

// Columns lie in the order that was asked for, whatever they hold, and hold what they held before. A dry run says so.
func TestOrder(t *testing.T) {
	in := parquetFile(t, `[{"a": 1, "s": {"x": 1, "y": "p"}, "l": [1, 2], "b": true}, {"a": 2, "s": null, "l": [], "b": null}]`,
		nullable("a", arrow.PrimitiveTypes.Int64), nullable("l", arrow.ListOf(arrow.PrimitiveTypes.Int32)),
		nullable("s", arrow.StructOf(nullable("x", arrow.PrimitiveTypes.Float32), nullable("y", arrow.BinaryTypes.String))),
		nullable("b", arrow.FixedWidthTypes.Boolean))
	names := []string{"a", "l", "s", "b"}
	dir, store := t.TempDir(), newStore(t)
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		order := rapid.Permutation([]int{0, 1, 2, 3}).Draw(rt, "order")
		var first []byte
		o := Options{
			Store: store, Inputs: []string{in}, Output: filepath.Join(dir, fmt.Sprint(runs), "out.parquet"),
			Order: inOrder(order, &first), Verify: true, DryRun: true,
		}
		runs++
		plan, err := Run(rt.Context(), o)
		if err != nil {
			rt.Fatal(err)
		}
		o.DryRun = false
		r, err := Run(rt.Context(), o)
		if err != nil || !r.Verified || !slices.Equal(plan.Columns, r.Columns) || plan.Files != nil {
			rt.Fatalf("%v\nplanned %+v\nmade %+v", err, plan, r)
		}
		row, had := strings.Split(table(t, r.Files...)[1], "|"), strings.Split(table(t, in)[1], "|")
		for i, c := range order {
			if name, _, _ := strings.Cut(r.Columns[i], ":"); name != names[c] || row[i] != had[c] {
				rt.Fatalf("order %v made %v, with %v of %v", order, r.Columns, row, had)
			}
		}
		if sample := write(t, "first.parquet", string(first)); !slices.Equal(table(t, sample), table(t, in)) {
			rt.Fatal("the sample is not the first row group")
		}
	})
}

// What is no order of the columns is refused before anything is written.
func TestNoOrder(t *testing.T) {
	in := write(t, "a.csv", "x,y\n1,2\n")
	for _, order := range [][]int{{0}, {0, 0}, {0, 2}, {-1, 0}, {0, 1, 1}} {
		fails(t, Options{Inputs: []string{in}, Order: inOrder(order, nil)}, "does not have each of the 2 once")
	}
}

// A conversion that goes on keeps the order of the files that are finished, and asks nobody for another one.
func TestOrderKept(t *testing.T) {
	in := write(t, "a.csv", "x,y,z\n"+strings.Repeat("1,2,3\n", 30_000))
	o := Options{
		Inputs: []string{in}, Output: filepath.Join(t.TempDir(), "out"), FileRows: 4000,
		Order: inOrder([]int{2, 0, 1}, nil),
	}
	_ = stopAfter(t, o, 20_000)
	without := o
	without.Order = nil
	fails(t, without, "with other flags")
	o.Order = &Order{
		From:  "test",
		Begin: func(context.Context) error { return errors.New("the master is down") },
		Of: func(context.Context, []string, func() ([]byte, error)) ([]int, error) {
			return nil, errors.New("the master is down")
		},
	}
	r := run(t, o)
	if want := []string{"z: int64", "x: int64", "y: int64"}; r.Rows != 30_000 || !slices.Equal(r.Columns, want) ||
		!slices.Contains(r.Notes, "columns lie as the earlier run ordered them") {
		t.Errorf("result %+v", r)
	}
	if rows := table(t, r.Files...); len(rows) != 30_001 || rows[1] != rows[30_000] {
		t.Errorf("%d rows, %s to %s", len(rows)-1, rows[1], rows[len(rows)-1])
	}
}
