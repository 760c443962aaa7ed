package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// With --named masters take named checkpoints while the faults strike. An attempt goes on from the newest one that was
// taken in the attempt before, if there is one, in place of the states that the job keeps.

const (
	namedEvery   = time.Second
	namedTimeout = 15 * time.Second // then another one is taken: a rank that hangs does not reach the step
	namedAsk     = 200 * time.Millisecond
)

// namedMark is where a rank was told that a named checkpoint has its place.
type namedMark struct {
	Name    string
	Step    uint64
	records int64
	step    uint32 // of the job
}

// namedTaken is a named checkpoint that a master says is there.
type namedTaken struct {
	name    string
	step    uint64
	attempt int
}

// takeNamed has masters take one checkpoint after another until ctx ends.
func (j *job) takeNamed(ctx context.Context) error {
	ticks := time.NewTicker(namedEvery)
	defer ticks.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		j.mu.Lock()
		attempt := j.figures.Attempts
		j.mu.Unlock()
		name := fmt.Sprintf("named-%d", n)
		taken, err := j.takeOne(ctx, name)
		if err != nil {
			return err
		}
		if taken == nil {
			continue
		}
		j.mu.Lock()
		if attempt == j.figures.Attempts {
			j.named = &namedTaken{name: name, step: taken.GetStep(), attempt: attempt}
			j.figures.Named++
		}
		j.mu.Unlock()
	}
}

// takeOne asks until the checkpoint is there; nil if it is given up.
func (j *job) takeOne(ctx context.Context, name string) (taken *pb.Checkpoint, err error) {
	ctx, cancel := context.WithTimeout(ctx, namedTimeout)
	defer cancel()
	for ctx.Err() == nil && taken == nil {
		err := j.fleet.call(ctx, func(ctx context.Context, m pb.MasterClient) error {
			reply, err := m.CreateCheckpoint(ctx, &pb.CreateCheckpointRequest{Session: j.name, Name: name, Nonce: name})
			taken = reply.GetCheckpoint()
			return err
		})
		switch status.Code(err) {
		case codes.OK:
		case codes.Internal, codes.DataLoss, codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied:
			return nil, fmt.Errorf("chaos: take checkpoint %s: %w", name, err)
		// the job has begun anew, or not yet, or is over
		case codes.FailedPrecondition, codes.NotFound, codes.AlreadyExists:
			cancel()
		default: // no master leads
		}
		if taken == nil {
			pause(ctx, namedAsk)
		}
	}
	return taken, nil
}

// restoreNamed puts the session back to a named checkpoint, however long no master leads.
func (j *job) restoreNamed(ctx context.Context, name string, attempt, world int) error {
	for ctx.Err() == nil {
		err := j.fleet.call(ctx, func(ctx context.Context, m pb.MasterClient) error {
			_, err := m.RestoreSession(ctx, &pb.RestoreSessionRequest{
				Session: j.name, Name: name, WorldSize: uint32(world), Nonce: fmt.Sprintf("attempt-%d", attempt),
			})
			return err
		})
		switch status.Code(err) {
		case codes.OK:
			return nil
		case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unknown:
			pause(ctx, namedAsk)
		default:
			return fmt.Errorf("chaos: restore checkpoint %s: %w", name, err)
		}
	}
	return ctx.Err()
}

// call makes a call of the leader. Its error has a status, or is that of masters that do not answer.
func (f *fleet) call(ctx context.Context, do func(context.Context, pb.MasterClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cfg := rpc.Config{}
	if s := f.keys.security(); s.TokenFile != "" {
		token, err := rpc.ReadSecret(s.TokenFile)
		if err != nil {
			return err
		}
		cfg = rpc.Config{Token: token, CA: s.CA, ServerName: s.ServerName}
	}
	var last error
	_ = rpc.AtLeader(ctx, f.masterAddresses(), cfg, func(ctx context.Context, m pb.MasterClient) error {
		last = do(ctx, m)
		return last
	})
	return last
}

// namedCheckpoint is what the job goes on from that masters took in this attempt, if all ranks were told of it; else
// nil.
func (a *attempt) namedCheckpoint() (*checkpoint, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.named
	if taken == nil || taken.attempt != a.number {
		return nil, nil
	}
	untold := func(m member) bool { return m.named.Name != taken.name || m.named.Step != taken.step }
	if slices.ContainsFunc(a.ranks, untold) {
		return nil, nil
	}
	out := a.checkpointAt(func(m member) (uint32, int64) { return m.named.step, m.named.records })
	out.Number, out.Named = a.at.Number, taken.name
	if err := out.save(filepath.Join(a.fleet.dir, a.name+".checkpoint")); err != nil {
		return nil, err
	}
	out.follow(a.at)
	a.figures.NamedRestores++
	return out, nil
}
