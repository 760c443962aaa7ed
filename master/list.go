package master

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// listPatience is how long a list waits for a session that is busy with a slow etcd.
const listPatience = 3 * time.Second

// ListSessions answers even if some sessions do not: those have no state.
func (s *service) ListSessions(ctx context.Context, _ *pb.ListSessionsRequest) (*pb.ListSessionsReply, error) {
	t, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	patient, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	runners := t.all()
	found := make([]*pb.Session, len(runners))
	var group errgroup.Group
	group.SetLimit(loadsAtOnce)
	for i, r := range runners {
		group.Go(func() error {
			a, err := r.do(patient, call{view: true})
			switch {
			case err == nil:
				found[i] = a.view
			case status.Code(err) != codes.NotFound: // else it was deleted meanwhile
				found[i] = proto.CloneOf(r.meta.GetSession())
			}
			return nil //nolint:nilerr // a session that does not answer is listed as such
		})
	}
	_ = group.Wait() // no function fails
	if ctx.Err() != nil {
		return nil, callError(ctx.Err())
	}
	found = append(slices.DeleteFunc(found, func(s *pb.Session) bool { return s == nil }), t.lost()...)
	for _, f := range found {
		f.Program = nil
	}
	slices.SortFunc(found, func(a, b *pb.Session) int { return cmp.Compare(a.GetId(), b.GetId()) })
	return &pb.ListSessionsReply{Sessions: found}, nil
}

// lost lists the sessions that cannot be taken up.
func (t *term) lost() []*pb.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*pb.Session
	for id, err := range t.damaged {
		out = append(out, &pb.Session{Id: id, State: pb.SessionState_FAILED, Failure: err.Error()})
	}
	return out
}
