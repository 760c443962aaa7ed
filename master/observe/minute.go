package observe

import (
	"slices"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	// ticksOfMinute is how many ticks what is shown rests on.
	ticksOfMinute = int(time.Minute / tick)
	// outvotes is how many times as often as the one that is shown another bottleneck must have been found to take its
	// place.
	outvotes = 2
)

// minute is what was found in the newest minute, tick by tick. What is shown of it is steady: it follows what lasts,
// and not each window of some seconds.
type minute struct {
	needed, stalls []float64
	found          []pb.Bottleneck
	newest         map[pb.Bottleneck]Cause // of each that was found
	shown          pb.Bottleneck
}

// measured takes what was measured in a tick, and puts what it came to in the minute in its place. 0 workers are not
// known.
func (m *minute) measured(s *Session) {
	if s.Needed > 0 {
		m.needed = push(m.needed, s.Needed)
	}
	m.stalls = push(m.stalls, s.Stall)
	s.Needed, s.waits = median(m.needed), median(m.stalls)
}

// cause takes what was found in a tick, and returns what to show: the newest cause of the bottleneck that was found
// most.
func (m *minute) cause(found Cause) Cause {
	b := found.Bottleneck
	if m.newest == nil {
		m.newest = map[pb.Bottleneck]Cause{}
	}
	m.found, m.newest[b] = push(m.found, b), found
	if m.shown == pb.Bottleneck_BOTTLENECK_UNSPECIFIED || m.count(b) >= outvotes*m.count(m.shown) {
		m.shown = b
	}
	return m.newest[m.shown]
}

func (m *minute) count(b pb.Bottleneck) (n int) {
	for _, f := range m.found {
		if f == b {
			n++
		}
	}
	return n
}

// median is 0 of no numbers.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(xs))[len(xs)/2]
}

// push adds to the newest minute.
func push[T any](xs []T, x T) []T {
	return append(xs[max(0, len(xs)+1-ticksOfMinute):], x)
}
