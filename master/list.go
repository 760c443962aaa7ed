package master

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/store"
)

const (
	// listPatience is how long a list waits for its turn, and for a session that is busy with a slow etcd.
	listPatience = 3 * time.Second
	// maxList bounds the specs and ranks of a list, in bytes: a spec may have a megabyte. Sessions beyond are listed
	// without them.
	maxList = 16 << 20
	// listsAtOnce bounds the lists that are made at once, and listsOfOne those of a namespace.
	listsAtOnce, listsOfOne = 16, 4
)

// ListSessions answers even if some sessions do not: those have no state.
// It lists what the caller may see: all namespaces, for one who may see them all and names none.
func (s *service) ListSessions(ctx context.Context, _ *pb.ListSessionsRequest) (*pb.ListSessionsReply, error) {
	who := identity.From(ctx)
	patient, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	end, ok := s.master.lists.Await(patient, who)
	if !ok {
		return nil, status.Errorf(codes.ResourceExhausted,
			"too many lists of sessions are being made: %d at once, and %d for one namespace; try again",
			listsAtOnce, listsOfOne)
	}
	defer end()
	t, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	runners := slices.DeleteFunc(t.all(), func(r *runner) bool { return !who.Sees(r.meta.GetSession().GetNamespace()) })
	if len(runners) == 0 { // else their states tell whether this master leads still
		if address, err := s.master.cfg.Store.Leader(patient); err != nil || address != s.master.cfg.Advertise {
			return nil, callError(cmp.Or(err, store.ErrNotLeader))
		}
	}
	found := make([]*pb.Session, len(runners))
	var deposed atomic.Bool
	var group errgroup.Group
	group.SetLimit(loadsAtOnce)
	for i, r := range runners {
		group.Go(func() error {
			a, err := r.do(patient, call{view: true})
			switch {
			case err == nil:
				found[i] = a.view
			case errors.Is(err, errClosed): // it is listed as such
			case errors.Is(err, store.ErrNotLeader):
				deposed.Store(true)
			case status.Code(err) != codes.NotFound: // else it was deleted meanwhile
				found[i] = openedAs(r.meta)
			}
			return nil //nolint:nilerr // a session that does not answer is listed as such
		})
	}
	_ = group.Wait() // no function fails
	switch {
	case ctx.Err() != nil:
		return nil, callError(ctx.Err())
	case deposed.Load():
		return nil, callError(store.ErrNotLeader)
	}
	past, more, err := t.listClosed(patient, who)
	if errors.Is(err, store.ErrUnavailable) { // those that run are listed still
		more = true
	} else if err != nil {
		return nil, callError(err)
	}
	found = slices.Concat(slices.DeleteFunc(found, func(s *pb.Session) bool { return s == nil }), t.lost(who), past)
	shorten(found)
	slices.SortFunc(found, func(a, b *pb.Session) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetId(), b.GetId()))
	})
	found = slices.CompactFunc(found, func(a, b *pb.Session) bool { // it was closed meanwhile
		return a.GetNamespace() == b.GetNamespace() && a.GetId() == b.GetId()
	})
	return &pb.ListSessionsReply{Sessions: found, MoreClosed: more}, nil
}

// shorten takes out of a list what does not fit into an answer: who asks for one session gets all of it.
func shorten(found []*pb.Session) {
	left := maxList
	for _, f := range found {
		f.Program = nil
		if left -= proto.Size(f); left < 0 {
			f.Spec = nil
			if f.Progress != nil {
				f.Progress.Ranks = nil
			}
		}
	}
}

// lost lists the sessions that a caller may see and that cannot be taken up.
func (t *term) lost(who identity.Identity) []*pb.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*pb.Session
	for name, err := range t.damaged {
		if namespace, id := name.Split(); who.Sees(namespace) {
			out = append(out, &pb.Session{
				Namespace: namespace, Id: id, State: pb.SessionState_FAILED,
				Failure: err.Error(),
			})
		}
	}
	return out
}
