package main

import (
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

// historyEvery is how often the state of things is noted, for plots and for the judgement.
const historyEvery = 5 * time.Second

// point is how things were at a time, and since the point before.
type point struct {
	At          time.Duration
	Workers     int // that work
	Wanted      int
	Demand      float64 // rows/s, of all sessions
	Rate        float64 // rows/s, as handed over
	Stall       float64 // share of trainers' time lost to waiting, of the worst session
	Bottleneck  pb.Bottleneck
	Missing     int // workers, as the newest decision says
	handed      float64
	lost, lived []float64 // so far
}

func (w *world) remember() {
	p := point{At: w.now, Workers: len(w.workers), Wanted: w.wanted}
	last := point{lost: make([]float64, len(w.jobs)), lived: make([]float64, len(w.jobs))}
	if len(w.history) > 0 {
		last = w.history[len(w.history)-1]
	}
	for i, j := range w.jobs {
		if j.present {
			p.Demand += j.demand()
		}
		p.handed += j.handed
		p.lost, p.lived = append(p.lost, j.lost), append(p.lived, j.lived)
		if lived := j.lived - last.lived[i]; lived > 0 {
			p.Stall = max(p.Stall, (j.lost-last.lost[i])/lived)
		}
	}
	p.Rate = (p.handed - last.handed) / historyEvery.Seconds()
	if w.scaler != nil {
		p.Bottleneck, p.Missing = w.scaler.newest.Bottleneck, w.scaler.newest.Missing
	}
	w.history = append(w.history, p)
}

// stall is the share of time that the trainers of the worst session lost to waiting between two times.
func stall(history []point, from, to time.Duration) (worst float64) {
	var a, b *point
	for i := range history {
		if history[i].At <= from {
			a = &history[i]
		}
		if history[i].At <= to {
			b = &history[i]
		}
	}
	if b == nil {
		return 0
	}
	for i := range b.lost {
		lost, lived := b.lost[i], b.lived[i]
		if a != nil {
			lost, lived = lost-a.lost[i], lived-a.lived[i]
		}
		if lived > 0 {
			worst = max(worst, lost/lived)
		}
	}
	return worst
}

// rate is the rows/s that were taken between two times.
func rate(history []point, from, to time.Duration) float64 {
	rows, seconds := 0.0, 0.0
	for _, p := range history {
		if p.At > from && p.At <= to {
			rows, seconds = rows+p.Rate*historyEvery.Seconds(), seconds+historyEvery.Seconds()
		}
	}
	return rows / max(1, seconds)
}

// wanted is the mean number of workers that were wanted between two times, and the most.
func wanted(history []point, from, to time.Duration) (mean float64, peak int) {
	n := 0
	for _, p := range history {
		if p.At > from && p.At <= to {
			mean += float64(p.Wanted)
			peak = max(peak, p.Wanted)
			n++
		}
	}
	return mean / float64(max(1, n)), peak
}
