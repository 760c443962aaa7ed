package master

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/access"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/master/session"
)

func (s *service) CreateCheckpoint(ctx context.Context, req *pb.CreateCheckpointRequest) (*pb.CreateCheckpointReply, error) {
	r, err := s.running(ctx, req.GetSession())
	if err != nil {
		return nil, err
	}
	if err := checkNonce(req.GetNonce()); err != nil {
		return nil, err
	}
	a, err := r.do(ctx, call{command: session.CreateCheckpoint{Name: req.GetName(), Nonce: req.GetNonce(), Now: time.Now().Unix()}})
	if err != nil {
		return nil, callError(err)
	}
	m := a.Taken.Proto()
	if m.GetCheckpoint() != nil {
		m.Checkpoint.Spec = r.meta.GetSession().GetSpec()
	}
	return m, nil
}

func checkNonce(nonce string) error {
	if nonce == "" || len(nonce) > maxText {
		return status.Errorf(codes.InvalidArgument, "a nonce has 1 to %d bytes", maxText)
	}
	return nil
}

func (s *service) ListCheckpoints(ctx context.Context, req *pb.ListCheckpointsRequest) (*pb.ListCheckpointsReply, error) {
	r, err := s.running(ctx, req.GetSession())
	if err != nil {
		return nil, err
	}
	a, err := r.do(ctx, call{command: session.ListCheckpoints{}})
	if err != nil {
		return nil, callError(err)
	}
	m := &pb.ListCheckpointsReply{}
	for _, n := range a.Checkpoints {
		m.Checkpoints = append(m.Checkpoints, n.Proto())
	}
	return m, nil
}

func (s *service) DeleteCheckpoint(ctx context.Context, req *pb.DeleteCheckpointRequest) (*pb.DeleteCheckpointReply, error) {
	r, err := s.running(ctx, req.GetSession())
	if err != nil {
		return nil, err
	}
	if err := access.MayDelete(identity.From(ctx), r.meta.GetSession().GetOwner(), "delete its checkpoints"); err != nil {
		return nil, err
	}
	if _, err := r.do(ctx, call{command: session.DeleteCheckpoint{Name: req.GetName()}}); err != nil {
		return nil, callError(err)
	}
	return &pb.DeleteCheckpointReply{}, nil
}

func (s *service) RestoreSession(ctx context.Context, req *pb.RestoreSessionRequest) (*pb.Session, error) {
	r, err := s.running(ctx, req.GetSession())
	if err != nil {
		return nil, err
	}
	if err := checkNonce(req.GetNonce()); err != nil {
		return nil, err
	}
	if err := access.MayDelete(identity.From(ctx), r.meta.GetSession().GetOwner(), "put it back to a checkpoint"); err != nil {
		return nil, err
	}
	c := session.Restore{Checkpoint: session.Named{Name: req.GetName()}, World: req.GetWorldSize(), Nonce: req.GetNonce()}
	if given := req.GetCheckpoint(); given != nil {
		if given.GetState() == nil {
			return nil, status.Error(codes.InvalidArgument, "the checkpoint has no state; give what `penstock session checkpoint --output json` printed")
		}
		c.Checkpoint = session.NamedFromProto(given)
	}
	a, err := r.do(ctx, call{command: c, limits: s.master.cfg.Access.Limits(identity.From(ctx)), view: true})
	if err != nil {
		return nil, callError(s.explain(ctx, r, err, req.GetCheckpoint().GetSpec(), req.GetCheckpoint().GetState()))
	}
	r.logger.Info("restored to a named checkpoint", "checkpoint", c.Checkpoint.Name, "generation", a.view.GetGeneration(), "world_size", a.view.GetWorldSize())
	return a.view, nil
}

// explain adds to a refused restore in what the first state that is of something else differs, as far as it is known.
func (s *service) explain(ctx context.Context, r *runner, err error, from *pb.Spec, states ...*pb.State) error {
	if !errors.Is(err, session.ErrRestore) {
		return err
	}
	for _, st := range states {
		if words := s.differences(ctx, r, from, st); words != "" {
			return fmt.Errorf("%w. The %s", err, words)
		}
	}
	return err
}

func (s *service) differences(ctx context.Context, r *runner, from *pb.Spec, st *pb.State) string {
	here := r.meta.GetSession()
	then, now := st.GetFingerprint(), here.GetFingerprint()
	switch {
	case string(st.GetProgramDigest()) != string(here.GetProgramDigest()):
		if other, err := s.running(ctx, st.GetSession()); from == nil && err == nil && other != r {
			from = other.meta.GetSession().GetSpec()
		}
		if from != nil {
			return withDifferences("specs differ: ", strings.Join(spec.Diff(from, here.GetSpec()), "; "))
		}
		return withDifferences("specs differ in: ", strings.Join(spec.Differing(then.GetSpec(), now.GetSpec()), ", "))
	case string(st.GetDatasetDigest()) != string(here.GetDatasetDigest()):
		files, err := r.planner.listed(ctx)
		if err != nil {
			r.logger.Warn("cannot say in which files a state differs", "error", err)
		}
		return withDifferences("files differ: ", plan.FileDifferences(then, now, files))
	case string(st.GetPlannerDigest()) != string(here.GetPlannerDigest()):
		return withDifferences("planners differ: ", plan.PlannerDifferences(then, now))
	}
	return ""
}

func withDifferences(what, differences string) string {
	if differences == "" {
		return ""
	}
	return what + differences
}

// named are checkpoints as they are to lie in etcd; nil if they are gone.
func (r *runner) named(names []string) map[string]*pb.Checkpoint {
	if len(names) == 0 {
		return nil
	}
	out := make(map[string]*pb.Checkpoint, len(names))
	for _, name := range names {
		out[name] = nil
		if n := r.state.Named(name); n != nil {
			out[name] = n.Proto()
		}
	}
	return out
}
