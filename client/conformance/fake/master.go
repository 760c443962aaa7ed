package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Master grants in order, and checks that what ranks report is theirs.
type Master struct {
	pb.UnimplementedMasterServer
	Data    *Dataset
	Spec    *pb.Spec
	Workers []*pb.Worker
	Streams uint32
	// Run is how many shards are granted at once.
	Run     int
	LeaseMs int64 // 90 s unless set
	// Codes are what ranks sent of their functions.
	Codes Codes
	// Intercept, if set, is asked before each call is applied, with its request; an error is the answer.
	Intercept func(proto.Message) error
	// Answer, if set, sees each answer before it leaves, and may change it. An error goes out in its place: the call
	// was applied, and its answer is lost.
	Answer func(proto.Message) error

	mu sync.Mutex
	// The following are read and written in Change.

	Next     int // shards of the session granted so far, over all epochs
	Planned  int // order deterministic: blocks of the session, over all epochs
	World    uint32
	Closed   uint32
	Code     *pb.StoredCode // of the session
	Returned position.Set
	Release  position.Set // asked of any rank
	Frozen   bool         // grants nothing
	Failure  string       // why the session failed
	Skipped  position.Set // that no worker can read
	Ranks    map[uint32]*Member

	base     position.Set
	version  uint64
	steps    map[uint32]uint64      // of epochs, where last batches are padded in order fast
	begun    *pb.RankSteps          // where restored ranks go on
	start    *pb.LaneStart          // of the block where planning goes on
	parts    map[uint32][]*pb.State // of a collective restore
	restored bool
	problems []string
	skipped  []*pb.SkippedRows
	badData  bool // of the failure
	checkpoints
}

// Member is a rank that joined.
type Member struct {
	Held, Consumed position.Set
	Counters       *pb.Counters
	Pace           *pb.Pace
	Left           bool
	Incarnation    uint64

	earlier  int64 // rows of earlier incarnations
	nonce    string
	revision uint64
	steps    *pb.RankSteps // newest report
	from     uint32        // it left the epochs before this one
}

// Master serves a master and returns what stops it.
func (n *Net) Master(name string, m *Master) (stop func()) {
	m.mu.Lock()
	if m.Ranks == nil {
		m.Ranks, m.parts, m.version = make(map[uint32]*Member), make(map[uint32][]*pb.State), 1
		m.steps = make(map[uint32]uint64)
	}
	m.World = max(1, m.World)
	if m.LeaseMs == 0 {
		m.LeaseMs = 90_000
	}
	m.mu.Unlock()
	return n.Serve(name, func(s *grpc.Server) { pb.RegisterMasterServer(s, m) })
}

// answer runs one call.
func answer[Req, Reply proto.Message](m *Master, req Req, apply func(Req) (Reply, error)) (Reply, error) {
	var none Reply
	if m.Intercept != nil {
		if err := m.Intercept(req); err != nil {
			return none, err
		}
	}
	m.mu.Lock()
	reply, err := apply(req)
	m.mu.Unlock()
	if err == nil && m.Answer != nil {
		err = m.Answer(reply)
	}
	if err != nil {
		return none, err
	}
	return reply, nil
}

// Open finds every session.
func (m *Master) Open(_ context.Context, req *pb.OpenRequest) (*pb.Session, error) {
	return answer(m, req, func(req *pb.OpenRequest) (*pb.Session, error) {
		if err := m.haveCode(req.GetCode()); err != nil {
			return nil, err
		}
		m.World = max(1, req.GetWorldSize())
		return m.session(req.GetSession()), nil
	})
}

// GetSession finds every session.
func (m *Master) GetSession(_ context.Context, req *pb.GetSessionRequest) (*pb.Session, error) {
	return answer(m, req, func(req *pb.GetSessionRequest) (*pb.Session, error) {
		return m.session(req.GetSession()),
			nil
	})
}

func (m *Master) session(id string) *pb.Session {
	batch := m.Spec.GetBatchSize()
	if m.Spec.GetGlobalBatchSize() > 0 {
		batch = m.Spec.GetGlobalBatchSize() / int64(m.World)
	}
	return &pb.Session{
		Id: id, Spec: m.Spec, WorldSize: m.World, BatchSize: batch, Lanes: m.Spec.GetLanes(), Generation: 1,
		Program: program(), ProgramDigest: []byte("digest"), State: pb.SessionState_RUNNING,
		Code: m.Code,
	}
}

// Join makes the caller a rank. A collective restore waits for all ranks of the request's world size.
func (m *Master) Join(_ context.Context, req *pb.JoinRequest) (*pb.JoinReply, error) {
	return answer(m, req, m.join)
}

func (m *Master) join(req *pb.JoinRequest) (*pb.JoinReply, error) {
	if err := m.haveCode(req.GetCode()); err != nil {
		return nil, err
	}
	r := m.Ranks[req.GetRank()]
	kind := pb.JoinKind_REJOIN
	if r == nil {
		r, kind = &Member{}, pb.JoinKind_FRESH
		m.Ranks[req.GetRank()] = r
	}
	if r.nonce != req.GetNonce() {
		m.Returned, r.Held = m.Returned.Union(r.Held), nil
		r.earlier, r.Counters = r.earlier+r.Counters.GetRows(), nil
		r.nonce, r.Left, r.from = req.GetNonce(), false, 0
		r.Incarnation++
		m.version++
	}
	if req.GetRestoring() || len(req.GetRestore()) > 0 {
		m.parts[req.GetRank()] = req.GetRestore()
		kind = pb.JoinKind_RESTORED
		if missing := m.missing(req.GetWorldSize()); len(missing) > 0 {
			return &pb.JoinReply{WaitingFor: missing}, nil
		}
		m.restore()
	}
	steps := m.stepsOf(r, kind)
	reply := &pb.JoinReply{
		Steps: steps, Kind: kind, Generation: 1, Incarnation: r.Incarnation,
		LeaseMs: m.LeaseMs, ClosedEpochs: m.Closed,
		Consumed: r.Consumed.Proto(), BaseVersion: m.version, Earlier: &pb.Counters{Rows: r.earlier},
	}
	reply.ConsumedSkips = m.Data.BadIn(r.Consumed).Proto()
	if m.Code != nil {
		reply.Session = m.session(req.GetSession())
	}
	reply.Base, reply.Members, reply.Departed, reply.DepartedRows = m.told()
	if m.inLanes() {
		r.steps, reply.Starts = steps, lanes{m}.starts(steps)
		r.revision++
	}
	return reply, nil
}

// stepsOf is where a rank's training loop goes on.
func (m *Master) stepsOf(r *Member, kind pb.JoinKind) *pb.RankSteps {
	switch {
	case kind == pb.JoinKind_RESTORED:
		return m.begun
	case kind == pb.JoinKind_REJOIN && (r.steps.GetEpoch() == m.Closed || m.counted() && r.steps.GetEpoch() > m.Closed):
		return r.steps
	case kind == pb.JoinKind_REJOIN:
		return &pb.RankSteps{Epoch: m.Closed}
	}
	return &pb.RankSteps{}
}

// missing are the ranks that a collective restore waits for.
func (m *Master) missing(world uint32) (ranks []uint32) {
	for rank := range world {
		if _, came := m.parts[rank]; !came {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// restore begins anew after the states that the ranks brought, once.
func (m *Master) restore() {
	if m.restored {
		return
	}
	m.restored = true
	m.version++
	if m.inLanes() {
		lanes{m}.restore(slices.Concat(slices.Collect(maps.Values(m.parts))...))
		return
	}
	m.Closed = m.Data.Epochs
	for _, states := range m.parts {
		for _, st := range states {
			m.base = m.base.Union(position.SetFromProto(st.GetBase())).Union(position.SetFromProto(st.GetConsumed()))
			m.Closed = min(m.Closed, st.GetClosedEpochs())
			m.begun = &pb.RankSteps{Epoch: st.GetClosedEpochs(), Handed: st.GetHanded()}
		}
	}
	m.count(m.begun.GetEpoch(), m.begun.GetHanded())
	all := position.Set{{From: position.Position{Epoch: m.Closed}, To: position.Position{Epoch: m.Data.Epochs}}}
	m.Next = int(m.Data.Epochs) * len(m.Data.Shards)
	m.Returned = all.Subtract(m.base)
}

// Sync takes over a rank's state and says what it holds.
func (m *Master) Sync(_ context.Context, req *pb.SyncRequest) (*pb.SyncReply, error) {
	return answer(m, req, m.sync)
}

func (m *Master) sync(req *pb.SyncRequest) (*pb.SyncReply, error) {
	r := m.Ranks[req.GetRank()]
	if r == nil || r.Incarnation != req.GetIncarnation() || r.nonce != req.GetNonce() {
		return nil, status.Error(codes.Aborted, "another start of the rank has joined")
	}
	if m.Failure != "" {
		return m.failed(), nil
	}
	r.Counters, r.Pace = req.GetCounters(), req.GetPace()
	m.report(req, r)
	m.skips(req)
	m.consume(r, position.SetFromProto(req.GetConsumed()))
	m.leavePasses(req, r)
	m.problems = append(m.problems, m.takePart(req)...)
	m.refused(req, r)
	if m.Failure != "" {
		return m.failed(), nil
	}
	given := position.SetFromProto(req.GetReleased()).Intersect(r.Held).Intersect(m.Release)
	if len(given) > 0 {
		r.Held, m.Release, m.Returned = r.Held.Subtract(given), m.Release.Subtract(given), m.Returned.Union(given)
		r.revision++
	}
	if req.GetLeave() {
		m.Returned, r.Held = m.Returned.Union(r.Held), nil
		if !r.Left {
			r.Left = true
			m.version++
		}
	}
	m.close()
	if m.inLanes() {
		if req.GetWantsMore() {
			lanes{m}.plan()
		}
		return m.reply(req, r), nil
	}
	if req.GetWantsMore() && !req.GetLeave() && m.grant(r) {
		r.revision++
	}
	if m.drops() {
		drop{m}.recall()
	}
	return m.reply(req, r), nil
}

func (m *Master) failed() *pb.SyncReply { return &pb.SyncReply{Failure: m.Failure, BadData: m.badData} }

// report takes over where a rank's training loop is.
func (m *Master) report(req *pb.SyncRequest, r *Member) {
	if m.counted() {
		m.reportCounted(req, r)
		return
	}
	pads := m.Spec.GetLastBatch() == pb.LastBatch_PAD
	if n := req.GetSteps(); n == nil || n.GetEpoch() > m.Closed || n.GetHanded() > n.GetReady() || !pads &&
		n.GetReady() > 0 {
		m.problems = append(m.problems, "reported the steps "+n.String())
	}
	r.steps = req.GetSteps()
	m.count(r.steps.GetEpoch(), r.steps.GetReady())
	if handed := r.steps.GetHanded(); handed > m.steps[r.steps.GetEpoch()] {
		m.problems = append(m.problems, fmt.Sprintf("%d batches of an epoch of %d steps",
			handed, m.steps[r.steps.GetEpoch()]))
	}
}

func (m *Master) count(epoch uint32, steps uint64) {
	if epoch == m.Closed {
		m.steps[epoch] = max(m.steps[epoch], steps)
	}
}

// Change runs f with the master stopped, and makes every rank's grants new.
func (m *Master) Change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	for _, r := range m.Ranks {
		r.revision++
	}
}

// Look runs f with the master stopped.
func (m *Master) Look(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// Fence refuses from now on what a rank's process reports, and returns the nonce that its calls bear. It is called in
// Look.
func (r *Member) Fence() (nonce string) {
	nonce, r.nonce = r.nonce, ""
	return nonce
}

// Problems are the reports of ranks that cannot be.
func (m *Master) Problems() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.problems)
}
