package client

import (
	"slices"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	// paceSteps is how many steps the median is of: few, so that a change of speed shows soon.
	paceSteps = 15
	// minPaceSteps is how many steps say something.
	minPaceSteps = 5
	// warmUp is how many steps of a start do not count: loops compile and allocate in them.
	warmUp = 3
)

// loopPace is how fast the training loop could go on, from the newest steps: the times between Next's return with a
// batch and the next Next, whether or not that had to wait. Their median leaves out the pauses of evaluation and
// checkpoints.
type loopPace struct {
	steps  int // all that there were, with warm-up
	times  [paceSteps]time.Duration
	rows   [paceSteps]int
	client time.Duration // that Next took without waiting
}

// step takes the compute time of a batch of so many rows.
func (p *loopPace) step(compute time.Duration, rows int) {
	if p.steps++; p.steps > warmUp {
		at := (p.steps - warmUp - 1) % paceSteps
		p.times[at], p.rows[at] = compute, rows
	}
}

// proto is the pace of a rank whose received rows fill so many batches.
func (p *loopPace) proto(buffered float64) *pb.Pace {
	out := &pb.Pace{Buffered: buffered, ClientNs: int64(p.client)}
	n := min(p.steps-warmUp, paceSteps)
	if n < minPaceSteps {
		return out
	}
	times, rows := p.times, 0
	slices.Sort(times[:n])
	for _, r := range p.rows[:n] {
		rows += r
	}
	out.StepNs, out.Rows, out.Steps = int64(times[n/2]), float64(rows)/float64(n), uint32(n)
	return out
}
