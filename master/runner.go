package master

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

const (
	// groupCommit is how many calls share one etcd transaction at most; each writes up to two keys.
	groupCommit = 60
	// leaseCheck is how often leases are looked at.
	leaseCheck = time.Second
	// commitTimeout bounds one transaction.
	commitTimeout = 5 * time.Second
)

// runner is one session under this leader: the goroutine of run alone touches its state. Calls wait until what they
// changed lies in etcd.
type runner struct {
	term   *term
	id     string
	logger *slog.Logger
	meta   *pb.SessionMeta

	calls   chan call
	planned chan plannedBlock
	deleted chan struct{} // closed by delete
	world   atomic.Uint32 // the state's world size

	stored   *store.Session
	state    *session.State
	planner  *blockPlanner
	tickets  *ticketOffice
	lastSeen map[uint32]seen
	planning bool
	deleting sync.Once
}

// seen is when a rank's incarnation was last acknowledged, by this master's clock.
type seen struct {
	incarnation uint64
	at          time.Time
}

// call is one command, or a look at the state, and where its answer goes.
type call struct {
	command session.Command
	// refresh asks for tickets though the grants are the same, because the fleet is not.
	refresh bool
	inspect func(*session.State)
	reply   chan<- answer
}

// answer is what a call gets, built after its commit.
type answer struct {
	session.Reply
	grants []*pb.Grant
	err    error
}

func newRunner(t *term, id string) (*runner, error) {
	r := &runner{
		term: t, id: id, logger: t.master.cfg.Logger.With("session", id),
		calls: make(chan call, groupCommit), planned: make(chan plannedBlock, 1), deleted: make(chan struct{}),
		lastSeen: map[uint32]seen{},
	}
	if err := r.load(); err != nil {
		return nil, err
	}
	var err error
	r.planner, err = newBlockPlanner(t.master, r.stored)
	return r, err
}

// load takes state and listing from etcd.
func (r *runner) load() error {
	stored, err := r.term.master.cfg.Store.Load(r.term.ctx, r.term.leadership, r.id)
	if err != nil {
		return fmt.Errorf("master: %w", err)
	}
	state, err := stateOf(stored)
	if err != nil {
		return fmt.Errorf("master: %w", err)
	}
	r.stored, r.state, r.meta = stored, state, stored.Meta
	r.world.Store(state.World())
	r.tickets = newTicketOffice(r.term.master, stored)
	return nil
}

// stateOf is the state that lies in etcd, or that of a session in which nothing has happened yet.
func stateOf(stored *store.Session) (*session.State, error) {
	if stored.Head.GetGeneration() == 0 {
		return session.New(identity(stored.Meta))
	}
	return session.Load(identity(stored.Meta), stored.Head, stored.Ranks)
}

func identity(m *pb.SessionMeta) session.Identity {
	s := m.GetSession()
	return session.Identity{
		Session: s.GetId(), Epochs: max(1, s.GetSpec().GetEpochs()), FirstWorldSize: s.GetWorldSize(),
		ProgramDigest: string(s.GetProgramDigest()), DatasetDigest: string(s.GetDatasetDigest()),
	}
}

// do passes a command to the session's goroutine and waits for the answer.
func (r *runner) do(ctx context.Context, c call) (answer, error) {
	reply := make(chan answer, 1)
	c.reply = reply
	select {
	case r.calls <- c:
	case <-ctx.Done():
		return answer{}, ctx.Err()
	case <-r.term.ctx.Done():
		return answer{}, store.ErrNotLeader
	case <-r.deleted:
		return answer{}, errDeleted
	}
	select {
	case a := <-reply:
		return a, a.err
	case <-ctx.Done():
		return answer{}, ctx.Err()
	case <-r.term.ctx.Done():
		return answer{}, store.ErrNotLeader
	}
}

var errDeleted = status.Error(codes.NotFound, "the session was deleted")

// describe is what the session's state looks like from outside.
func (r *runner) describe(ctx context.Context) (*pb.Session, error) {
	out := proto.CloneOf(r.meta.GetSession())
	_, err := r.do(ctx, call{inspect: func(s *session.State) {
		out.Generation, out.WorldSize, out.Failure, out.Progress = s.Generation(), s.World(), s.Failure(), s.Progress()
		switch {
		case s.Failure() != "":
			out.State = pb.SessionState_FAILED
		case s.Finished():
			out.State = pb.SessionState_FINISHED
		default:
			out.State = pb.SessionState_RUNNING
		}
	}})
	return out, err
}

// delete removes the session from etcd and ends its goroutine.
func (r *runner) delete(ctx context.Context) error {
	if err := r.term.master.cfg.Store.Delete(ctx, r.term.leadership, r.id); err != nil {
		return err
	}
	r.term.forget(r.id)
	r.deleting.Do(func() { close(r.deleted) })
	return nil
}

// run is the session's goroutine.
func (r *runner) run() error {
	ticker := time.NewTicker(leaseCheck)
	defer ticker.Stop()
	for {
		r.plan()
		var err error
		select {
		case c := <-r.calls:
			err = r.serve(r.gather(c))
		case p := <-r.planned:
			err = r.takePlan(p)
		case now := <-ticker.C:
			err = r.expire(now)
		case <-r.deleted:
			return nil
		case <-r.term.ctx.Done():
			return nil
		}
		if errors.Is(err, store.ErrNotLeader) {
			return err
		}
		if err != nil {
			r.logger.Warn("a change of the session's state failed; its trainers try again", "error", err)
			if err := r.reload(); err != nil {
				return err
			}
		}
	}
}

// reload takes the state anew after a write whose outcome is not known, or known to be bad, until etcd answers.
func (r *runner) reload() error {
	for {
		err := r.load()
		if err == nil || errors.Is(err, store.ErrNotLeader) || errors.Is(err, store.ErrNotFound) {
			return err
		}
		r.logger.Warn("cannot load the session; trying on", "error", err)
		select {
		case <-time.After(retryEvery):
		case <-r.term.ctx.Done():
			return nil
		}
	}
}

// gather takes the calls that wait, so that they share one transaction.
func (r *runner) gather(first call) []call {
	calls := []call{first}
	for len(calls) < groupCommit {
		select {
		case c := <-r.calls:
			calls = append(calls, c)
		default:
			return calls
		}
	}
	return calls
}

// serve applies calls, commits what they changed and only then answers.
func (r *runner) serve(calls []call) error {
	answers := make([]answer, len(calls))
	var changes session.Changes
	for i, c := range calls {
		if c.inspect != nil {
			c.inspect(r.state)
			continue
		}
		reply, changed, err := r.state.Apply(c.command)
		if sync, ok := c.command.(session.Sync); ok && c.refresh && reply.Unchanged {
			reply.Unchanged, reply.Grants = false, r.state.Held(sync.Rank)
		}
		answers[i] = answer{Reply: reply, err: err}
		changes = changes.Merge(changed)
	}
	r.world.Store(r.state.World())
	err := r.commit(store.Writes{}, changes)
	for i, c := range calls {
		a := &answers[i]
		switch {
		case err != nil:
			a.err = err
		case a.err == nil:
			r.acknowledge(c.command, a)
			a.grants, a.err = r.tickets.grants(a.Generation, a.Reply.Grants)
		}
		c.reply <- *a
	}
	return err
}

// commit writes the changed keys, and drops the blocks of which nothing is in flight any more. It asks etcd even when nothing changed: a deposed leader must not acknowledge.
func (r *runner) commit(w store.Writes, changes session.Changes) error {
	if changes.Head {
		w.Head = r.state.Head()
	}
	for _, rank := range changes.Ranks {
		if w.Ranks == nil {
			w.Ranks = map[uint32]*pb.SessionRank{}
		}
		w.Ranks[rank] = r.state.Rank(rank)
	}
	if changes.Head {
		w.Drop = r.tickets.idle(r.state)
	}
	ctx, cancel := context.WithTimeout(r.term.ctx, commitTimeout)
	defer cancel()
	if err := r.term.master.cfg.Store.Commit(ctx, r.term.leadership, r.stored, w); err != nil {
		return err
	}
	r.tickets.update(w)
	return nil
}

// acknowledge starts the caller's lease anew.
func (r *runner) acknowledge(c session.Command, a *answer) {
	switch c := c.(type) {
	case session.Sync:
		if c.Leave {
			delete(r.lastSeen, c.Rank)
			return
		}
		r.lastSeen[c.Rank] = seen{c.Incarnation, time.Now()}
	case session.Join:
		if a.Kind != pb.JoinKind_JOIN_KIND_UNSPECIFIED {
			r.lastSeen[c.Rank] = seen{a.Incarnation, time.Now()}
		}
	}
}

// expire takes back what ranks hold whose lease ended a good while ago by this clock. Ranks that this master has
// never heard of start their lease now.
func (r *runner) expire(now time.Time) error {
	var changes session.Changes
	for _, p := range r.state.Present() {
		last, ok := r.lastSeen[p.Rank]
		if !ok || last.incarnation != p.Incarnation {
			r.lastSeen[p.Rank] = seen{p.Incarnation, now}
			continue
		}
		if now.Sub(last.at) < r.term.master.cfg.Lease*5/4 {
			continue
		}
		r.logger.Warn("a trainer's lease ended; others get its shards", "rank", p.Rank, "incarnation", p.Incarnation)
		_, changed, err := r.state.Apply(session.Expire{Rank: p.Rank, Incarnation: p.Incarnation})
		if err != nil {
			return err
		}
		changes = changes.Merge(changed)
	}
	if changes.Empty() {
		return nil
	}
	return r.commit(store.Writes{}, changes)
}
