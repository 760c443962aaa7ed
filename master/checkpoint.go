package master

import (
	"cmp"
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

func (s *service) CreateCheckpoint(
	ctx context.Context, req *pb.CreateCheckpointRequest,
) (*pb.CreateCheckpointReply, error) {
	if err := checkNonce(req.GetNonce()); err != nil {
		return nil, err
	}
	c := session.CreateCheckpoint{Name: req.GetName(), Nonce: req.GetNonce(), Now: time.Now().Unix()}
	reply, of, err := s.ofCheckpoints(ctx, req.GetSession(), c)
	if err != nil {
		return nil, err
	}
	m := reply.Taken.Proto()
	if m.GetCheckpoint() != nil {
		m.Checkpoint.Spec = of.GetSpec()
	}
	return m, nil
}

// ofCheckpoints has a session execute a command about its checkpoints, by which a closed one does not change.
func (s *service) ofCheckpoints(
	ctx context.Context, id string, command session.Command,
) (reply session.Reply, of *pb.Session, err error) {
	err = s.visit(ctx, id, func(r *runner) error {
		a, err := r.do(ctx, call{command: command})
		reply, of = a.Reply, r.meta.GetSession()
		return err
	}, func(_ *term, c *closed) error {
		c, err := c.withCheckpoints(ctx, s.master.cfg.Store)
		if err != nil {
			return err
		}
		of = c.GetMeta().GetSession()
		reply, _, err = c.state.Apply(command)
		return err
	})
	return reply, of, err
}

func checkNonce(nonce string) error {
	if nonce == "" || len(nonce) > maxText {
		return status.Errorf(codes.InvalidArgument, "a nonce has 1 to %d bytes", maxText)
	}
	return nil
}

func (s *service) ListCheckpoints(
	ctx context.Context, req *pb.ListCheckpointsRequest,
) (*pb.ListCheckpointsReply, error) {
	reply, _, err := s.ofCheckpoints(ctx, req.GetSession(), session.ListCheckpoints{})
	m := &pb.ListCheckpointsReply{}
	for _, n := range reply.Checkpoints {
		m.Checkpoints = append(m.Checkpoints, n.Proto())
	}
	return m, err
}

func (s *service) DeleteCheckpoint(
	ctx context.Context, req *pb.DeleteCheckpointRequest,
) (*pb.DeleteCheckpointReply, error) {
	may := func(of *pb.Session) error {
		return access.MayDelete(identity.From(ctx), of.GetOwner(), "delete its checkpoints")
	}
	command := session.DeleteCheckpoint{Name: req.GetName()}
	err := s.visit(ctx, req.GetSession(), func(r *runner) error {
		if err := may(r.meta.GetSession()); err != nil {
			return err
		}
		_, err := r.do(ctx, call{command: command})
		return err
	}, func(t *term, c *closed) error {
		if err := may(c.GetMeta().GetSession()); err != nil {
			return err
		}
		c, err := c.withCheckpoints(ctx, s.master.cfg.Store)
		if err == nil {
			_, _, err = c.state.Apply(command)
		}
		if err != nil {
			return err
		}
		return s.master.cfg.Store.DeleteCheckpoint(ctx, t.leadership, c.Closed, req.GetName())
	})
	return &pb.DeleteCheckpointReply{}, err
}

func (s *service) RestoreSession(ctx context.Context, req *pb.RestoreSessionRequest) (view *pb.Session, err error) {
	if err := checkNonce(req.GetNonce()); err != nil {
		return nil, err
	}
	c := session.Restore{
		Checkpoint: session.Named{Name: req.GetName()}, World: req.GetWorldSize(),
		Nonce: req.GetNonce(),
	}
	if given := req.GetCheckpoint(); given != nil {
		if given.GetState() == nil {
			return nil, status.Error(codes.InvalidArgument,
				"the checkpoint has no state; give what `penstock session checkpoint --output json` printed")
		}
		c.Checkpoint = session.NamedFromProto(given)
	}
	may := func(of *pb.Session) error {
		return access.MayDelete(identity.From(ctx), of.GetOwner(), "put it back to a checkpoint")
	}
	limits := s.master.cfg.Access.Limits(identity.From(ctx))
	err = s.visit(ctx, req.GetSession(), func(r *runner) error {
		if err := may(r.meta.GetSession()); err != nil {
			return err
		}
		a, err := r.do(ctx, call{command: c, limits: limits, view: true})
		if err != nil {
			return s.explain(ctx, r, err, req.GetCheckpoint().GetSpec(), req.GetCheckpoint().GetState())
		}
		view = a.view
		r.logger.Info("restored to a named checkpoint", "checkpoint", c.Checkpoint.Name,
			"generation", view.GetGeneration(), "world_size", view.GetWorldSize())
		return nil
	}, func(t *term, past *closed) error {
		if err := may(past.GetMeta().GetSession()); err != nil {
			return err
		}
		tried, err := past.withCheckpoints(ctx, s.master.cfg.Store)
		if err == nil {
			_, _, err = tried.state.Apply(c)
		}
		if err != nil {
			return err
		}
		return cmp.Or(t.reopen(ctx, limits, past), errClosed) // and then as one that runs
	})
	return view, err
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
		if from == nil && st.GetSession() != here.GetId() {
			other, err := s.GetSession(ctx, &pb.GetSessionRequest{Session: st.GetSession()})
			if err == nil {
				from = other.GetSpec()
			}
		}
		if from != nil {
			return withDifferences("specs differ: ", strings.Join(spec.Diff(from, here.GetSpec()), "; "))
		}
		return withDifferences("specs differ in: ", strings.Join(spec.Differing(then.GetSpec(), now.GetSpec()), ", "))
	case string(st.GetDatasetDigest()) != string(here.GetDatasetDigest()):
		if of := spec.TableOf(here.GetSpec()); of != "" && st.GetTable() != "" && st.GetTable() != of {
			return fmt.Sprintf("tables differ: then %s, now %s", st.GetTable(), of)
		}
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
