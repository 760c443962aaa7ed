package client

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/api/spec"
)

const stateVersion = 1

// terms are what is settled once a session was opened and joined. They do not change after that: all parts read them
// without a lock.
type terms struct {
	cfg     Config
	log     *slog.Logger
	nonce   string // of the Join, and of this start for good
	session *pb.Session
	joined  *pb.JoinReply
	code    bundle // of the session
	lease   time.Duration
	layout  *layout // of what the program makes
	batch   int     // rows
	epochs  uint32
}

// settle takes over the answers of a master.
func (t *terms) settle() error {
	if j := t.joined.GetSession(); j != nil {
		t.session = j
	}
	if t.session.GetState() == pb.SessionState_FAILED {
		return t.failed(t.session.GetFailure(), t.session.GetBadData())
	}
	layout, err := layoutOf(t.session.GetProgram())
	if err != nil {
		return fmt.Errorf("the program: %w", err)
	}
	t.layout = layout
	t.batch, t.epochs = int(t.session.GetBatchSize()), spec.Epochs(t.session.GetSpec())
	if t.batch < 1 {
		return fmt.Errorf("the master's spec has batch_size %d; it must be positive", t.batch)
	}
	if t.lease = time.Duration(t.joined.GetLeaseMs()) * time.Millisecond; t.lease <= 0 {
		return fmt.Errorf("the master gave a lease of %v; it must be positive", t.lease)
	}
	return nil
}

// begin makes the ledger the one that this rank begins with.
func (t *terms) begin(l *ledger) error {
	lanes, err := lanesOf(t.session, t.cfg.Rank, t.cfg.WorldSize)
	if err != nil {
		return err
	}
	j := t.joined
	*l = ledger{
		steps:    steps{batch: t.batch, epochs: t.epochs, lanes: lanes},
		holdings: holdings{streams: 1}, pacing: pacingOf(t.session.GetSpec(), t.layout.excludes, l),
		epoch:    j.GetClosedEpochs(),
		consumed: position.SetFromProto(j.GetConsumed()), alone: t.cfg.WorldSize == 1,
	}
	l.skips.consumed = position.TallyFromProto(j.GetConsumedSkips())
	l.indexes = j.GetIndexes()
	l.setBase(j)
	if l.pacing.counts() {
		l.countSteps(j.GetSteps(), j.GetStarts())
	} else {
		l.enter(t.beginsIn())
	}
	return nil
}

// beginsIn is the epoch that the training loop is in at its beginning, where ranks count no steps.
//
// It may be closed already, where this rank was late and the others have read all of it: the loop then gets no batch of
// it, and is in step with theirs. A rank that comes back cannot know where its loop was, and goes on with the open
// epoch.
func (t *terms) beginsIn() uint32 {
	j := t.joined
	switch {
	case j.GetKind() == pb.JoinKind_FRESH && j.GetIncarnation() == 1: // later ones left before
		return t.session.GetRestoredFrom().GetEpoch()
	case j.GetKind() == pb.JoinKind_RESTORED && len(t.cfg.Restore) > 0:
		var last uint32
		for _, state := range t.cfg.Restore {
			last = max(last, state.GetClosedEpochs())
		}
		return last
	case j.GetKind() == pb.JoinKind_RESTORED:
		return t.cfg.BeginsIn
	}
	return j.GetClosedEpochs()
}

// failed is the session's end by the master.
func (t *terms) failed(words string, badData bool) error {
	err := &FailedError{Session: t.cfg.Session, Words: words}
	if badData {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	return err
}

// named adds the session's name to an error.
func (t *terms) named(err error) error {
	return fmt.Errorf("client: session %q: %w", t.cfg.Session, err)
}

// state is the checkpoint of a moment.
func (t *terms) state(at snapshot) *pb.State {
	of := t.session
	return &pb.State{
		Version: stateVersion, Session: t.cfg.Session, Generation: t.joined.GetGeneration(),
		Rank: t.cfg.Rank, WorldSize: t.cfg.WorldSize,
		Base: at.base.consumed.Proto(), BaseVersion: at.base.version,
		Members: at.base.members, Departed: at.base.departed, DepartedRows: at.base.departedRows,
		SkippedRowGroups: at.base.skipped, Consumed: at.consumed.Proto(),
		ConsumedSkips: at.skips.Proto(), BaseSkips: at.base.skips.Proto(),
		ClosedEpochs: at.ended, MasterClosedEpochs: at.closed, Handed: at.handed, Rows: at.rows,
		ProgramDigest: of.GetProgramDigest(), DatasetDigest: of.GetDatasetDigest(),
		PlannerDigest: of.GetPlannerDigest(), Fingerprint: of.GetFingerprint(),
		Start: at.start, GlobalBatch: at.globalBatch, Remembers: at.remembers,
		LastBatch: cmp.Or(of.GetSpec().GetLastBatch(), pb.LastBatch_UNEVEN), Code: of.GetSpec().GetCode(),
		Indexes: at.indexes, Table: spec.TableOf(of.GetSpec()),
	}
}
