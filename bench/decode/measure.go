package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/bench/figures"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Readers, as they are named in reports.
const (
	ours    = "columns"
	pqArrow = "pqarrow"
	pyArrow = "pyarrow"
	duckDB  = "duckdb"
	codec   = "codec" // no reader: the library that columns and pqarrow both have decompresses all pages, and nothing else is done
)

// measured is what a file took.
type measured struct {
	File    string   `json:"file"`
	Rows    int64    `json:"rows"`
	Bytes   int64    `json:"bytes"` // stored, of the columns that were read
	Columns int      `json:"columns"`
	LeftOut []string `json:"left_out,omitempty"`
	// By reader: seconds of CPU time in each round, of the fastest way of those that have several; which way was the fastest of all
	// rounds; and why it could not read the file.
	Seconds map[string][]float64 `json:"seconds"`
	How     map[string]string    `json:"how,omitempty"`
	Failed  map[string]string    `json:"failed,omitempty"`
	// Of worker/columns, for each decoding of the file.
	Allocations    uint64 `json:"allocations"`
	AllocatedBytes uint64 `json:"allocated_bytes"`
}

func measure(ctx context.Context, in input, py *python, rounds int) (*measured, error) {
	f, err := open(in) //nolint:contextcheck // a footer in memory, for which nobody is asked for keys
	if err != nil {
		return nil, err
	}
	m := &measured{
		File: in.name, Rows: f.footer.Rows, Bytes: f.bytes(), Columns: len(f.columns), LeftOut: f.left,
		Seconds: map[string][]float64{}, How: map[string]string{}, Failed: map[string]string{},
	}
	if err := m.compare(ctx, f, py); err != nil {
		return nil, err
	}
	if f.limit, err = newLimit(f); err != nil {
		return nil, fmt.Errorf("%s: %w", codec, err)
	}
	for range rounds {
		for _, reader := range []string{ours, pqArrow, pyArrow, duckDB, codec} {
			if m.Failed[reader] != "" || py == nil && (reader == pyArrow || reader == duckDB) || f.limit == nil && reader == codec {
				continue
			}
			took, err := m.time(ctx, reader, f, py)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", reader, err)
			}
			m.Seconds[reader] = append(m.Seconds[reader], took)
		}
	}
	return m, nil
}

// compare has all readers decode the file and compares what they say. One that cannot read it is noted.
func (m *measured) compare(ctx context.Context, f *fileBytes, py *python) error {
	digests := map[string]*digest{}
	of := func(name string) *digest {
		if digests[name] == nil {
			digests[name] = newDigest()
		}
		return digests[name]
	}
	take := func() map[string][]string {
		sums := map[string][]string{}
		for name, d := range digests {
			sums[name] = d.sums()
		}
		clear(digests)
		return sums
	}
	if err := f.byColumns(func(name string, v *vector.Vector) error { return of(name).vector(v) }); err != nil { //nolint:contextcheck // a footer in memory, for which nobody is asked for keys
		return fmt.Errorf("%s: %w", ours, err)
	}
	want := take()
	others := map[string]map[string][]string{}
	if err := f.byArrow(ctx, func(name string, a arrow.Array, field int) error { return of(name).array(a, field) }); err != nil {
		m.Failed[pqArrow] = err.Error()
	} else {
		others[pqArrow] = take()
	}
	for _, reader := range []string{pyArrow, duckDB} {
		if py == nil {
			break
		}
		a, err := py.ask(ctx, request{Reader: reader, File: f.path, Columns: f.columns, Digest: true})
		if errors.Is(err, errAnswer) {
			m.Failed[reader] = err.Error()
			continue
		}
		if err != nil {
			return err
		}
		others[reader] = a.Digests
	}
	for reader, got := range others {
		if diff := difference(want, got); diff != "" {
			return fmt.Errorf("%s and %s do not agree: %s", ours, reader, diff)
		}
	}
	return nil
}

// time decodes the file once and returns the CPU time that it took.
func (m *measured) time(ctx context.Context, reader string, f *fileBytes, py *python) (float64, error) {
	switch reader {
	case ours:
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		took, err := cpuTime(func() error { return f.byColumns(nil) }) //nolint:contextcheck // a footer in memory, for which nobody is asked for keys
		runtime.ReadMemStats(&after)
		m.Allocations, m.AllocatedBytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
		return took, err
	case pqArrow:
		return cpuTime(func() error { return f.byArrow(ctx, nil) })
	case codec:
		return cpuTime(f.limit.run)
	}
	a, err := py.ask(ctx, request{Reader: reader, File: f.path, Columns: f.columns, Bytes: f.bytes()})
	if err != nil {
		return 0, err
	}
	return m.fastest(reader, a.Seconds), nil
}

// fastest is the time of the fastest way in a round, which is noted if no round before had a faster one.
func (m *measured) fastest(reader string, ways map[string]float64) float64 {
	how := slices.MinFunc(slices.Sorted(maps.Keys(ways)), func(a, b string) int { return cmp.Compare(ways[a], ways[b]) })
	if before := m.Seconds[reader]; len(before) == 0 || ways[how] < slices.Min(before) {
		m.How[reader] = how
	}
	return ways[how]
}

// cpuTime is what this process takes for f, the garbage of earlier rounds apart.
func cpuTime(f func() error) (float64, error) {
	runtime.GC()
	before := figures.CPUSeconds()
	err := f()
	return figures.CPUSeconds() - before, err
}

// rate is the million rows per second of a reader's best round; 0 if it has none.
func (m *measured) rate(reader string) float64 {
	if len(m.Seconds[reader]) == 0 {
		return 0
	}
	return float64(m.Rows) / 1e6 / max(slices.Min(m.Seconds[reader]), 1e-6)
}

// times is how many times faster worker/columns is than a reader; 0 if that could not read the file.
func (m *measured) times(reader string) float64 {
	if m.rate(reader) == 0 {
		return 0
	}
	return m.rate(ours) / m.rate(reader)
}

// apart is how many times faster worker/columns is with all that is not decompression, where that is half of what it does or more;
// else 0.
func (m *measured) apart() float64 {
	if m.rate(codec) == 0 || m.rate(pqArrow) == 0 {
		return 0
	}
	zstd, own, theirs := slices.Min(m.Seconds[codec]), slices.Min(m.Seconds[ours]), slices.Min(m.Seconds[pqArrow])
	if 2*zstd < own {
		return 0
	}
	return (theirs - zstd) / max(own-zstd, 1e-6)
}
