package client

import (
	"cmp"
	"maps"
	"time"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
)

const stateVersion = 1

// Stats are cumulative since Open.
type Stats struct {
	// Handed over. Rows are the dataset's; Batches and Bytes count padding too.
	Rows, Batches, Bytes int64
	// Received is what came over the network, compressed if workers were asked to; some of it may have come twice.
	Received int64
	// Ways says how many batches came from workers in which way: in memory that is read where the worker has it, by link, or by gRPC, which
	// costs the most CPU time.
	Ways map[wire.Way]int64
	// RowsByWorker says who sent the rows that were handed over.
	RowsByWorker map[string]int64
	// StreamsByWorker says from whom streams are being received.
	StreamsByWorker map[string]int
	// Dropped counts rows of ended epochs that no rank got, since the spec drops last batches.
	Dropped int64
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
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.RowsByWorker = maps.Clone(s.stats.RowsByWorker)
	st.Ways = maps.Clone(s.stats.Ways)
	st.StreamsByWorker = maps.Clone(s.stats.StreamsByWorker)
	st.Buffered, st.PeakBuffered = s.ledger.queued, s.ledger.peak
	return st
}

// State is this rank's checkpoint as of the batch that Next returned last.
func (s *Session) State() *pb.State {
	s.mu.Lock()
	at := s.snapshot()
	s.mu.Unlock()
	return s.state(at)
}

// StateAfter is this rank's checkpoint as of a batch, for loops that read ahead; b may be released already.
func (s *Session) StateAfter(b *Batch) *pb.State { return s.state(b.after) }

// snapshot is the present state. s.mu must be held.
func (s *Session) snapshot() snapshot {
	l := &s.ledger
	at := snapshot{
		ended: l.ended, closed: l.epoch, handed: l.handed, rows: s.joined.GetEarlier().GetRows() + s.stats.Rows, base: l.base, consumed: l.consumed,
	}
	if l.ended > l.epoch { // the master is still to hear of it
		at.consumed, at.base.consumed = from(at.consumed, at.ended), from(at.base.consumed, at.ended)
	}
	l.order().snapshot(&at)
	return at
}

func (s *Session) state(at snapshot) *pb.State {
	st := &pb.State{
		Version: stateVersion, Session: s.cfg.Session, Generation: s.joined.GetGeneration(),
		Rank: s.cfg.Rank, WorldSize: s.cfg.WorldSize,
		Base: at.base.consumed.Proto(), BaseVersion: at.base.version, Members: at.base.members, Departed: at.base.departed,
		DepartedRows: at.base.departedRows, SkippedRowGroups: at.base.skipped, Consumed: at.consumed.Proto(), ClosedEpochs: at.ended, MasterClosedEpochs: at.closed, Handed: at.handed, Rows: at.rows,
		ProgramDigest: s.session.GetProgramDigest(), DatasetDigest: s.session.GetDatasetDigest(),
		PlannerDigest: s.session.GetPlannerDigest(), Fingerprint: s.session.GetFingerprint(), Start: at.start, GlobalBatch: at.globalBatch, Remembers: s.ledger.pads,
		LastBatch: cmp.Or(s.session.GetSpec().GetLastBatch(), pb.LastBatch_UNEVEN),
	}
	return st
}

// Info is the session as the master described it when this rank joined.
func (s *Session) Info() *pb.Session { return s.session }

// Schema is the schema of Batch.Record.
func (s *Session) Schema() *arrow.Schema { return s.layout.schema }
