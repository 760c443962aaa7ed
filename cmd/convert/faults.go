package convert

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/dustin/go-humanize/english"

	decoders "github.com/penstock-ml/penstock/worker/formats"
)

// skipped are the rows that were left out, since they are damaged.
type skipped struct {
	rows  int64
	first []string // what was wrong with the first ones
}

// shownFaults is how many rows that were left out are named.
const shownFaults = 5

// withoutFaults leaves out rows that could not be decoded, if that is allowed; nil: there are no others.
func (d *decoded) withoutFaults(rec arrow.Record, first int64) (arrow.Record, error) {
	of, ok := d.decoder.(decoders.Faulty)
	if !ok || len(of.Faults()) == 0 {
		return rec, nil
	}
	var runs []arrow.Record
	from := int64(0)
	for _, f := range of.Faults() {
		err := fmt.Errorf("%s row %d: %w", d.name(), first+int64(f.Row), f.Err)
		switch {
		case d.most == 0:
			return nil, err
		case d.skipped.rows == d.most:
			return nil, fmt.Errorf("%w (--skip-rows leaves out %d, which are before it)", err, d.most)
		}
		d.skipped.add(err)
		if at := int64(f.Row); at > from {
			runs = append(runs, rec.NewSlice(from, at))
		}
		from = int64(f.Row) + 1
	}
	if from < rec.NumRows() {
		runs = append(runs, rec.NewSlice(from, rec.NumRows()))
	}
	return joined(runs)
}

func (s *skipped) add(err error) {
	if s.rows++; len(s.first) < shownFaults {
		s.first = append(s.first, err.Error())
	}
}

// notes tell of the rows.
func (s skipped) notes() []string {
	if s.rows == 0 {
		return nil
	}
	notes := []string{"left out, since they cannot be decoded: " + english.Plural(int(s.rows), "row", "")}
	for _, why := range s.first {
		notes = append(notes, "left out: "+why)
	}
	return notes
}

// skippedOf are the rows that a conversion left out, also in earlier runs.
func skippedOf(src source, done *progress) (s skipped) {
	if d, ok := src.(*decoded); ok {
		s = d.skipped
	}
	if n := len(done.files); n > 0 {
		s.rows = max(s.rows, done.files[n-1].After.Skipped)
	}
	return s
}

// joined makes one record of several; nil: there are none.
func joined(runs []arrow.Record) (arrow.Record, error) {
	if len(runs) == 0 {
		return nil, nil //nolint:nilnil // no rows are none to give
	}
	columns, rows := make([]arrow.Array, runs[0].NumCols()), int64(0)
	for i := range columns {
		var all []arrow.Array
		for _, r := range runs {
			all = append(all, r.Column(i))
		}
		var err error
		if columns[i], err = array.Concatenate(all, memory.NewGoAllocator()); err != nil {
			return nil, err
		}
	}
	for _, r := range runs {
		rows += r.NumRows()
	}
	return array.NewRecord(runs[0].Schema(), columns, rows), nil
}
