package client

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// Where every candidate refuses to read on because of the data, more than once, the master hears of it and decides by the spec's
// on_error. The piece stays closed meanwhile, so that no row of what may be taken away is handed over: it is reported with each
// Sync until the grants change. Other refusals are the workers' own, and end the session.

// Skipped tells that rows were left out: no worker can read them, and the spec's on_error allows it.
type Skipped struct {
	Epoch uint32
	// File is the URI. Of its row group, Rows source rows from FirstRow of the file on are left out.
	File     string
	RowGroup uint32
	FirstRow int64
	Rows     int64
	// Cause is a worker's word for it: it names the column and the page.
	Cause string
}

// blame counts what refusals of a round are about.
type blame struct {
	permanent int
	changed   *workerError // that the file changed
	own       *workerError // something that other workers may not lack
}

func (b *blame) note(err *workerError) {
	if !rpc.Refused(err) {
		return
	}
	b.permanent++
	switch {
	case status.Code(err) == codes.FailedPrecondition:
		b.changed = err
	case status.Code(err) != codes.DataLoss && (b.own == nil || !stranger(err)):
		b.own = err
	}
}

// refuse ends the piece's stream, which every candidate refuses: the master decides, or the session ends.
func (st *stream) refuse(b blame, last *workerError) {
	if b.own != nil {
		st.fail(st.refusedBy(b.own))
		return
	}
	report := &pb.RefusedStream{Cause: pb.RefusalCause_UNREADABLE}
	if b.changed != nil {
		report.Cause, last = pb.RefusalCause_CHANGED, b.changed
	}
	report.Words = last.words()
	st.mu.Lock()
	defer st.mu.Unlock()
	report.At = st.at.received.Proto()
	st.at.refused = report
	signal(st.wake)
	st.log.Warn("every worker refuses a shard; the master decides", "event", "shard_refused", "shard", st.p.shard, "cursor", st.at.received,
		"file", st.p.file, "cause", last)
}

func skippedOf(m *pb.SkippedRows) Skipped {
	return Skipped{
		Epoch: m.GetEpoch(), File: m.GetFile(), RowGroup: m.GetRowGroup(), FirstRow: m.GetFirstRow(), Rows: m.GetRows(), Cause: m.GetCause(),
	}
}

// tellSkipped tells of what was left out since it was told last.
func (s *Session) tellSkipped(list []*pb.SkippedRows) {
	for _, m := range list {
		k := skippedOf(m)
		if s.knownSkipped[k] {
			continue
		}
		s.knownSkipped[k] = true
		s.log.Warn("rows are left out: no worker can read them", "event", "rows_skipped", "epoch", k.Epoch, "file", k.File, "row_group", k.RowGroup,
			"first_row", k.FirstRow, "rows", k.Rows, "cause", k.Cause)
		if s.cfg.OnSkip != nil {
			s.cfg.OnSkip(k)
		}
	}
}

// sessionFailed is the session's end by the master.
func (s *Session) sessionFailed(words string, badData bool) error {
	err := &FailedError{Session: s.cfg.Session, Words: words}
	if badData {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	return err
}
