package observe

import (
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

// Fleet is what was measured of the fleet in the seconds before a time.
type Fleet struct {
	At time.Time
	// Workers report and do not drain; Draining ones report still. Silent ones are in the fleet, do not drain, and have
	// not reported for longer than a few periods; a worker that starts is none.
	Workers, Draining, Silent int
	Slots                     int // of Workers
	// Measured is how many of Workers have reported for long enough to compare. Busy is of these; what follows is of
	// the Draining, too.
	Measured  int
	Busy      float64 // share of the workers' time, 0 to 1
	Rate      float64 // rows/s that workers sent
	BytesRead float64 // per second, from storage
	BytesSent float64 // per second
	CrossZone float64 // bytes per second, of BytesSent
	Stages    []Stage // the longest first
	Sessions  []Session
	Cause
}

// Session is a running session in the seconds before a time.
type Session struct {
	ID        string
	Namespace string
	State     pb.SessionState
	Share     Share
	// World is how many trainers it has, Trainers how many of them are present. Stale: most of them were silent for
	// longer than a few periods, and the numbers are old.
	World, Trainers int
	Stale           bool
	Demand          float64 // rows/s that its trainers could take; 0: unknown, or nothing is read
	Rate            float64 // rows/s handed over
	Stall           float64 // share of its trainers' time, 0 to 1
	waits           float64 // the same, of the newest minute
	Cost            float64 // busy seconds of a worker per row; 0: unknown
	// Needed is how many workers its demand keeps busy to the target, by the newest minute; 0: as for Demand. It is not
	// bounded by the Share.
	Needed  float64
	Granted float64 // workers that its open streams come to
	Open    float64 // streams, on average
	Blocked float64 // share of the time of its open streams in which the trainer or the network took no more
	Storage float64 // share of the rest of their time that went into waiting for storage
	// What workers read from storage and sent for it, in bytes per second; CrossZone is of BytesSent.
	BytesRead, BytesSent, CrossZone float64
	// of BytesSent, those in memory that is read where it is, and those by link; the rest is by gRPC
	Lent, Linked float64
	Stages       []Stage // the longest first
	Refusal      Refusal // without workers: none refuses it
	Cause
}

// Reads tells whether any trainer reads, or waits for rows. What shows a pb.SessionLoad asks for its bottleneck, too.
func (s *Session) Reads() bool { return s.Bottleneck != pb.Bottleneck_NONE }

// Share is a session's part of the pool.
type Share struct {
	Weight   float64 // above 0
	Min, Max float64 // workers; Max is infinite unless set
}

// Stage is a part of the workers' work: storage, decode, filter, an op's name, tensor, send.
type Stage struct {
	Name    string
	Seconds float64 // of streams, per second
}

// Cause is what holds trainers up.
type Cause struct {
	Bottleneck pb.Bottleneck
	Stage      string // the busiest, where workers or storage are the bottleneck
	Verdict    string // in plain words, with the numbers
	Why        string // the verdict's part after how long the trainers waited
}
