package fitted

import (
	"context"
	"fmt"

	"github.com/penstock-ml/penstock/api/spec"
)

// Summary is what the statistic moments has.
type Summary struct {
	// Values is how many there are, without nulls and NaNs; Infinite is how many of them are infinities.
	Values, Nulls, NaNs, Infinite int64
	// Mean and Std are the floats nearest to the mean and to the population's standard deviation: None where there are
	// no values, or infinities.
	Mean, Std Value
	// Min and Max are None where there are no values.
	Min, Max Value
}

// Rows are its rows in a file.
func (s Summary) Rows() []Row {
	return []Row{
		{Name: "values", ID: -1, Count: s.Values},
		{Name: "nulls", ID: -1, Count: s.Nulls},
		{Name: "nans", ID: -1, Count: s.NaNs},
		{Name: "infinite", ID: -1, Count: s.Infinite},
		{Name: "mean", ID: -1, Count: -1, Value: s.Mean},
		{Name: "std", ID: -1, Count: -1, Value: s.Std},
		{Name: "min", ID: -1, Count: -1, Value: s.Min},
		{Name: "max", ID: -1, Count: -1, Value: s.Max},
	}
}

// Summary reads the statistic moments.
func (f *File) Summary(ctx context.Context, e *Entry) (Summary, error) {
	var s Summary
	want := s.Rows()
	rows, err := f.Rows(ctx, e, int64(len(want)))
	if err != nil {
		return s, err
	}
	if len(rows) != len(want) {
		return s, f.damaged("%s has %d rows instead of %d", e, len(rows), len(want))
	}
	for i, r := range rows {
		if r.Name != want[i].Name {
			return s, f.damaged("%s has %q where %q is due", e, r.Name, want[i].Name)
		}
	}
	return Summary{
		Values: rows[0].Count, Nulls: rows[1].Count, NaNs: rows[2].Count, Infinite: rows[3].Count,
		Mean: rows[4].Value, Std: rows[5].Value, Min: rows[6].Value, Max: rows[7].Value,
	}, nil
}

// Copy writes all statistics of a file to another one.
func (w *Writer) Copy(ctx context.Context, f *File) error {
	for i := range f.Entries {
		e := &f.Entries[i]
		if err := w.Begin(e.Statistic, spec.KindNamed(e.Kind), e.Error); err != nil {
			return fmt.Errorf("copy %s: %w", f.name, err)
		}
		if err := f.Each(ctx, e, w.Append); err != nil {
			return err
		}
	}
	return nil
}
