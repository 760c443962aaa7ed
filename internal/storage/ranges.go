package storage

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
)

// Reading says how ReadRanges reads. Zero fields take defaults.
type Reading struct {
	// MaxGap is how many bytes between two ranges are read along rather than read around; 256 KiB by default, none if
	// negative. What is read along is never more than what is wanted. A gap pays as long as its bytes come sooner than
	// another request's first one: 256 KiB take 3 ms of a connection of 90 MB/s, and S3 answers in 10 to 30 ms; on a
	// disk of 1 GB/s they take 0.25 ms, which is more than a request takes there, but little beside decoding.
	MaxGap int64
	// Part is the most that one request reads; 8 MiB by default.
	Part int64
	// Parallel is the number of requests at a time; 8 by default.
	Parallel int
}

func (r Reading) withDefaults() Reading {
	if r.MaxGap == 0 {
		r.MaxGap = 256 << 10
	}
	if r.Part <= 0 {
		r.Part = 8 << 20
	}
	if r.Parallel <= 0 {
		r.Parallel = 8
	}
	return r
}

// ReadRanges reads ranges of a file, in any order, with few requests: ranges near each other are read as one, and
// long ones in parts, in parallel. It calls alloc once, with the number of bytes that it is going to read (at most
// twice what the ranges hold, however they overlap), for a buffer of that length, which the results are parts of:
// out[i] holds ranges[i]. The buffer is the caller's again when ReadRanges returns, also with an error. There is
// no call of alloc if all ranges are empty.
func ReadRanges(
	ctx context.Context, st Storage, profile string, f *pb.File, ranges []Range, how Reading,
	alloc func(size int64) ([]byte, error),
) (out [][]byte, err error) {
	for i, r := range ranges {
		if r.Offset < 0 || r.Length < 0 || r.Offset > f.Size-r.Length {
			return nil, fmt.Errorf("read %s: range %d, %d bytes at %d, does not lie inside its %d bytes",
				f.Uri, i, r.Length, r.Offset, f.Size)
		}
	}
	how = how.withDefaults()
	runs, size := coalesce(ranges, how.MaxGap)
	out = make([][]byte, len(ranges))
	if size == 0 {
		return out, nil
	}
	buf, err := alloc(size)
	if err != nil {
		return nil, fmt.Errorf("memory for %d bytes of %s: %w", size, f.Uri, err)
	}
	if int64(len(buf)) != size {
		return nil, fmt.Errorf("memory for %d bytes of %s: the buffer has %d", size, f.Uri, len(buf))
	}
	for _, run := range runs {
		for _, i := range run.ranges {
			at := run.at + ranges[i].Offset - run.Offset
			out[i] = buf[at : at+ranges[i].Length : at+ranges[i].Length]
		}
	}
	if keeper, ok := st.(Keeper); ok {
		err = keeper.Fill(ctx, profile, f, ranges, out, func(wanted []bool) error {
			return readRuns(ctx, st, profile, f, only(runs, ranges, wanted, how.MaxGap), how, buf)
		})
	} else {
		err = readRuns(ctx, st, profile, f, runs, how, buf)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Keeper is a Storage that keeps what ReadRanges was asked for, range by range.
type Keeper interface {
	// Fill fills into[i] with what ranges[i] of a file holds, and has read read those that it wants. It calls read in
	// its caller's goroutine, and writes to into no more when it returns.
	Fill(ctx context.Context, profile string, f *pb.File, ranges []Range, into [][]byte,
		read func(wanted []bool) error) error
}

// Size is how many bytes ReadRanges reads for ranges.
func (r Reading) Size(ranges []Range) int64 {
	_, size := coalesce(ranges, r.withDefaults().MaxGap)
	return size
}

// Requests is how many requests ReadRanges makes for ranges.
func (r Reading) Requests(ranges []Range) (n int64) {
	r = r.withDefaults()
	runs, _ := coalesce(ranges, r.MaxGap)
	for _, run := range runs {
		n += run.parts(r.Part)
	}
	return n
}

// run is a stretch of the file that holds several ranges.
type run struct {
	Range
	ranges []int // their indexes, in an array where those of the next run follow
	wanted int64 // bytes of it that lie in ranges
	at     int64 // where it stands in the buffer
}

// coalesce merges ranges into runs, in the file's order, and returns the length of all. Empty ranges are left out.
func coalesce(ranges []Range, maxGap int64) (runs []run, size int64) {
	order := make([]int, 0, len(ranges))
	for i, r := range ranges {
		if r.Length > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ranges[a].Offset, ranges[b].Offset) })
	runs = merge(ranges, order, maxGap)
	for i := range runs {
		runs[i].at = size
		size += runs[i].Length
	}
	return runs, size
}

// merge makes runs of ranges that are named in the file's order.
func merge(ranges []Range, order []int, maxGap int64) (runs []run) {
	for at, i := range order {
		r := ranges[i]
		if n := len(runs); n > 0 && runs[n-1].take(r, maxGap) {
			continue
		}
		runs = append(runs, run{Range: r, ranges: order[at : at+1], wanted: r.Length})
	}
	return runs
}

// only leaves of runs what is wanted of their ranges, where it stands in the buffer.
func only(runs []run, ranges []Range, wanted []bool, maxGap int64) (out []run) {
	for _, whole := range runs {
		var order []int
		for _, i := range whole.ranges {
			if wanted[i] {
				order = append(order, i)
			}
		}
		for _, part := range merge(ranges, order, maxGap) {
			part.at = whole.at + part.Offset - whole.Offset
			out = append(out, part)
		}
	}
	return out
}

// take adds the next range, in the order of ranges, if it is near enough.
func (r *run) take(next Range, maxGap int64) bool {
	end, nextEnd := r.Offset+r.Length, next.Offset+next.Length
	gap := max(0, next.Offset-end)
	fresh := max(0, nextEnd-max(end, next.Offset))
	over := r.Length - r.wanted
	if gap > 0 && (gap > maxGap || over+gap > r.wanted+fresh) {
		return false
	}
	r.ranges = r.ranges[:len(r.ranges)+1]
	r.wanted += fresh
	r.Length = max(end, nextEnd) - r.Offset
	return true
}

// parts is in how many parts a run is read. They are of equal length: none is a small rest.
func (r *run) parts(most int64) int64 { return (r.Length + most - 1) / most }

// readRuns fills buf with the runs, part by part.
func readRuns(ctx context.Context, st Storage, profile string, f *pb.File, runs []run, how Reading, buf []byte) error {
	g, part := errgroup.WithContext(ctx)
	g.SetLimit(how.Parallel)
	for _, r := range runs {
		parts := r.parts(how.Part)
		step := (r.Length + parts - 1) / parts
		for done := int64(0); done < r.Length && part.Err() == nil; done += step {
			n := min(step, r.Length-done)
			to := buf[r.at+done : r.at+done+n]
			g.Go(func() error { return st.ReadAt(part, profile, f, to, r.Offset+done) })
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx) // parts may have been left out
}

// Overlaps says which ranges have bytes in common with others.
func Overlaps(ranges []Range) []bool {
	order := make([]int, len(ranges))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ranges[a].Offset, ranges[b].Offset) })
	out := make([]bool, len(ranges))
	last := -1 // that ends latest
	for _, i := range order {
		if ranges[i].Length == 0 {
			continue
		}
		if last >= 0 && ranges[i].Offset < ranges[last].Offset+ranges[last].Length {
			out[i], out[last] = true, true
		}
		if last < 0 || ranges[i].Offset+ranges[i].Length > ranges[last].Offset+ranges[last].Length {
			last = i
		}
	}
	return out
}
