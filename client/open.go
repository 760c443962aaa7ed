package client

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	openTimeout = 2 * time.Minute  // of one Open or Join call: the master may have to list a large dataset
	warnEvery   = 10 * time.Second // of a master that is waited for
)

// opening opens a session and joins it.
type opening struct {
	terms   *terms // which it makes
	masters *masters
	own     bundle // what this rank has of the session's code
}

// run opens the session, joins it and takes over what the master answered. It returns when the answered Join was sent.
func (o opening) run(ctx context.Context) (sent time.Time, err error) {
	t, warn := o.terms, o.warnNowAndThen()
	patient := trials{each: openTimeout, all: t.cfg.ConnectTimeout}
	if err := o.awaitOpened(ctx, patient, warn); err != nil {
		return sent, err
	}
	err = o.persist(ctx, "open", patient, warn, func(ctx context.Context, m pb.MasterClient) (err error) {
		t.session, err = o.find(ctx, m)
		return err
	})
	switch {
	case status.Code(err) == codes.DataLoss:
		return sent, fmt.Errorf("%w: %w", ErrData, err)
	case err != nil:
		return sent, err
	}
	if sent, err = o.join(ctx, patient, warn); err != nil {
		return sent, err
	}
	o.sayDefault()
	if err := t.settle(); err != nil {
		return sent, err
	}
	return sent, o.takeCode(ctx, patient, warn)
}

// awaitOpened has a rank that knows nothing of the session which is restored leave it to others to open it: it would
// open a table at its newest version, and with the ending of new sessions, to which the others' states do not belong.
func (o opening) awaitOpened(ctx context.Context, patient trials, warn func(error)) error {
	c := o.terms.cfg
	if !c.restoresUntold() {
		return nil
	}
	begin := time.Now()
	for round := 0; ; round++ {
		err := o.persist(ctx, "find", patient, warn, func(ctx context.Context, m pb.MasterClient) error {
			_, err := m.GetSession(ctx, &pb.GetSessionRequest{Session: c.Session})
			return err
		})
		if status.Code(err) != codes.NotFound {
			return err
		}
		if round == 0 {
			o.terms.log.Info("the restore waits for a rank that brings a state to open the session")
		}
		if err := o.awaitRanks(ctx, round, &MissingError{Waited: time.Since(begin)}); err != nil {
			return err
		}
	}
}

// restoresUntold reports whether this rank takes part in a restore with others, and knows nothing of what they restore.
func (c *Config) restoresUntold() bool {
	return c.Restore != nil && len(c.Restore) == 0 && c.WorldSize > 1 && (c.Spec != nil || c.SpecText != "") &&
		c.SavedTable == "" && c.SavedLastBatch == pb.LastBatch_LAST_BATCH_UNSPECIFIED
}

// awaitRanks waits until it is time to ask for the missing ranks again, or fails.
func (o opening) awaitRanks(ctx context.Context, round int, missing *MissingError) error {
	if limit := o.terms.cfg.RestoreTimeout; limit > 0 && missing.Waited > limit {
		return missing
	}
	if err := sleep(ctx, backoff(round, time.Second)); err != nil {
		missing.err = err
		return missing
	}
	return nil
}

// find opens the session, or attaches to one that was opened before.
func (o opening) find(ctx context.Context, m pb.MasterClient) (*pb.Session, error) {
	c := o.terms.cfg
	if c.Spec == nil && c.SpecText == "" {
		return m.GetSession(ctx, &pb.GetSessionRequest{Session: c.Session})
	}
	return m.Open(ctx, &pb.OpenRequest{
		Session: c.Session, Spec: c.Spec, SpecText: c.SpecText, WorkingDir: c.WorkingDir, WorldSize: c.WorldSize,
		Share: c.Share, Defaults: 1, SavedLastBatch: c.savedLastBatch(), Code: o.own.stored,
		SavedTable: c.savedTable(),
	})
}

// SavedLastBatch is the ending of the session that a state is of. States of earlier releases do not tell: where no spec
// named one, it was uneven.
func SavedLastBatch(of *pb.State) pb.LastBatch { return cmp.Or(of.GetLastBatch(), pb.LastBatch_UNEVEN) }

// savedLastBatch is that of the session that is restored.
func (c *Config) savedLastBatch() pb.LastBatch {
	if len(c.Restore) == 0 {
		return c.SavedLastBatch
	}
	return SavedLastBatch(c.Restore[0])
}

// savedTable is the table that the session read which is restored.
func (c *Config) savedTable() string {
	if len(c.Restore) == 0 {
		return c.SavedTable
	}
	return c.Restore[0].GetTable()
}

// sayDefault says once a session that the number of ranks has decided what its epochs end with.
func (o opening) sayDefault() {
	t := o.terms
	of, j := t.session, t.joined
	if of.GetDefaultLastBatch() && of.GetSpec().GetLastBatch() == pb.LastBatch_DROP && t.cfg.Rank == 0 &&
		j.GetKind() == pb.JoinKind_FRESH && j.GetIncarnation() == 1 && j.GetGeneration() == 1 {
		t.log.Warn("no last_batch is given: with several ranks the last rows of each epoch, fewer than a batch of "+
			"each rank, are dropped, so that all ranks make equally many steps; last_batch says so for good (drop), "+
			"or pads them (pad), or hands them over (uneven, for ranks that do not wait for each other)",
			"event", "default_last_batch", "last_batch", "drop", "world_size", of.GetWorldSize())
	}
}

// warnNowAndThen returns what is called with each round of calls that failed.
func (o opening) warnNowAndThen() func(error) {
	var last time.Time
	return func(err error) {
		if now := time.Now(); last.IsZero() || now.Sub(last) >= warnEvery {
			last = now
			what := "no master answers; trying on"
			if CannotYet(err) {
				what = "the master cannot open the session yet; trying on"
			}
			o.terms.log.Warn(what, "error", err)
		}
	}
}

// join joins as the configured rank, waiting for the other ranks of a collective restore, and returns when the
// answered Join was sent.
func (o opening) join(ctx context.Context, patient trials, warn func(error)) (sent time.Time, err error) {
	t := o.terms
	req := &pb.JoinRequest{
		Session: t.cfg.Session, Rank: t.cfg.Rank, WorldSize: t.cfg.WorldSize, Nonce: t.nonce,
		Restore: t.cfg.Restore, Restoring: t.cfg.Restore != nil, Code: o.own.stored,
		AcceptCodeChange: t.cfg.AcceptCodeChange,
	}
	begin := time.Now()
	for round := 0; ; round++ {
		err := o.persist(ctx, "join", patient, warn, func(ctx context.Context, m pb.MasterClient) (err error) {
			sent = time.Now()
			t.joined, err = m.Join(ctx, req)
			return err
		})
		if err != nil {
			return sent, o.notRestored(err)
		}
		if t.joined.GetKind() != pb.JoinKind_JOIN_KIND_UNSPECIFIED {
			o.sayJoined(ctx)
			return sent, nil
		}
		missing := &MissingError{Ranks: t.joined.GetWaitingFor(), Waited: time.Since(begin)}
		if round == 0 {
			t.log.Info("the restore waits for other ranks", "ranks", missing.Ranks)
		}
		if err := o.awaitRanks(ctx, round, missing); err != nil {
			return sent, err
		}
	}
}

func (o opening) sayJoined(ctx context.Context) {
	j := o.terms.joined
	o.terms.log.LogAttrs(ctx, slog.LevelInfo, "joined", slog.String("event", "joined"),
		slog.String("kind", strings.ToLower(j.GetKind().String())),
		slog.Uint64("generation", j.GetGeneration()), slog.Uint64("incarnation", j.GetIncarnation()),
		slog.Uint64("epoch", uint64(j.GetClosedEpochs())))
}

// notRestored adds to the refusal of a restore what the session reads.
func (o opening) notRestored(err error) error {
	if o.terms.cfg.Restore == nil || status.Code(err) != codes.FailedPrecondition {
		return err
	}
	return &RestoreError{Spec: o.terms.session.GetSpec(), Err: err}
}
