package main

import (
	"path/filepath"
	"testing"
	"time"
)

func TestRecorded(t *testing.T) {
	at := func(seconds float64, wait time.Duration, records int64) mark {
		return mark{
			returned: time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second))), wait: wait,
			records: records,
		}
	}
	for name, c := range map[string]struct {
		marks []mark
		want  int64
	}{
		"no step":                       {nil, 0},
		"all within a lease":            {[]mark{at(0, 0, 10), at(5, 0, 20), at(8, 0, 30)}, 0},
		"the first are older":           {[]mark{at(0, 0, 10), at(5, 0, 20), at(14, 0, 30)}, 20},
		"the last was stopped in Next":  {[]mark{at(0, 0, 10), at(5, 0, 20), at(14, 12*time.Second, 30)}, 0},
		"a long wait before the others": {[]mark{at(0, 0, 10), at(20, 20*time.Second, 20), at(29, 0, 30)}, 20},
	} {
		if got := recorded(c.marks, 8*time.Second); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestPromiseWithoutStates plants rows that come again, of which a master knew or not.
func TestPromiseWithoutStates(t *testing.T) {
	row := func(n int) record { return record{row: int64(n), sums: rowValues(0, n).sums()} }
	write := func(attempt int, recorded int64, rows ...int) segment {
		path := filepath.Join(t.TempDir(), "ledger.rows")
		l, err := createLedger(path)
		check(t, err)
		for _, n := range rows {
			l.add(row(n))
		}
		check(t, l.close())
		return segment{Path: path, Records: l.records, Attempt: attempt, Recorded: recorded}
	}
	for name, c := range map[string]struct {
		segments      []segment
		twice, broken int64
		lost, doubled int64 // by the other count
		kept          bool
	}{
		"once":                        {[]segment{write(1, 1, 1, 2), write(2, 2, 3, 4)}, 0, 0, 0, 0, true},
		"not recorded":                {[]segment{write(1, 1, 1, 2), write(2, 2, 2, 3)}, 1, 0, 0, 1, true},
		"recorded":                    {[]segment{write(1, 1, 1, 2), write(2, 0, 1, 3)}, 1, 1, 0, 1, false},
		"by ranks of one attempt":     {[]segment{write(1, 0, 1, 2), write(1, 2, 2, 3)}, 1, 0, 0, 1, true},
		"recorded by both":            {[]segment{write(1, 2, 1, 2), write(1, 2, 2, 3)}, 1, 1, 0, 1, false},
		"recorded the second time":    {[]segment{write(1, 0, 1), write(2, 1, 1), write(3, 0, 1)}, 2, 1, 0, 2, false},
		"otherwise counted":           {[]segment{write(1, 1, 1, 2), write(2, 2, 2, 3)}, 1, 0, 0, 0, false},
		"a batch in hand is not read": {[]segment{write(1, 1, 1, 2)}, 0, 0, batchSize, 0, true},
		"more is lost":                {[]segment{write(1, 1, 1, 2)}, 0, 0, batchSize + 1, 0, false},
	} {
		twice, broken, err := repeats(c.segments)
		check(t, err)
		if twice != c.twice || broken.Count != c.broken {
			t.Errorf("%s: %d came again, %d of them known; want %d, %d", name, twice, broken.Count, c.twice, c.broken)
		}
		err = checkPromise(&count{Lost: found{Count: c.lost}, Doubled: found{Count: c.doubled}}, c.segments)
		if kept := err == nil; kept != c.kept {
			t.Errorf("%s: %v", name, err)
		}
	}
}
