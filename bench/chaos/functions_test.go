package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestRecountOfFunctions holds that both counters know what a function made, and find rows that it was not called for.
func TestRecountOfFunctions(t *testing.T) {
	files := []int{300, 1, 200}
	const total, missed = testEpochs * (300 + 1 + 200), 7
	for _, full := range []bool{false, true} {
		o := options{epochs: testEpochs, full: full, functions: true}
		segments := testLedger(t, t.TempDir(), files, func(all []record) (out []record) {
			for _, r := range all {
				if v, kept := o.wanted(rowValues(int(r.file), int(r.row))); kept {
					r.sums = v.sums()
					out = append(out, r)
				}
			}
			for i := range missed {
				out[i].sums = rowValues(int(out[i].file), int(out[i].row)).sums()
			}
			return out
		})
		ours, err := recountGo(segments, nil, files, o)
		check(t, err)
		expected := o.expected(files) * testEpochs
		if !full && expected != total {
			t.Errorf("%d rows are expected, want %d", expected, total)
		}
		want := [5]int64{expected, 0, 0, 0, missed}
		compare(t, ours, expected, want)

		dir := t.TempDir()
		q := question{
			ledger: filepath.Join(dir, "ledger.parquet"), dataset: filepath.Join(dir, "dataset"), epochs: testEpochs,
			full: full, functions: true,
		}
		check(t, os.Mkdir(q.dataset, 0o755))
		_, err = writeDataset(t.Context(), q.dataset, files, false)
		check(t, err)
		check(t, writeLedger(q.ledger, segments))
		theirs, err := recountDuckDB(t.Context(), python(), q)
		if errors.Is(err, errNoDuckDB) && os.Getenv("CI") == "" {
			t.Skip(err)
		}
		check(t, err)
		compare(t, theirs, expected, want)
	}
}
