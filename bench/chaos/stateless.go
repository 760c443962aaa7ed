package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// What a job is promised whose ranks are started again without states: no row is lost, and those come twice at most
// that a rank was handed within a lease before its end. A rank hands over until a lease after the newest Sync that a
// master acknowledged, so what it was handed earlier is in that Sync. The one exception is the batch in hand: a Sync
// may tell of it before the loop has done anything with it.

// mark is a step of a rank: when its Next returned, how long that took, and what was in the ledger then.
type mark struct {
	returned time.Time
	wait     time.Duration
	records  int64
}

// recorded is how many of a rank's first records the master must know of, by its steps. The last Next may have been
// stopped before it returned, but was called within the lease.
func recorded(marks []mark, lease time.Duration) (n int64) {
	if len(marks) == 0 {
		return 0
	}
	last := marks[len(marks)-1]
	called := last.returned.Add(-last.wait)
	for _, m := range marks {
		if called.Sub(m.returned) > lease {
			n = m.records
		}
	}
	return n
}

// left is what the job has when an attempt has ended, where it goes on without states.
func (a *attempt) left() (*checkpoint, error) {
	out := &checkpoint{Segments: slices.Clone(a.from.Segments)}
	for r, m := range a.ranks {
		path := a.path(r) + ".rows"
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) { // it ended before it had made one
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Step = max(out.Step, m.last.Step, a.from.Step)
		out.Segments = append(out.Segments, segment{
			Path: path, Rank: r, Records: info.Size() / recordSize, Attempt: a.number, Recorded: recorded(m.marks,
				a.fleet.lease),
		})
	}
	return out, nil
}

// checkPromise holds what was handed over to the promise.
func checkPromise(c *count, segments []segment) error {
	var errs []error
	if c.Invented.Count+c.Altered.Count > 0 {
		errs = append(errs, errors.New("some rows were invented or altered"))
	}
	if c.Lost.Count > batchSize { // that a rank dies right when a Sync told of the batch in its hand is rare
		errs = append(errs, errors.New("rows were lost, more than one batch that was in hand"))
	}
	twice, broken, err := repeats(segments)
	if err != nil {
		return err
	}
	if twice != c.Doubled.Count {
		errs = append(errs, fmt.Errorf("%d rows came again, by another count", twice))
	}
	if broken.Count > 0 {
		errs = append(errs, fmt.Errorf(
			"%d rows came again although a master knew of them (epoch, file, row, attempt, rank): %v",
			broken.Count, broken.Examples))
	}
	if len(errs) > 0 {
		return fmt.Errorf("without states more is promised: %v: %w", c, errors.Join(errs...))
	}
	return nil
}

// repeats counts the rows that came again, and finds those that must not have: a master knew of them when they were
// handed over once more.
func repeats(segments []segment) (twice int64, broken found, err error) {
	type key struct {
		epoch uint32
		file  int32
		row   int64
	}
	known := map[key]int{} // the attempt in which a master heard of it; 0: in none
	for _, s := range segments {
		i := int64(0)
		err := s.each(func(r record) error {
			k := key{r.epoch, r.file, r.row}
			attempt, had := known[k]
			told := i < s.Recorded
			i++
			if had {
				twice++
			}
			if attempt > 0 && (attempt < s.Attempt || told) {
				broken.add([]string{
					fmt.Sprint(r.epoch), fmt.Sprint(r.file), fmt.Sprint(r.row), fmt.Sprint(s.Attempt),
					fmt.Sprint(s.Rank),
				})
			}
			switch {
			case told:
				known[k] = s.Attempt
			case !had:
				known[k] = 0
			}
			return nil
		})
		if err != nil {
			return 0, found{}, err
		}
	}
	return twice, broken, nil
}
