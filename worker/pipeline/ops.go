package pipeline

import (
	"sync/atomic"

	"github.com/penstock-ml/penstock/worker/transform"
)

// opTimes adds up what each op takes of a stream's windows. It belongs to the goroutine that computes.
type opTimes struct {
	stats           *stats
	since           int64
	steps           []*atomic.Int64 // by step of the chain
	filter, shuffle *atomic.Int64   // filter: and the ops that choose rows
}

func newOpTimes(s *stats, chain *transform.Chain) opTimes {
	o := opTimes{stats: s, filter: s.op("filter"), shuffle: s.op("shuffle")}
	for _, name := range chain.Ops() {
		o.steps = append(o.steps, s.op(name))
	}
	return o
}

func (o *opTimes) begin() { o.since = o.stats.now() }

// end adds the time since the last begin or end.
func (o *opTimes) end(to *atomic.Int64) {
	now := o.stats.now()
	to.Add(now - o.since)
	o.since = now
}

// ran is called by the chain after steps of one op.
func (o *opTimes) ran(step int) { o.end(o.steps[step]) }
