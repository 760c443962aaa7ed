package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

const testEpochs = 2

// testLedger writes what two trainers were handed of a small dataset: all of it once, but for what change does with the
// records.
func testLedger(t *testing.T, dir string, files []int, change func([]record) []record) []segment {
	t.Helper()
	var all []record
	for e := range testEpochs {
		for f, rows := range files {
			for row := range rows {
				all = append(all, record{
					epoch: uint32(e), step: uint32(len(all) / 10), file: int32(f), row: int64(row),
					sums: rowValues(f, row).sums(),
				})
			}
		}
	}
	var segments []segment
	all = change(all)
	for rank, part := range [][]record{all[:len(all)/3], all[len(all)/3:]} {
		path := filepath.Join(dir, fmt.Sprintf("ledger-%d.rows", rank))
		l, err := createLedger(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range part {
			l.add(r)
		}
		segments = append(segments, segment{Path: path, Rank: rank, Records: l.records})
		l.add(record{file: 99, row: 1}) // after the checkpoint: it does not count
		if err := l.close(); err != nil {
			t.Fatal(err)
		}
	}
	return segments
}

// TestRecount plants each kind of mistake and holds that both counters find it, and nothing else.
func TestRecount(t *testing.T) {
	files := []int{700, 1, 450}
	const total = testEpochs * (700 + 1 + 450)
	for _, c := range []struct {
		name   string
		change func([]record) []record
		want   [5]int64 // handed over, lost, doubled, invented, altered
	}{
		{"exact", func(r []record) []record { return r }, [5]int64{total, 0, 0, 0, 0}},
		{"lost", func(r []record) []record { return append(r[:500:500], r[503:]...) }, [5]int64{total - 3, 3, 0, 0, 0}},
		{"doubled", func(r []record) []record { return append(r, r[42]) }, [5]int64{total + 1, 0, 1, 0, 0}},
		{"in another epoch", func(r []record) []record { r[9].epoch = 1; return r }, [5]int64{total, 1, 1, 0, 0}},
		{"beyond the file", func(r []record) []record {
			return append(r, record{file: 1, row: 1, sums: rowValues(1, 1).sums()})
		}, [5]int64{total + 1, 0, 0, 1, 0}},
		{
			"beyond the epochs", func(r []record) []record { r[0].epoch = testEpochs; return r },
			[5]int64{total, 1, 0, 1, 0},
		},
		{
			"another row's values", func(r []record) []record { r[5].sums, r[6].sums = r[6].sums, r[5].sums; return r },
			[5]int64{total, 0, 0, 0, 2},
		},
		{"a number", func(r []record) []record { r[7].sums.x = 0.25; return r }, [5]int64{total, 0, 0, 0, 1}},
		{"a list", func(r []record) []record { r[8].sums.ids++; return r }, [5]int64{total, 0, 0, 0, 1}},
		{"bytes", func(r []record) []record { r[8].sums.blobMD5 ^= 1; return r }, [5]int64{total, 0, 0, 0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			dataset := filepath.Join(dir, "dataset")
			check(t, os.Mkdir(dataset, 0o755))
			_, err := writeDataset(t.Context(), dataset, files, false)
			check(t, err)
			segments := testLedger(t, dir, files, c.change)
			ours, err := recountGo(segments, segments, files, options{epochs: testEpochs})
			check(t, err)
			compare(t, ours, total, c.want)
			ledger := filepath.Join(dir, "ledger.parquet")
			check(t, writeLedger(ledger, segments))
			theirs, err := recountDuckDB(t.Context(), python(),
				question{ledger: ledger, dataset: dataset, epochs: testEpochs, undisturbed: ledger})
			if errors.Is(err, errNoDuckDB) && os.Getenv("CI") == "" {
				t.Skip(err)
			}
			check(t, err)
			compare(t, theirs, total, c.want)
		})
	}
}

func python() string {
	if path, err := filepath.Abs("../../.venv/bin/python"); err == nil {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

func compare(t *testing.T, c *count, total int64, want [5]int64) {
	t.Helper()
	got := [5]int64{c.HandedOver, c.Lost.Count, c.Doubled.Count, c.Invented.Count, c.Altered.Count}
	if c.Expected != total || got != want {
		t.Errorf("%s expects %d and found %v, want %d and %v: %v", c.By, c.Expected, got, total, want, c)
	}
	if c.exact() != (want == [5]int64{total, 0, 0, 0, 0}) {
		t.Errorf("%s: exact is %v of %v", c.By, c.exact(), c)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSequence plants two rows that changed places, which counting does not find.
func TestSequence(t *testing.T) {
	files := []int{300}
	dir, want := t.TempDir(), filepath.Join(t.TempDir(), "undisturbed.parquet")
	_, err := writeDataset(t.Context(), dir, files, false)
	check(t, err)
	undisturbed := testLedger(t, t.TempDir(), files, func(r []record) []record { return r })
	check(t, writeLedger(want, undisturbed))
	for displaced, change := range map[int64]func([]record) []record{
		0: func(r []record) []record { return r },
		2: func(r []record) []record {
			a, b := r[101], r[404]
			r[101], r[404] = b, a
			r[101].step, r[404].step = a.step, b.step
			return r
		},
	} {
		made := t.TempDir()
		segments := testLedger(t, made, files, change)
		ours, err := recountGo(segments, undisturbed, files, options{epochs: testEpochs})
		check(t, err)
		ledger := filepath.Join(made, "ledger.parquet")
		check(t, writeLedger(ledger, segments))
		theirs, err := recountDuckDB(t.Context(), python(), question{
			ledger: ledger, dataset: dir, epochs: testEpochs,
			undisturbed: want,
		})
		if errors.Is(err, errNoDuckDB) && os.Getenv("CI") == "" {
			t.Skip(err)
		}
		check(t, err)
		for _, c := range []*count{ours, theirs} {
			if c.Displaced.Count != displaced || c.exact() != (displaced == 0) ||
				c.Lost.Count+c.Doubled.Count+c.Invented.Count+c.Altered.Count != 0 {
				t.Errorf("%s: %v; want %d out of order", c.By, c, displaced)
			}
		}
	}
}

// TestRecountOfAFullRun holds that both counters know which rows a filter keeps, and what ops make of them.
func TestRecountOfAFullRun(t *testing.T) {
	files, dir, o := []int{400, 30}, t.TempDir(), options{epochs: testEpochs, full: true}
	dataset := filepath.Join(dir, "dataset")
	check(t, os.Mkdir(dataset, 0o755))
	_, err := writeDataset(t.Context(), dataset, files, true)
	check(t, err)
	left := int64(0) // rows of an epoch that the filter leaves out
	segments := testLedger(t, dir, files, func(all []record) (kept []record) {
		for _, r := range all {
			if v, ok := o.wanted(rowValues(int(r.file), int(r.row))); ok {
				r.sums = v.sums()
				kept = append(kept, r)
			} else if r.epoch == 0 {
				left++
			}
		}
		out := rowValues(0, 0)
		for row := 0; ; row++ {
			if out = rowValues(0, row); out.x < minX { // it must not come
				kept = append(kept, record{row: int64(row), sums: out.sums()})
				break
			}
		}
		kept[3].sums.ids = maxIDs + 1
		return kept
	})
	total := testEpochs * (430 - left)
	if left < 20 || left > 200 {
		t.Fatalf("the filter leaves out %d rows", left)
	}
	ours, err := recountGo(segments, nil, files, o)
	check(t, err)
	ledger := filepath.Join(dir, "ledger.parquet")
	check(t, writeLedger(ledger, segments))
	theirs, err := recountDuckDB(t.Context(), python(), question{
		ledger: ledger, dataset: dataset, epochs: testEpochs,
		full: true,
	})
	if errors.Is(err, errNoDuckDB) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	check(t, err)
	for _, c := range []*count{ours, theirs} {
		compare(t, c, total, [5]int64{total + 1, 0, 0, 1, 1})
	}
}
