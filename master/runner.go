package master

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/access"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

const (
	// groupCommit is how many calls share one etcd transaction at most; each writes up to two keys.
	groupCommit = 60
	// leaseCheck is how often leases are looked at, at least.
	leaseCheck = time.Second
	// commitTimeout bounds one transaction.
	commitTimeout = 5 * time.Second
	// callTimeout bounds how long a call waits for its session, if the caller is more patient.
	callTimeout = 30 * time.Second
)

// runner is one session under this leader: the goroutine of run alone touches its state. Calls wait until what they
// changed lies in etcd.
type runner struct {
	term   *term
	name   store.Name
	id     string // in its namespace
	logger *slog.Logger
	meta   *pb.SessionMeta // never changes, though the code that it names may

	calls   chan call
	planned chan plannedBlock
	stopped chan struct{}   // closed when run has returned
	ctx     context.Context // ends when run returns
	cancel  context.CancelFunc
	end     error // what callers are told once stopped is closed
	// putAwayAs says as what the session is being put away, closed or asleep; "": it is not.
	putAwayAs string
	world     atomic.Uint32 // the state's world size
	over      atomic.Bool   // the session has finished or failed
	failed    atomic.Bool
	// unplanned is why the next block cannot be planned for now; nil if it can.
	unplanned atomic.Pointer[string]
	// that each trainer should keep open, by the session's part of the workers; 0: not known yet
	streams atomic.Uint32
	// code are the bytes of the session's functions; nil: it has none. kept says that they are there.
	code     atomic.Pointer[pb.StoredCode]
	codeKept atomic.Bool
	// refusals of workers that events have told of; the goroutine that observes has it.
	refusals map[string]bool
	// standing is the newest one.
	standing atomic.Pointer[standing]

	stored    *store.Session
	state     *session.State
	planner   *blockPlanner
	tickets   *ticketOffice
	given     map[store.BlockID]*givenBlock // that this master planned
	lastSeen  map[uint32]seen
	asked     time.Time // when a trainer last joined, took rows or waited for some, by this master's clock
	silence   silence
	together  int // calls to share the next transaction
	planning  bool
	planFails int      // failures to plan in a row
	otherCode []string // of the states that the session was just restored to, to be told once that is written
	told      told
}

// seen is when a start of a rank was last acknowledged, by this master's clock.
type seen struct {
	generation, incarnation uint64
	at                      time.Time
	counters                session.Counters
}

// call is a command, a look at the session or its end, and where its answer goes.
type call struct {
	command session.Command
	limits  access.Limits // of who joins or restores
	// refresh asks for tickets though the grants are the same, because the fleet is not.
	refresh bool
	zone    string              // of the trainer
	refused []*pb.RefusedStream // as it reports them with a Sync
	view    bool                // asks for the session as it is after the command
	remove  bool                // deletes the session
	code    *codeChange         // of the bytes of its functions
	reply   chan<- answer
}

// answer is what a call gets, after its commit.
type answer struct {
	session.Reply
	grants []*pb.Grant
	view   *pb.Session
	err    error
}

var (
	errCrowded  = status.Error(codes.Unavailable, "too many changes for one transaction; try again")
	errPanicked = status.Error(codes.Internal,
		"the master panicked, which is a bug of it; please report it with what its log says")
	errBesides = status.Error(codes.Unavailable, "the session is loaded again, since another call failed; try again")
)

func newRunner(t *term, name store.Name) (*runner, error) {
	namespace, id := name.Split()
	logger := t.master.cfg.Logger.With("session", id)
	if namespace != identity.DefaultNamespace {
		logger = logger.With("namespace", namespace)
	}
	r := &runner{
		term: t, name: name, id: id, logger: logger,
		calls: make(chan call, groupCommit), planned: make(chan plannedBlock, 1), stopped: make(chan struct{}),
		lastSeen: make(map[uint32]seen), given: make(map[store.BlockID]*givenBlock), asked: time.Now(),
		together: groupCommit,
	}
	r.ctx, r.cancel = context.WithCancel(t.ctx)
	if err := r.load(); err != nil {
		r.cancel()
		return nil, err
	}
	r.told = r.toEmit()
	return r, nil
}

// damage is why this release cannot run what lies in etcd, however often it is read.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

// load takes the state from etcd.
func (r *runner) load() error {
	stored, err := r.term.master.cfg.Store.Load(r.term.ctx, r.term.leadership, r.name)
	if err != nil {
		return fmt.Errorf("master: %w", err)
	}
	state, err := stateOf(stored)
	if err != nil {
		return damage{fmt.Errorf("master: %w", err)}
	}
	if r.planner == nil {
		r.meta = stored.Meta
		if r.planner, err = newBlockPlanner(r.term.master, stored, r.logger); err != nil {
			return damage{err}
		}
		r.planner.code = r.code.Load
		r.planner.sayWhatCountingCosts()
	}
	r.stored, r.state = stored, state
	r.code.Store(stored.Meta.GetSession().GetCode())
	r.silence.load(time.Now(), stored, r.term.master.cfg.SessionTTL)
	r.publish()
	r.tickets = newTicketOffice(r.term.master, stored, r.planner.program)
	r.planner.remember(stored.Blocks)
	stored.Blocks = nil // tickets have them
	return nil
}

// publish tells of the state what other goroutines may know.
func (r *runner) publish() {
	r.world.Store(r.state.World())
	r.stand(time.Now())
	r.failed.Store(r.state.Failure() != "")
	over := r.state.Over()
	if r.over.Store(over); over {
		r.planner.rest()
	}
}

// stateOf is the state that lies in etcd, or that of a session in which nothing has happened yet.
func stateOf(stored *store.Session) (*session.State, error) {
	if stored.Head.GetGeneration() == 0 {
		return session.New(identityOf(stored.Meta))
	}
	return session.Load(identityOf(stored.Meta), stored.Head, stored.Ranks, stored.Blocks, stored.Checkpoints)
}

// namespace is the session's.
func (r *runner) namespace() string {
	namespace, _ := r.name.Split()
	return namespace
}

// do passes a call to the session's goroutine and waits for the answer.
func (r *runner) do(ctx context.Context, c call) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply := make(chan answer, 1)
	c.reply = reply
	select {
	case r.calls <- c:
	case <-ctx.Done():
		return answer{}, ctx.Err()
	case <-r.stopped:
		return answer{}, r.end
	}
	select {
	case a := <-reply:
		return a, a.err
	case <-ctx.Done():
		return answer{}, ctx.Err()
	case <-r.stopped:
	}
	select {
	case a := <-reply: // its last
		return a, a.err
	default:
		return answer{}, r.end
	}
}

// run is the session's goroutine.
func (r *runner) run() error {
	defer close(r.stopped)
	defer r.cancel()
	err := r.serve()
	r.endReads(func(store.BlockID) bool { return true })
	if !errors.Is(err, store.ErrNotFound) {
		r.end = store.ErrNotLeader
		return err
	}
	r.term.forget(r)
	if r.putAwayAs != "" {
		r.end = errClosed
		r.logger.Info(r.putAwayAs)
		return nil
	}
	r.end = errNoSession(r.name)
	r.logger.Info("session deleted")
	r.emit(pb.EventKind_SESSION, "deleted")
	return nil
}

// serve runs until the term ends, with store.ErrNotLeader if it should, or with store.ErrNotFound once the session
// is deleted.
func (r *runner) serve() error {
	ticker := time.NewTicker(min(leaseCheck, r.term.master.cfg.Lease/4))
	defer ticker.Stop()
	for {
		r.plan()
		var work func() error
		select {
		case c := <-r.calls:
			work = func() error { return r.answer(r.gather(c)) }
		case p := <-r.planned:
			work = func() error { return r.takePlan(p) }
		case <-ticker.C:
			work = func() error { return r.lapse(time.Now()) }
		case <-r.term.ctx.Done():
			return nil
		}
		began := time.Now()
		err := work()
		if err == nil {
			continue
		}
		if r.term.ctx.Err() != nil {
			return nil
		}
		if !fatal(err) {
			r.logger.Warn("a change of the session's state failed; its trainers try again", "error", err)
			err = r.reload()
			r.extend(time.Since(began))
		}
		if err != nil {
			return err
		}
	}
}

// fatal tells the errors after which the goroutine ends.
func fatal(err error) bool {
	return errors.Is(err, store.ErrNotLeader) || errors.Is(err, store.ErrNotFound)
}

// reload takes the state anew after a write whose outcome is not known, or known to be bad, until etcd answers. A
// single answer that was lost costs the trainers next to nothing.
func (r *runner) reload() error {
	for try := 0; r.term.ctx.Err() == nil; try++ {
		err := r.load()
		if err == nil {
			r.emitChanges()
		}
		if err == nil || fatal(err) {
			return err
		}
		r.logger.Warn("cannot load the session; trying on", "error", err)
		if err := r.refuse(err, min(retryEvery, 20*time.Millisecond<<min(try, 6))); err != nil {
			return err
		}
	}
	return nil
}

// refuse tells callers for a while why the session does not answer. It can be deleted still.
func (r *runner) refuse(why error, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case c := <-r.calls:
			if c.remove {
				if err := r.remove(c); fatal(err) {
					return err
				}
				continue
			}
			c.reply <- answer{err: status.Error(codes.Unavailable, why.Error())}
		case <-timer.C:
			return nil
		case <-r.term.ctx.Done():
			return nil
		}
	}
}
