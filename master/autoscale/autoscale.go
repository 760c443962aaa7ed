// Package autoscale decides how many workers a fleet should have. It is the third step of measure, decide, obey:
// package master takes Samples of what trainers and workers report, Decide makes a Decision of them, and an actuator
// obeys it.
//
// Demand is measured, not searched for: what a session's trainers could take, times what a row costs, is the busy time
// that the fleet must have, and divided by the utilisation aimed at it is the number of workers. So a step of demand is
// followed by one jump to the right size. What cannot be measured is tried, and taken back if it did not help: see
// brake.go.
//
// Everything here is pure: no clock, no I/O, no goroutine. The same window gives the same decision.
package autoscale

import (
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

// Sample is what was measured of the fleet up to a time, as means over the last seconds. There is about one each two
// seconds.
type Sample struct {
	At time.Time
	// Workers report and do not drain.
	Workers int
	// Wanted is what the actuator keeps now: Workers, and those that start or that it replaces.
	Wanted int
	// Silent are workers of the fleet that do not drain, and of which there was no report for longer than a few
	// periods. A worker that starts is none.
	Silent int
	// Busy is the share of the Workers' time for which they were busy, 0 to 1.
	Busy     float64
	Sessions []Session // that run; in any order
}

// Session is what was measured of a running session.
type Session struct {
	ID       string // unlike that of any other
	Trainers int    // that are present; 0 where none of them reads
	// Demand is the rows/s that its trainers could take; 0: unknown.
	Demand float64
	// Rate is the rows/s that they took.
	Rate float64
	// Stall is the share of their time for which they waited for data, 0 to 1.
	Stall float64
	// Cost is the busy seconds of a worker that a row takes; 0: unknown.
	Cost float64
	// Storage is the share of its streams' time, without that in which the trainer took no more, that went into waiting
	// for storage.
	Storage float64
	// Stage is what its streams spend most time on: storage, decode, an op's name, tensor, send.
	Stage string
	// Stale says that most of its trainers were silent for longer than a few periods: the numbers are old.
	Stale bool
	// Of its share of the pool; see pb.Share.
	Weight                 float64
	MinWorkers, MaxWorkers int
}

// Decision is what to do, and why.
type Decision struct {
	At       time.Time
	From, To int // workers
	// News says that the decision is worth an event: it changes something, or its reason for changing nothing is
	// another one.
	News       bool
	Reason     string // in words, with the numbers
	Bottleneck pb.Bottleneck
	Demand     float64 // rows/s of all sessions
	Capacity   float64 // rows/s of one busy worker, for the present mix of sessions; 0: unknown
	Needed     float64 // workers, at the utilisation aimed at
	Stall      float64 // share of all trainers' time
	Busy       float64
	Braked     bool // more workers had not helped a session
	Missing    int  // workers that are wanted, and did not come in the time that they may take
	// Parts are what each session needs of the pool, by ID.
	Parts []Part
}

// Part is a session's part of Needed.
type Part struct {
	Session string
	Needed  float64 // workers, within its minimum and maximum
	Braked  bool
}

// Proto is the decision as it is kept and shown.
func (d Decision) Proto() *pb.Decision {
	return &pb.Decision{
		UnixMs: d.At.UnixMilli(), From: uint32(d.From), To: uint32(d.To), Reason: d.Reason, Bottleneck: d.Bottleneck,
		Demand: d.Demand, Capacity: d.Capacity, Needed: d.Needed, Stall: d.Stall, Busy: d.Busy, Braked: d.Braked,
	}
}
