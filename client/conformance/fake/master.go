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
	order    *pb.CheckpointOrder  // nil: none yet
	parted   map[uint32]*pb.State // what ranks brought for it
	problems []string
	skipped  []*pb.SkippedRows
	badData  bool // of the failure
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
	}
}

// Join makes the caller a rank. A collective restore waits for all ranks of the request's world size.
func (m *Master) Join(_ context.Context, req *pb.JoinRequest) (*pb.JoinReply, error) {
	return answer(m, req, m.join)
}

func (m *Master) join(req *pb.JoinRequest) (*pb.JoinReply, error) {
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
	if m.inLanes() {
		r.steps = steps
		r.revision++
	}
	reply := &pb.JoinReply{
		Starts: m.joinStarts(steps), Steps: steps, Kind: kind, Generation: 1, Incarnation: r.Incarnation,
		LeaseMs: m.LeaseMs, ClosedEpochs: m.Closed,
		Consumed: r.Consumed.Proto(), BaseVersion: m.version, Earlier: &pb.Counters{Rows: r.earlier},
	}
	reply.Base, reply.Members, reply.Departed, reply.DepartedRows = m.told()
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

// restore begins anew behind the states that the ranks brought, once.
func (m *Master) restore() {
	if m.restored {
		return
	}
	m.restored = true
	m.version++
	if m.inLanes() {
		m.restoreLanes(slices.Concat(slices.Collect(maps.Values(m.parts))...))
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
	m.consume(r, position.SetFromProto(req.GetConsumed()))
	m.leavePasses(req, r)
	m.takePart(req)
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
			m.planLanes()
		}
		return m.reply(req, r), nil
	}
	if req.GetWantsMore() && !req.GetLeave() && m.grant(r) {
		r.revision++
	}
	m.recall()
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

func (m *Master) consume(r *Member, consumed position.Set) {
	news := consumed.Subtract(r.Consumed).Subtract(position.Set{{To: position.Position{Epoch: m.Closed}}})
	if foreign := news.Subtract(r.Held); len(foreign) > 0 {
		m.problems = append(m.problems, "consumed but not held: "+foreign[0].String())
	}
	r.Consumed, r.Held = r.Consumed.Union(news), r.Held.Subtract(news)
}

func (m *Master) close() {
	pads := m.Spec.GetLastBatch() == pb.LastBatch_PAD
	// where all make equally many steps, each must have joined
	if (pads || m.counted()) && len(m.Ranks) < int(m.World) {
		return
	}
	if m.counted() {
		m.closeCounted()
		return
	}
	for m.Closed < m.Data.Epochs {
		if m.leftByAll() {
			m.pass()
		}
		open := position.Set{{To: position.Position{Epoch: m.Closed + 1}}}
		if m.Next < int(m.Closed+1)*len(m.Data.Shards) || len(m.Returned.Intersect(open)) > 0 {
			return
		}
		for _, r := range m.Ranks {
			if len(r.Held.Intersect(open)) > 0 {
				return
			}
		}
		m.Closed++
		m.version++
	}
}

// grant gives returned positions first, then a run of shards not further than one epoch ahead.
func (m *Master) grant(r *Member) bool {
	if m.Frozen {
		return false
	}
	if from := max(m.Closed, r.from); len(m.Returned.Subtract(before(from))) > 0 {
		got := m.capped(r, m.returnedRun(from))
		r.Held, m.Returned = r.Held.Union(got), m.Returned.Subtract(got)
		return len(got) > 0
	}
	n := 0
	for ; n < m.Run; n++ {
		epoch, i := m.Next/len(m.Data.Shards), m.Next%len(m.Data.Shards)
		if epoch >= int(m.Data.Epochs) || epoch > int(m.Closed)+1 || epoch < int(r.from) {
			break
		}
		iv := position.Interval{From: m.Data.Start(uint32(epoch), i), To: m.Data.Start(uint32(epoch), i+1)}
		r.Held = r.Held.Union(position.Set{iv})
		m.Next++
	}
	return n > 0
}

// returnedRun is what was returned of up to Run shards, from an epoch on.
func (m *Master) returnedRun(from uint32) (got position.Set) {
	n := 0
	for epoch := from; epoch < min(m.Closed+2, m.Data.Epochs); epoch++ {
		for i := 0; i < len(m.Data.Shards) && n < m.Run; i++ {
			shard := position.Set{{From: m.Data.Start(epoch, i), To: m.Data.Start(epoch, i+1)}}
			if part := m.Returned.Intersect(shard); len(part) > 0 {
				got = got.Union(part)
				n++
			}
		}
	}
	return got
}

func (m *Master) reply(req *pb.SyncRequest, r *Member) *pb.SyncReply {
	end := position.Set{{To: position.Position{Epoch: m.Closed + 1}}}
	reply := &pb.SyncReply{
		Revision: r.revision, Unchanged: r.revision == req.GetRevision(), Streams: m.Streams, ClosedEpochs: m.Closed,
		Finished: m.Closed == m.Data.Epochs, BaseVersion: m.version, Release: m.Release.Intersect(r.Held).Proto(),
		Drained: m.Next >= int(m.Closed+1)*len(m.Data.Shards) && len(m.Returned.Intersect(end)) == 0,
	}
	reply.Steps, reply.Checkpoint = m.tell(req.GetSteps()), m.orderFor(req.GetRank())
	if req.GetBaseVersion() != m.version {
		reply.Base, reply.Members, reply.Departed, reply.DepartedRows = m.told()
		reply.Skipped, reply.SkippedRowGroups = m.skipped, uint32(len(m.skipped))
	}
	if reply.Unchanged {
		return reply
	}
	if m.inLanes() {
		reply.Grants, reply.Starts = m.laneGrants(req.GetRank(), r), m.laneStarts(r.steps)
		return reply
	}
	for epoch := range m.Data.Epochs {
		for i := range m.Data.Shards {
			shard := position.Set{{From: m.Data.Start(epoch, i), To: m.Data.Start(epoch, i+1)}}
			for _, iv := range r.Held.Intersect(shard) {
				reply.Grants = append(reply.Grants, &pb.Grant{Interval: iv.Proto(), Ticket: m.ticket(shard[0].From)})
			}
		}
	}
	return reply
}

// told is what goes into states of those who are not there any more, and of who is.
func (m *Master) told() (base []*pb.Interval, members, departed []uint32, rows []int64) {
	consumed := m.base
	for _, rank := range slices.Sorted(maps.Keys(m.Ranks)) {
		members = append(members, rank)
		if r := m.Ranks[rank]; r.Left {
			consumed = consumed.Union(r.Consumed)
			departed, rows = append(departed, rank), append(rows, r.earlier+r.Counters.GetRows())
		}
	}
	start := position.Position{Epoch: m.Closed}
	if m.leftBehind() {
		start.Epoch--
	}
	return consumed.Subtract(position.Set{{To: start}}).Proto(), members, departed, rows
}

// leftBehind reports whether a training loop may be in the newest closed epoch, where states tell of that row by row.
func (m *Master) leftBehind() bool {
	if m.counted() {
		return false
	}
	for _, r := range m.Ranks {
		if !r.Left && r.steps.GetEpoch() < m.Closed {
			return true
		}
	}
	return false
}

// tell is what a rank is told of steps.
func (m *Master) tell(at *pb.RankSteps) (told []*pb.EpochSteps) {
	for epoch := at.GetEpoch(); at != nil && epoch < m.Data.Epochs && epoch <= m.Closed+1; epoch++ {
		e := &pb.EpochSteps{Epoch: epoch, Steps: m.steps[epoch]}
		if m.counted() {
			e.Steps, e.Final = m.countedSteps(epoch)
		}
		if m.drops() && e.Final {
			e.Dropped = m.dropped(epoch)
		}
		if e.Steps > 0 || e.Final {
			told = append(told, e)
		}
	}
	return told
}

func (m *Master) ticket(p position.Position) []byte {
	t, err := proto.Marshal(&pb.Ticket{
		Epoch: p.Epoch, Block: p.Block, Shard: p.Shard, File: &pb.File{Uri: "mem://part"}, Workers: m.Workers,
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

// Follower is a master that does not lead.
type Follower struct {
	pb.UnimplementedMasterServer
	Leader string // its address
}

// Follower serves a follower and returns what stops it.
func (n *Net) Follower(name, leader string) (stop func()) {
	f := &Follower{Leader: n.Address(leader)}
	return n.Serve(name, func(s *grpc.Server) { pb.RegisterMasterServer(s, f) })
}

func (f *Follower) refuse() error {
	st, err := status.New(codes.Unavailable, "not the leader").WithDetails(&pb.NotLeader{Leader: f.Leader})
	if err != nil {
		return err
	}
	return st.Err()
}

// Open refuses.
func (f *Follower) Open(context.Context, *pb.OpenRequest) (*pb.Session, error) {
	return nil, f.refuse()
}

// Join refuses.
func (f *Follower) Join(context.Context, *pb.JoinRequest) (*pb.JoinReply, error) {
	return nil, f.refuse()
}

// Sync refuses.
func (f *Follower) Sync(context.Context, *pb.SyncRequest) (*pb.SyncReply, error) {
	return nil, f.refuse()
}
