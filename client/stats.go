package client

import (
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
)

// Stats are cumulative since Open.
type Stats struct {
	// Handed over. Rows are the dataset's; Batches and Bytes count padding too.
	Rows, Batches, Bytes int64
	// Received is what came over the network, compressed if workers were asked to; some of it may have come twice.
	Received int64
	// Ways says how many batches came from workers in which way: in memory that is read where the worker has it, by
	// link, or by gRPC, which costs the most CPU time.
	Ways map[wire.Way]int64
	// RowsByWorker says who sent the rows that were handed over.
	RowsByWorker map[string]int64
	// StreamsByWorker says from whom streams are being received.
	StreamsByWorker map[string]int
	// Dropped counts rows of ended epochs that no rank got, since the spec drops last batches.
	Dropped int64
	// SkippedRows counts rows that were left out beside those that were handed over, because their own bytes make them
	// fail.
	SkippedRows int64
	// Stall is the time that Next waited for rows, LongestStall the most for one batch.
	Stall, LongestStall time.Duration
	// Compute is the time between Next's return with a batch and the next Next.
	Compute time.Duration
	// Failovers counts streams resumed on another worker.
	Failovers int64
	// Hedges counts streams that were opened a second time, on another worker, since the first was late.
	Hedges int64
	// Buffered is how many bytes are received and not yet copied into a batch, PeakBuffered the most there ever were.
	Buffered, PeakBuffered int64
	// Workers is the size of the fleet, Streams how many the master wants open.
	Workers, Streams int
	// Cause is what holds the session's trainers up, as the master sees it; nil until it has measured enough.
	Cause *pb.Cause
}

// Stats returns the present figures.
func (s *Session) Stats() Stats {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	l := &s.shared.ledger
	st := Stats{Buffered: l.queued, PeakBuffered: l.peak, SkippedRows: l.skips.total}
	s.fetcher.count(&st)
	s.handover.count(&st)
	s.control.count(&st)
	return st
}
