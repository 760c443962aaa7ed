package client

import (
	"cmp"
	"context"
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

// open opens the session, joins it and takes over what the master answered.
func (s *Session) open(ctx context.Context) error {
	warn := s.warnNowAndThen()
	patient := trials{each: openTimeout, all: s.cfg.ConnectTimeout}
	err := s.masters.persist(ctx, "open", patient, warn, func(ctx context.Context, m pb.MasterClient) (err error) {
		s.session, err = s.find(ctx, m)
		return err
	})
	if err != nil {
		return err
	}
	sent, err := s.join(ctx, patient, warn)
	if err != nil {
		return err
	}
	s.sayDefault()
	return s.begin(sent)
}

// find opens the session, or attaches to one that was opened before.
func (s *Session) find(ctx context.Context, m pb.MasterClient) (*pb.Session, error) {
	c := s.cfg
	if c.Spec == nil && c.SpecText == "" {
		return m.GetSession(ctx, &pb.GetSessionRequest{Session: c.Session})
	}
	return m.Open(ctx, &pb.OpenRequest{
		Session: c.Session, Spec: c.Spec, SpecText: c.SpecText, WorkingDir: c.WorkingDir, WorldSize: c.WorldSize, Share: c.Share,
		Defaults: 1, SavedLastBatch: c.savedLastBatch(),
	})
}

// SavedLastBatch is the ending of the session that a state is of. States of earlier releases do not tell: where no spec named one, it was
// uneven.
func SavedLastBatch(of *pb.State) pb.LastBatch { return cmp.Or(of.GetLastBatch(), pb.LastBatch_UNEVEN) }

// savedLastBatch is that of the session that is restored.
func (c *Config) savedLastBatch() pb.LastBatch {
	if len(c.Restore) == 0 {
		return c.SavedLastBatch
	}
	return SavedLastBatch(c.Restore[0])
}

// sayDefault says once a session that the number of ranks has decided what its epochs end with.
func (s *Session) sayDefault() {
	of, j := s.session, s.joined
	if of.GetDefaultLastBatch() && of.GetSpec().GetLastBatch() == pb.LastBatch_DROP && s.cfg.Rank == 0 &&
		j.GetKind() == pb.JoinKind_FRESH && j.GetIncarnation() == 1 && j.GetGeneration() == 1 {
		s.log.Warn("no last_batch is given: with several ranks the last rows of each epoch, fewer than a batch of each rank, are dropped, "+
			"so that all ranks make equally many steps; last_batch says so for good (drop), or pads them (pad), or hands them over (uneven, "+
			"for ranks that do not wait for each other)", "event", "default_last_batch", "last_batch", "drop", "world_size", of.GetWorldSize())
	}
}

// warnNowAndThen returns what is told of each round of calls that failed.
func (s *Session) warnNowAndThen() func(error) {
	var last time.Time
	return func(err error) {
		if now := time.Now(); last.IsZero() || now.Sub(last) >= warnEvery {
			last = now
			what := "no master answers; trying on"
			if CannotYet(err) {
				what = "the master cannot open the session yet; trying on"
			}
			s.log.Warn(what, "error", err)
		}
	}
}

// join joins as the configured rank, waiting for the other ranks of a collective restore, and returns when the
// answered Join was sent.
func (s *Session) join(ctx context.Context, patient trials, warn func(error)) (sent time.Time, err error) {
	req := &pb.JoinRequest{
		Session: s.cfg.Session, Rank: s.cfg.Rank, WorldSize: s.cfg.WorldSize, Nonce: s.nonce,
		Restore: s.cfg.Restore, Restoring: s.cfg.Restore != nil,
	}
	begin := time.Now()
	for round := 0; ; round++ {
		err := s.masters.persist(ctx, "join", patient, warn, func(ctx context.Context, m pb.MasterClient) (err error) {
			sent = time.Now()
			s.joined, err = m.Join(ctx, req)
			return err
		})
		if err != nil {
			return sent, s.notRestored(err)
		}
		if s.joined.GetKind() != pb.JoinKind_JOIN_KIND_UNSPECIFIED {
			s.tellJoined(ctx)
			return sent, nil
		}
		missing := &MissingError{Ranks: s.joined.GetWaitingFor(), Waited: time.Since(begin)}
		if round == 0 {
			s.log.Info("the restore waits for other ranks", "ranks", missing.Ranks)
		}
		if limit := s.cfg.RestoreTimeout; limit > 0 && missing.Waited > limit {
			return sent, missing
		}
		if err := sleep(ctx, backoff(round, time.Second)); err != nil {
			missing.err = err
			return sent, missing
		}
	}
}

func (s *Session) tellJoined(ctx context.Context) {
	j := s.joined
	s.log.LogAttrs(ctx, slog.LevelInfo, "joined", slog.String("event", "joined"), slog.String("kind", strings.ToLower(j.GetKind().String())),
		slog.Uint64("generation", j.GetGeneration()), slog.Uint64("incarnation", j.GetIncarnation()), slog.Uint64("epoch", uint64(j.GetClosedEpochs())))
}

// notRestored adds to the refusal of a restore what the session reads.
func (s *Session) notRestored(err error) error {
	if s.cfg.Restore == nil || status.Code(err) != codes.FailedPrecondition {
		return err
	}
	return &RestoreError{Spec: s.session.GetSpec(), Err: err}
}

// beginsIn is the epoch that the training loop is in at its beginning, where ranks count no steps.
//
// It may be closed already, where this rank was late and the others have read all of it: the loop then gets no batch of it, and is in step
// with theirs. A rank that comes back cannot know where its loop was, and goes on with the open epoch.
func (s *Session) beginsIn() uint32 {
	j := s.joined
	switch {
	case j.GetKind() == pb.JoinKind_FRESH && j.GetIncarnation() == 1: // later ones left before
		return s.session.GetRestoredFrom().GetEpoch()
	case j.GetKind() == pb.JoinKind_RESTORED && len(s.cfg.Restore) > 0:
		var last uint32
		for _, state := range s.cfg.Restore {
			last = max(last, state.GetClosedEpochs())
		}
		return last
	case j.GetKind() == pb.JoinKind_RESTORED:
		return s.cfg.BeginsIn
	}
	return j.GetClosedEpochs()
}

// Planned returns how many rows an epoch has, if a master says that all of it is planned.
func (s *Session) Planned(ctx context.Context) (rows int64, known bool, err error) {
	m := &masters{addresses: s.cfg.Masters, pool: s.masters.pool} // its own, for the other one is the control goroutine's
	var p *pb.Progress
	err = m.call(ctx, "get session", openTimeout, func(ctx context.Context, m pb.MasterClient) error {
		info, err := m.GetSession(ctx, &pb.GetSessionRequest{Session: s.cfg.Session})
		p = info.GetProgress()
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return p.GetRowsPlanned(), p.GetBlocks() > 0 && p.GetBlocksPlanned() == p.GetBlocks(), nil
}
