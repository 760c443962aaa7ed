package master

import (
	"cmp"
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/observe"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

const (
	// maxText bounds names that callers choose, in bytes.
	maxText = 256
	// maxReport bounds what a worker tells of itself: some hundred bytes for each of its sessions and their ops.
	maxReport = 1 << 20

	// awaitsEtcd is what a master says that has just started.
	awaitsEtcd = "this master waits for etcd, which does not answer yet; its log says why"
)

// service answers the control plane's calls.
type service struct {
	pb.UnimplementedMasterServer
	master *Master
	texts  specTexts
}

// leader returns this master's term, or an error that names who leads.
func (s *service) leader(ctx context.Context) (*term, error) {
	if t := s.master.leading(); t != nil {
		return t, nil
	}
	etcd := s.master.store()
	if etcd == nil {
		return nil, status.Error(codes.Unavailable, awaitsEtcd)
	}
	address, err := etcd.Leader(ctx)
	if errors.Is(err, store.ErrUnavailable) {
		return nil, status.Error(codes.Unavailable,
			"no master leads, for etcd does not answer; streams go on, and all else does once it is back: "+err.Error())
	}
	if err != nil || address == s.master.cfg.Advertise {
		return nil, status.Error(codes.Unavailable, "no master leads at the moment; try again")
	}
	st, err := status.New(codes.Unavailable, "this master does not lead; "+address+" does").WithDetails(&pb.NotLeader{
		Leader: address,
	})
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return nil, st.Err()
}

func (s *service) Open(ctx context.Context, req *pb.OpenRequest) (*pb.Session, error) {
	t, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	if req, err = withSpec(req, &s.texts); err != nil {
		return nil, err
	}
	who := identity.From(ctx)
	view, err := t.open(ctx, &wanted{
		OpenRequest: req, name: store.NameOf(who.Home(), req.GetSession()), who: who,
		limits: s.master.cfg.Access.Limits(who),
	})
	if err != nil {
		return nil, callError(err)
	}
	return view, nil
}

func (s *service) GetSession(ctx context.Context, req *pb.GetSessionRequest) (view *pb.Session, err error) {
	err = s.look(ctx, req.GetSession(), func(r *runner) error {
		view, err = viewFrom(ctx, r)
		return err
	}, func(_ *term, c *closed) error {
		view = c.view()
		return nil
	})
	return view, err
}

func viewFrom(ctx context.Context, r *runner) (*pb.Session, error) {
	a, err := r.do(ctx, call{view: true})
	return a.view, err
}

func (s *service) DeleteSession(ctx context.Context, req *pb.DeleteSessionRequest) (*pb.DeleteSessionReply, error) {
	t, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.delete(ctx, identity.From(ctx), store.NameOf(identity.From(ctx).Home(), req.GetSession())); err != nil {
		return nil, callError(err)
	}
	return &pb.DeleteSessionReply{}, nil
}

func (s *service) Join(ctx context.Context, req *pb.JoinRequest) (reply *pb.JoinReply, err error) {
	if len(req.GetNonce()) > maxText {
		return nil, status.Errorf(codes.InvalidArgument, "a nonce has at most %d bytes", maxText)
	}
	c := session.Join{
		Rank: req.GetRank(), World: req.GetWorldSize(), Nonce: req.GetNonce(),
		Restoring: req.GetRestoring(), AcceptCode: req.GetAcceptCodeChange(),
	}
	if err := checkStored(req.GetCode()); err != nil {
		return nil, err
	}
	for _, st := range req.GetRestore() {
		c.Restore = append(c.Restore, session.CheckpointFromProto(st))
	}
	limits := s.master.cfg.Access.Limits(identity.From(ctx))
	err = s.visit(ctx, req.GetSession(), func(r *runner) error {
		if err := fits(r.meta.GetSession(), req); err != nil {
			return err
		}
		if err := r.haveCode(ctx, req.GetCode()); err != nil {
			return err
		}
		a, err := r.do(ctx, call{command: c, limits: limits, view: true})
		if err != nil {
			return s.explain(ctx, r, err, nil, req.GetRestore()...)
		}
		reply = s.joinReply(a)
		return nil
	}, func(t *term, past *closed) error {
		if err := fits(past.GetMeta().GetSession(), req); err != nil {
			return err
		}
		if c.Restoring || len(c.Restore) > 0 || !past.state.Over() {
			return cmp.Or(t.reopen(ctx, limits, past), errClosed)
		}
		a, err := past.answer(c)
		reply = s.joinReply(a)
		return err
	})
	return reply, err
}

// fits holds that a session's batches can be divided by the world size of a rank that joins.
func fits(of *pb.Session, req *pb.JoinRequest) error {
	if _, err := spec.BatchSize(of.GetSpec(), of.GetWorldSize(), req.GetWorldSize()); err != nil {
		return status.Errorf(codes.InvalidArgument, "rank %d joins session %q: %v", req.GetRank(), req.GetSession(),
			err)
	}
	return nil
}

func (s *service) joinReply(a answer) *pb.JoinReply {
	return &pb.JoinReply{
		Kind: a.Kind, Generation: a.Generation, Incarnation: a.Incarnation, Session: a.view,
		LeaseMs: s.master.cfg.Lease.Milliseconds(), ClosedEpochs: a.Closed, Consumed: a.Consumed.Proto(),
		WaitingFor: a.WaitingFor,
		Base:       a.Base.Proto(), BaseVersion: a.BaseVersion, Members: a.Members, Departed: a.Departed,
		Steps:        a.Begun.Proto(),
		DepartedRows: a.DepartedRows, Earlier: a.Earlier.Proto(), Starts: session.LaneStartsProto(a.Starts),
		Skipped: session.SkippedProto(a.Skipped), SkippedRowGroups: a.SkippedRowGroups,
		ConsumedSkips: a.Skips.Proto(), BaseSkips: a.BaseSkips.Proto(), Indexes: session.BlockIndexesProto(a.Indexes),
	}
}

func (s *service) Sync(ctx context.Context, req *pb.SyncRequest) (reply *pb.SyncReply, err error) {
	if len(req.GetZone()) > maxText {
		return nil, status.Errorf(codes.InvalidArgument, "a zone has at most %d bytes", maxText)
	}
	places := s.master.places.get()
	revision, sameFleet := places.split(req.GetRevision())
	command := session.Sync{
		Rank: req.GetRank(), Generation: req.GetGeneration(), Incarnation: req.GetIncarnation(), Nonce: req.GetNonce(),
		Consumed: position.SetFromProto(req.GetConsumed()), Released: position.SetFromProto(req.GetReleased()),
		Leave: req.GetLeave(), Counters: session.CountersFromProto(req.GetCounters()),
		Revision: revision, BaseVersion: req.GetBaseVersion(), WantsMore: req.GetWantsMore(), Idle: req.GetIdle(),
		Steps: session.StepsFromProto(req.GetSteps()), Part: session.PartFromProto(req.GetCheckpoint()),
		From: req.GetFromEpoch(), Skips: position.TallyFromProto(req.GetConsumedSkips()),
		BadRows: session.BadRowsFromProto(req.GetBadRows()),
	}
	err = s.visit(ctx, req.GetSession(), func(r *runner) error {
		command.Streams = cmp.Or(r.streams.Load(), places.Streams(int(r.world.Load())))
		a, err := r.do(ctx, call{refresh: !sameFleet, zone: req.GetZone(), refused: req.GetRefused(), command: command})
		if err != nil {
			return err
		}
		s.master.observed.Trainer(time.Now(), r.meta.GetSession().GetNamespace(), req)
		reply = syncReply(a, places)
		reply.Streams = command.Streams
		reply.Cause = s.master.observed.Cause(r.meta.GetSession().GetNamespace(), req.GetSession())
		return nil
	}, func(_ *term, c *closed) error {
		a, err := c.answer(command)
		reply = syncReply(a, places)
		return err
	})
	return reply, err
}

func syncReply(a answer, places *places) *pb.SyncReply {
	return &pb.SyncReply{
		Revision: places.join(a.Revision), Unchanged: a.Unchanged, Grants: a.grants, Release: a.Release.Proto(),
		ClosedEpochs: a.Closed, Finished: a.Finished, Failure: a.Failure, Workers: uint32(places.Workers),
		Drained: a.Drained,
		Base:    a.Base.Proto(), BaseVersion: a.BaseVersion, Members: a.Members, Departed: a.Departed,
		DepartedRows: a.DepartedRows, Starts: session.LaneStartsProto(a.Starts),
		Steps:   session.EpochStepsProto(a.Steps),
		Skipped: session.SkippedProto(a.Skipped), SkippedRowGroups: a.SkippedRowGroups, BadData: a.BadData,
		Checkpoint: a.Order.Proto(), BaseSkips: a.BaseSkips.Proto(), Indexes: session.BlockIndexesProto(a.Indexes),
	}
}

// SyncWorker is answered by every master, whether it leads or not.
func (s *service) SyncWorker(_ context.Context, req *pb.WorkerReport) (*pb.WorkerOrders, error) {
	if req.GetName() == "" || len(req.GetName()) > maxText || len(req.GetAddress()) > maxText {
		return nil, status.Errorf(codes.InvalidArgument,
			"a worker's report needs its name, and its name and address have at most %d bytes", maxText)
	}
	if n := proto.Size(req); n > maxReport {
		return nil, status.Errorf(codes.InvalidArgument, "a worker's report has %d bytes; it may have %d", n, maxReport)
	}
	s.master.observed.Worker(time.Now(), req)
	orders := &pb.WorkerOrders{Keys: s.master.signer.Keys()}
	if t := s.master.leading(); t != nil {
		orders.Drain = t.scaler.drains(req.GetName())
	}
	return orders, nil
}

// Observe says what the leader measured, of sessions that the caller may see.
func (s *service) Observe(ctx context.Context, req *pb.ObserveRequest) (*pb.Observation, error) {
	t, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	who := identity.From(ctx)
	s.master.observed.CatchUp(time.Now(), t.running())
	out := s.master.observed.Observation(time.Now(), req, observe.View{All: who.SeesAll(), Namespace: who.Home()})
	if req.GetSession() == "" {
		return out, t.progress(ctx, out.GetSessions())
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	view, err := s.GetSession(ctx, &pb.GetSessionRequest{Session: req.GetSession()})
	if status.Code(err) == codes.DeadlineExceeded && len(out.GetSessions()) > 0 {
		return out, nil
	}
	if err == nil {
		withProgress(out, view)
	}
	return out, err
}

// GetFleet is answered by every master, whether it leads or not, and without etcd.
func (s *service) GetFleet(context.Context, *pb.GetFleetRequest) (*pb.Fleet, error) {
	out := &pb.Fleet{Leader: s.master.leaderAddress()}
	for _, w := range s.master.observed.Workers() {
		out.Streams += uint32(w.Streams)
	}
	for _, role := range []fleet.Role{fleet.Master, fleet.Worker} {
		for _, m := range s.master.fleet.Members(role) {
			out.Members = append(out.Members, &pb.FleetMember{
				Role: string(role), Name: m.Name, Address: m.Address, Zone: m.Zone, Version: m.Version,
				Slots: uint32(m.Slots), Draining: m.Draining,
			})
		}
	}
	return out, nil
}

// ListEvents is answered by the leader, which writes them.
func (s *service) ListEvents(ctx context.Context, req *pb.ListEventsRequest) (*pb.ListEventsReply, error) {
	t, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	who := identity.From(ctx)
	found, err := t.events.List(ctx, req.GetAfter(), int(req.GetLimit()),
		func(e *pb.Event) bool { return isAbout(e, who, req.GetSession()) })
	if err != nil {
		return nil, callError(err)
	}
	return &pb.ListEventsReply{Events: found}, nil
}

// isAbout reports whether an event is one that a caller may see, and about a session of its namespace, if it asks after
// one. What names no session is of the fleet, and everybody's.
func isAbout(e *pb.Event, who identity.Identity, session string) bool {
	switch {
	case session != "":
		return e.GetSession() == session && cmp.Or(e.GetNamespace(), identity.DefaultNamespace) == who.Home()
	case e.GetSession() != "":
		return who.Sees(e.GetNamespace())
	case e.GetKind() == pb.EventKind_SCALE: // its reason names sessions
		return who.SeesAll()
	}
	return true
}

// WhoAmI is answered by every master, whether it leads or not.
func (s *service) WhoAmI(ctx context.Context, _ *pb.WhoAmIRequest) (*pb.Caller, error) {
	who := identity.From(ctx)
	limits := s.master.cfg.Access.Limits(who)
	out := &pb.Caller{
		Subject: who.Subject, Namespace: who.Home(), Everywhere: who.Everywhere,
		Unlimited: limits.Unlimited(), Datasets: limits.Datasets, Storage: limits.Profiles(),
		Code: string(s.master.cfg.Access.Code(who.Home(), s.master.cfg.Code)),
	}
	for _, r := range who.Roles {
		out.Roles = append(out.Roles, string(r))
	}
	if limits.MaxSessions != nil {
		out.MaxSessions = proto.Uint32(uint32(*limits.MaxSessions))
	}
	if limits.MaxWorkers != nil {
		out.MaxWorkers = proto.Uint32(uint32(*limits.MaxWorkers))
	}
	return out, nil
}

// callError says in a status code what the caller should do.
func callError(err error) error {
	code := codes.Internal
	switch {
	case errors.Is(err, session.ErrFenced):
		code = codes.Aborted
	case errors.Is(err, session.ErrInvalid):
		code = codes.InvalidArgument
	case errors.Is(err, session.ErrCheckpointExists):
		code = codes.AlreadyExists
	case errors.Is(err, session.ErrNoCheckpoint):
		code = codes.NotFound
	case errors.Is(err, session.ErrRestore), errors.Is(err, session.ErrCheckpoint), errors.Is(err,
		session.ErrFailed), errors.Is(err, store.ErrTooLarge), errors.Is(err, store.ErrCodeFull), errors.Is(err,
		store.ErrNoCode):
		code = codes.FailedPrecondition
	case errors.Is(err, store.ErrCodeHash):
		code = codes.InvalidArgument
	case errors.Is(err, store.ErrNotFound):
		code = codes.NotFound
	case errors.Is(err, store.ErrCorrupt):
		code = codes.DataLoss
	case errors.Is(err, store.ErrNotLeader), errors.Is(err, store.ErrNoLeader):
		return status.Error(codes.Unavailable,
			"this master has lost the leadership; try again, another one or itself will lead")
	case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrUnavailable),
		errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrStale):
		code = codes.Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	default:
		// What etcd's client says in a status is not for our callers: only an error that is one itself.
		if own, ok := err.(interface{ GRPCStatus() *status.Status }); ok { //nolint:errorlint // see above
			return own.GRPCStatus().Err()
		}
	}
	return status.Error(code, err.Error())
}
