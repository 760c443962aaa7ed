package pipeline

import (
	"cmp"
	"math"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/tensor"
)

// limits are how much a stream reads and holds at once, by the memory that all streams share.
type limits struct {
	cfg    *Config
	memory int64
}

// share is what one of the streams that are expected may hold. An eighth of the memory is left for what shows only in
// decoding.
func (l limits) share() int64 {
	return (l.memory - l.memory/8) / int64(max(1, l.cfg.Streams))
}

// BatchShares says which part of what a stream may hold a batch should have at most, and which of the largest one that
// there may be.
const BatchShares = 16

// batch is about the size of a program's batches. What an array costs for each batch, whatever its size, is much of the
// time where there are a thousand.
func (l limits) batch(program *pb.Program) int64 {
	wide := tensor.Arrays(program) * l.cfg.ArrayBytes
	return max(l.cfg.BatchBytes, min(wide, min(l.share(), l.cfg.MaxBatch)/BatchShares))
}

// extent is how large an extent may be that is read as a whole; others are read in pieces.
func (l limits) extent() int64 { return l.share() / 2 }

// unit is about how much of small extents is read at once.
func (l limits) unit() int64 { return min(2<<20, l.share()/8) }

// holding is what a stream holds, in bytes.
type holding struct {
	chunks  int64 // of the extents that are read at once
	pages   int64 // decompressed, and dictionaries
	sources int64 // the decoded sources of a window
	results int64 // those of the steps, and the selection
	batch   int64 // one, as large as is usual
	longer  int64 // what batches have beyond that, all together
	packed  int64 // a compressed one
	scratch int64 // of the steps, beside results
	later   int64 // what pages and dictionaries may come to beyond that, if they are as long as most writers make them
}

func (h holding) total() int64 {
	return h.chunks + h.pages + h.sources + h.results + batchesOut*h.batch + h.longer + HandedOver*h.packed + h.scratch
}

func (h holding) max() int64 { return h.total() + h.later }

// plan is what a stream holds if extents up to a limit are read as a whole, and others in pieces.
type plan struct {
	limit int64
	holding
}

// estimator tells what a stream will hold, by the file's description, the program and what its steps make.
type estimator struct {
	layout  layout
	program *pb.Program
	windows expected
	batches bool // are made
}

// fit estimates, with extents in pieces as large as a stream's share of the memory allows, or smaller, or whole, if
// only so it comes to its end with what is left.
func (e *estimator) fit(l limits, left int64) plan {
	best := e.plan(l, l.extent())
	if best.max() > left {
		plans := e.plans(l, best)
		switch at := slices.IndexFunc(plans, func(p plan) bool { return p.max() <= left }); {
		case at >= 0:
			best = plans[at]
		case best.total() > left: // pages may be shorter than is feared
			best = slices.MinFunc(plans, func(a, b plan) int { return cmp.Compare(a.total(), b.total()) })
		}
	}
	return best
}

// maxGuesses bounds how often enough looks again.
const maxGuesses = 10

// enough tells how many bytes of memory are enough for the stream alone, which holds some already, as far as is known.
// Where there are more than l has, batches may be larger, and extents read as a whole: so more is enough than what l
// has no room for.
func (e *estimator) enough(l limits, held int64) int64 {
	for range maxGuesses {
		plans := e.plans(l, e.plan(l, l.extent()))
		smallest := slices.MinFunc(plans, func(a, b plan) int { return cmp.Compare(a.max(), b.max()) })
		if held+smallest.max() <= l.memory {
			break
		}
		l.memory = held + smallest.max()
	}
	return l.memory
}

func (e *estimator) plan(l limits, limit int64) plan { return plan{limit, e.estimate(l, limit)} }

// plans are one, those of smaller pieces, and that of none.
func (e *estimator) plans(l limits, first plan) []plan {
	plans := []plan{first}
	for limit := first.chunks - 1; ; {
		last, next := plans[len(plans)-1], e.plan(l, limit)
		switch {
		case next.chunks < last.chunks:
			plans = append(plans, next)
			limit = next.chunks - 1
		case limit >= last.chunks/longPagesTimes:
			limit = last.chunks/longPagesTimes - 1 // pages are long
		default:
			return append(plans, e.plan(l, math.MaxInt64))
		}
	}
}

// estimate is what the file lets expect of the extents that are left to read. It may be too little, for what
// dictionaries, lists of uneven lengths and long values come to shows only in decoding: the stream then asks for more,
// before it holds it.
func (e *estimator) estimate(l limits, limit int64) holding {
	batch := int64(0)
	if e.batches {
		batch = l.batch(e.program)
	}
	h := holding{
		batch: batch, packed: batch, scratch: e.windows.tables, sources: e.windows.bytes, results: e.windows.results,
	}
	var all int64
	for i := e.layout.start.extent; i < len(e.layout.groups); i++ {
		u := e.layout.unit(i, limit)
		all += u.size
		h.chunks = max(h.chunks, u.size)
		pages, later := int64(0), e.layout.longer(u)
		for chunk := range e.layout.file.Chunks() {
			c := e.layout.file.Chunk(int(e.layout.groups[i].GetIndex()), chunk)
			pages, later = pages+c.Held, later+c.Later
		}
		h.pages, h.later = max(h.pages, pages), max(h.later, later)
	}
	h.chunks = max(h.chunks, 2*min(all, l.unit())) // so that small extents are read together
	return h
}
