package transform

import (
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// depthFirst orders steps so that what is made of a column is made while that is still in cache: from each slot on to
// the steps that can go on with it, and only then to the next. feeds are, for each slot, the steps that read it.
func depthFirst(sources int, steps []step) []int {
	feeds := make([][]int, slotsOf(sources, steps))
	missing := make([]int, len(steps)) // slots that a step still waits for
	var order []int
	for i := range steps {
		missing[i] = len(steps[i].from)
		for _, slot := range steps[i].from {
			feeds[slot] = append(feeds[slot], i)
		}
	}
	var follow func(slot int)
	run := func(i int) {
		order = append(order, i)
		for slot := steps[i].slot; slot < steps[i].end(); slot++ {
			follow(slot)
		}
	}
	follow = func(slot int) {
		for _, i := range feeds[slot] {
			if missing[i]--; missing[i] == 0 {
				run(i)
			}
		}
	}
	for i := range steps {
		if len(steps[i].from) == 0 {
			run(i)
		}
	}
	for slot := range sources {
		follow(slot)
	}
	return order
}

// outlive returns for each step of an order the steps whose values nobody reads after it. Slots that outputs show, all
// if there are no outputs, are read for as long as the window lasts.
func outlive(sources int, steps []step, order []int, outputs []*pb.Output) [][]int {
	const forever = -1
	last := make([]int, slotsOf(sources, steps)) // step after which a slot is not read, in places of the order
	for i, at := range order {
		for slot := steps[at].slot; slot < steps[at].end(); slot++ {
			last[slot] = i
		}
	}
	read := func(slot uint32, until int) {
		if last[slot] != forever && (until == forever || until > last[slot]) {
			last[slot] = until
		}
	}
	for _, o := range outputs {
		for _, slot := range o.GetSlots() {
			read(slot, forever)
		}
		if o.Weights != nil {
			read(o.GetWeights(), forever)
		}
	}
	if len(outputs) == 0 {
		for slot := range last {
			last[slot] = forever
		}
	}
	for i, at := range slices.Backward(order) {
		until := i
		if s := &steps[at]; s.outs > 0 && (!s.borrows || s.shares) {
			until = last[s.slot] // the result may be its inputs' values
		}
		for _, slot := range steps[at].reads() {
			read(slot, until)
		}
	}
	dead := make([][]int, len(steps))
	for _, at := range order {
		if !steps[at].borrows {
			continue
		}
		if until := last[steps[at].slot]; until != forever {
			dead[order[until]] = append(dead[order[until]], at)
		}
	}
	return dead
}

// end is behind the slots that the step makes.
func (s *step) end() int { return s.slot + s.outs }

// slotsOf is how many slots there are of sources and steps.
func slotsOf(sources int, steps []step) int {
	for i := range steps {
		sources += steps[i].outs
	}
	return sources
}

// memory holds the fixed-width values of a vector.
type memory struct {
	b   []bool
	i32 []int32
	i64 []int64
	f32 []float32
	f64 []float64
}

func memoryOf(v *vector.Vector) memory { return memory{v.Bool, v.I32, v.I64, v.F32, v.F64} }

func (m *memory) into(v *vector.Vector) {
	v.Bool, v.I32, v.I64, v.F32, v.F64 = m.b, m.i32, m.i64, m.f32, m.f64
}

// sharesValues reports whether v's values are those of another vector.
func sharesValues(v, with *vector.Vector) bool {
	a, b := memoryOf(v), memoryOf(with)
	return begins(a.b, b.b) || begins(a.i32, b.i32) || begins(a.i64, b.i64) || begins(a.f32, b.f32) ||
		begins(a.f64, b.f64)
}

func begins[T any](a, b []T) bool { return cap(a) > 0 && cap(b) > 0 && &a[:1][0] == &b[:1][0] }

// spares is memory of values that nobody reads any more, for each kind. What came last is taken first: it is in cache.
type spares struct{ of [pb.Kind_BINARY + 1][]memory }

func (s *spares) take(k pb.Kind) memory {
	free := s.of[k]
	if len(free) == 0 {
		return memory{}
	}
	s.of[k] = free[:len(free)-1]
	return free[len(free)-1]
}

func (s *spares) give(k pb.Kind, m memory) { s.of[k] = append(s.of[k], m) }
