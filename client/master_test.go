package client

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// master is a fake master: it grants in order, and checks that what ranks report is theirs.
type master struct {
	pb.UnimplementedMasterServer
	data    *dataset
	spec    *pb.Spec
	workers []*pb.Worker
	streams uint32
	run     int // shards granted at once
	leaseMs int64
	// intercept, if set, is asked before each Sync is applied; an error is the answer.
	intercept func(*pb.SyncRequest) error

	mu       sync.Mutex
	next     int // shards of the session granted so far, over all epochs
	closed   uint32
	returned position.Set
	base     position.Set
	version  uint64
	ranks    map[uint32]*member
	release  position.Set // asked of rank 0
	frozen   bool         // grants nothing
	problems []string
	syncs    int
}

type member struct {
	nonce          string
	incarnation    uint64
	held, consumed position.Set
	counters       *pb.Counters
	left           bool
	revision       uint64
}

func (f *fleet) master(address string, m *master) (stop func()) {
	if m.ranks == nil {
		m.ranks, m.version = make(map[uint32]*member), 1
	}
	if m.leaseMs == 0 {
		m.leaseMs = 90_000
	}
	return f.serve(address, func(s *grpc.Server) { pb.RegisterMasterServer(s, m) })
}

func (m *master) Open(_ context.Context, req *pb.OpenRequest) (*pb.Session, error) {
	return &pb.Session{
		Id: req.GetSession(), Spec: m.spec, Program: []byte("program"), ProgramDigest: []byte("digest"),
		Generation: 1, State: pb.SessionState_RUNNING,
	}, nil
}

func (m *master) Join(_ context.Context, req *pb.JoinRequest) (*pb.JoinReply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.ranks[req.GetRank()]
	kind := pb.JoinKind_REJOIN
	if r == nil {
		r, kind = &member{}, pb.JoinKind_FRESH
		m.ranks[req.GetRank()] = r
	}
	if r.nonce != req.GetNonce() {
		m.returned, r.held = m.returned.Union(r.held), nil
		r.nonce, r.left = req.GetNonce(), false
		r.incarnation++
	}
	for _, st := range req.GetRestore() {
		m.restore(st)
		kind = pb.JoinKind_RESTORED
	}
	return &pb.JoinReply{
		Kind: kind, Generation: 1, Incarnation: r.incarnation, LeaseMs: m.leaseMs, ClosedEpochs: m.closed,
		Consumed: r.consumed.Proto(), Base: m.base.Proto(), BaseVersion: m.version,
	}, nil
}

// restore begins anew behind a state.
func (m *master) restore(st *pb.State) {
	done := position.SetFromProto(st.GetBase()).Union(position.SetFromProto(st.GetConsumed()))
	all := position.Set{{From: position.Position{Epoch: st.GetClosedEpochs()}, To: position.Position{Epoch: m.data.epochs}}}
	m.next = int(m.data.epochs) * len(m.data.shards)
	m.closed, m.base, m.returned = st.GetClosedEpochs(), done, all.Subtract(done)
	m.version++
}

func (m *master) Sync(_ context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	if m.intercept != nil {
		if err := m.intercept(req); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.syncs++
	r := m.ranks[req.GetRank()]
	if r == nil || r.incarnation != req.GetIncarnation() {
		return nil, status.Error(codes.Aborted, "another start of the rank has joined")
	}
	r.counters = req.GetCounters()
	m.consume(r, position.SetFromProto(req.GetConsumed()))
	given := position.SetFromProto(req.GetReleased()).Intersect(r.held).Intersect(m.release)
	if len(given) > 0 {
		r.held, m.release, m.returned = r.held.Subtract(given), m.release.Subtract(given), m.returned.Union(given)
		r.revision++
	}
	if req.GetLeave() {
		m.returned, r.held, r.left = m.returned.Union(r.held), nil, true
	}
	m.close()
	if req.GetWantsMore() && !req.GetLeave() && m.grant(r) {
		r.revision++
	}
	return m.reply(req, r), nil
}

func (m *master) consume(r *member, consumed position.Set) {
	news := consumed.Subtract(r.consumed).Subtract(position.Set{{To: position.Position{Epoch: m.closed}}})
	if foreign := news.Subtract(r.held); len(foreign) > 0 {
		m.problems = append(m.problems, "consumed but not held: "+foreign[0].String())
	}
	r.consumed, r.held = r.consumed.Union(news), r.held.Subtract(news)
}

func (m *master) close() {
	for m.closed < m.data.epochs {
		open := position.Set{{To: position.Position{Epoch: m.closed + 1}}}
		if m.next < int(m.closed+1)*len(m.data.shards) || len(m.returned.Intersect(open)) > 0 {
			return
		}
		for _, r := range m.ranks {
			if len(r.held.Intersect(open)) > 0 {
				return
			}
		}
		m.closed++
		m.version++
	}
}

// grant gives returned positions first, then a run of shards not further than one epoch ahead.
func (m *master) grant(r *member) bool {
	if m.frozen {
		return false
	}
	if len(m.returned) > 0 {
		if got := m.returned.Intersect(position.Set{{To: position.Position{Epoch: m.closed + 2}}}); len(got) > 0 {
			r.held, m.returned = r.held.Union(got), m.returned.Subtract(got)
			return true
		}
		return false
	}
	n := 0
	for ; n < m.run; n++ {
		epoch, i := m.next/len(m.data.shards), m.next%len(m.data.shards)
		if epoch >= int(m.data.epochs) || epoch > int(m.closed)+1 {
			break
		}
		iv := position.Interval{From: m.data.start(uint32(epoch), i), To: m.data.start(uint32(epoch), i+1)}
		r.held = r.held.Union(position.Set{iv})
		m.next++
	}
	return n > 0
}

func (m *master) reply(req *pb.SyncRequest, r *member) *pb.SyncReply {
	end := position.Set{{To: position.Position{Epoch: m.closed + 1}}}
	reply := &pb.SyncReply{
		Revision: r.revision, Unchanged: r.revision == req.GetRevision(), Streams: m.streams, ClosedEpochs: m.closed,
		Finished: m.closed == m.data.epochs, BaseVersion: m.version, Release: m.release.Intersect(r.held).Proto(),
		Drained: m.next >= int(m.closed+1)*len(m.data.shards) && len(m.returned.Intersect(end)) == 0,
	}
	if req.GetBaseVersion() != m.version {
		reply.Base = m.base.Proto()
	}
	if reply.Unchanged {
		return reply
	}
	for epoch := range m.data.epochs {
		for i := range m.data.shards {
			shard := position.Set{{From: m.data.start(epoch, i), To: m.data.start(epoch, i+1)}}
			for _, iv := range r.held.Intersect(shard) {
				reply.Grants = append(reply.Grants, &pb.Grant{Interval: iv.Proto(), Ticket: m.ticket(shard[0].From)})
			}
		}
	}
	return reply
}

func (m *master) ticket(p position.Position) []byte {
	t, err := proto.Marshal(&pb.Ticket{
		Epoch: p.Epoch, Block: p.Block, Shard: p.Shard, File: &pb.File{Uri: "mem://part"}, Workers: m.workers,
	})
	if err != nil {
		panic(err)
	}
	signed, err := proto.Marshal(&pb.SignedTicket{Ticket: t})
	if err != nil {
		panic(err)
	}
	return signed
}

// change runs f with the master stopped, and makes every rank's grants new.
func (m *master) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	for _, r := range m.ranks {
		r.revision++
	}
}

func (m *master) found() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.problems)
}

func workersAt(addresses ...string) []*pb.Worker {
	var out []*pb.Worker
	for _, a := range addresses {
		out = append(out, &pb.Worker{Name: a, Address: a})
	}
	return out
}
