package master

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/master/access"
	"github.com/penstock-ml/penstock/master/events"
	"github.com/penstock-ml/penstock/master/store"
)

const (
	// loadsAtOnce is how many sessions a new leader reads in parallel.
	loadsAtOnce = 16
	// openingsAtOnce bounds the sessions that are being opened, and openingsOfOne those of a namespace.
	openingsAtOnce, openingsOfOne = 64, 16
	// readingPatience bounds how long a term waits for its reads once it is over.
	readingPatience = 2 * time.Second
)

// term is a time of leadership and the sessions run in it.
type term struct {
	master     *Master
	leadership *store.Leadership
	ctx        context.Context // ends with the term
	group      *errgroup.Group // what ends before the leadership is resigned
	reading    sync.WaitGroup  // what reads datasets, for as long as storage takes, and opens sessions by what it read
	events     *events.Log
	notes      *notes
	scaler     *scaler // nil: nobody scales

	mu       sync.Mutex
	over     bool
	sessions map[store.Name]*runner
	openings map[store.Name]*opening
	turns    *access.Turns        // to open
	damaged  map[store.Name]error // sessions that cannot be taken up, and why
}

// opening is a session on its way to be opened. It belongs to the term, not to the call that began it: a listing
// that takes longer than a caller's patience is there when it asks again.
type opening struct {
	spec       *pb.Spec
	minWorkers uint32
	done       chan struct{}
	err        error // once done is closed
}

// wanted is a session to find or to open, and for whom.
type wanted struct {
	*pb.OpenRequest
	name   store.Name
	who    identity.Identity
	limits access.Limits
	// byDefault says of a spec that was settled that the number of ranks decided on its ending.
	byDefault bool
}

func newTerm(ctx context.Context, m *Master, leadership *store.Leadership, group *errgroup.Group) *term {
	t := &term{
		master: m, leadership: leadership, ctx: ctx, group: group,
		events:   events.New(eventKeeper{m.cfg.Store, leadership}, m.cfg.Logger),
		notes:    newNotes(m.cfg.Store, leadership, m.cfg.Logger),
		sessions: map[store.Name]*runner{}, openings: map[store.Name]*opening{}, turns: access.NewTurns(openingsAtOnce,
			openingsOfOne), damaged: map[store.Name]error{},
	}
	if m.cfg.Scaling.Actuator != nil {
		t.scaler = newScaler(t, m.cfg.Scaling)
	}
	return t
}

// load takes up all sessions that are neither closed nor asleep.
func (t *term) load() error {
	names, err := t.master.cfg.Store.TakeOver(t.ctx, t.leadership)
	if err != nil {
		return fmt.Errorf("master: %w", err)
	}
	var group errgroup.Group
	group.SetLimit(loadsAtOnce)
	for _, name := range names {
		group.Go(func() error { return t.takeUp(name) })
	}
	return group.Wait()
}

// takeUp runs a session that lies in etcd. The damage of one session does not stop the others; what etcd refuses, as it
// does while it has too much to do, is no damage.
func (t *term) takeUp(name store.Name) error {
	r, err := newRunner(t, name)
	_, damaged := errors.AsType[damage](err)
	switch {
	case err == nil:
		return t.add(r)
	case errors.Is(err, store.ErrNotFound):
		return nil
	case !damaged && !errors.Is(err, store.ErrCorrupt):
		return err
	}
	t.master.cfg.Logger.Error("a session cannot be taken up; delete it, or run the release that opened it",
		"session", name, "error", err)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.damaged[name] = err
	return nil
}

// add starts a session's goroutine.
func (t *term) add(r *runner) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return store.ErrNotLeader
	}
	t.sessions[r.name] = r
	t.group.Go(r.run)
	return nil
}

// close keeps goroutines from being started while the term's are waited for.
func (t *term) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

// awaitReading waits until nothing reads datasets any more, but not for long: reads of a file system that hangs end
// when it likes, and must keep nobody from leading. What is left behind can write nothing, for its context has ended,
// and with it the leadership.
func (t *term) awaitReading() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.reading.Wait()
	}()
	patience := time.NewTimer(readingPatience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
		t.master.cfg.Logger.Warn("storage does not answer; reads of the leadership that has ended are left behind")
	}
}

// find returns a session.
func (t *term) find(name store.Name) (*runner, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lookUp(name)
}

// lookUp is find for those who hold mu.
func (t *term) lookUp(name store.Name) (*runner, error) {
	if err, ok := t.damaged[name]; ok {
		return nil, status.Errorf(codes.FailedPrecondition,
			"session %q cannot be taken up; delete it, or run the release that opened it: %v", name, err)
	}
	if r, ok := t.sessions[name]; ok {
		return r, nil
	}
	return nil, errNoSession(name)
}

func errNoSession(name store.Name) error {
	namespace, id := name.Split()
	return status.Errorf(codes.NotFound,
		"session %q does not exist in namespace %s; `penstock session list` shows those that do", id, namespace)
}

func (t *term) forget(r *runner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions[r.name] == r {
		delete(t.sessions, r.name)
	}
}

func (t *term) all() []*runner {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*runner, 0, len(t.sessions))
	for _, r := range t.sessions {
		out = append(out, r)
	}
	return out
}

// open finds a session, or opens it, and returns what it looks like. Calls for the same one share the work.
func (t *term) open(ctx context.Context, req *wanted) (*pb.Session, error) {
	if err := checkOpen(req.OpenRequest); err != nil {
		return nil, err
	}
	if err := mayRead(req.limits, req.GetSpec()); err != nil {
		return nil, err
	}
	if err := t.master.mayRun(req.who.Home(), req.GetSpec()); err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		if _, err := t.find(req.name); status.Code(err) == codes.NotFound {
			switch c, err := t.closed(ctx, req.name); {
			case err == nil:
				return c.view(), sameSpec(c.GetMeta().GetSession(), req.OpenRequest)
			case status.Code(err) != codes.NotFound:
				return nil, err
			}
			if err := t.awaitsCode(ctx, req); err != nil {
				return nil, err
			}
		}
		r, o, err := t.findOrOpen(req) //nolint:contextcheck // the work outlives the call
		if err != nil {
			return nil, err
		}
		if r == nil {
			if err = t.await(ctx, o); err == nil &&
				(req.GetSpec() == nil || same(o.spec, likeIn(o.spec, req.OpenRequest))) {
				err = o.err
			}
		} else if err = sameSpec(r.meta.GetSession(), req.OpenRequest); err == nil {
			var view *pb.Session
			if view, err = r.attach(ctx, req.GetCode()); err == nil {
				return view, nil
			}
		}
		if err != nil && !errors.Is(err, errClosed) {
			return nil, err
		}
	}
	return nil, ctx.Err()
}

// findOrOpen returns a session, or the opening that leads to it.
func (t *term) findOrOpen(req *wanted) (*runner, *opening, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o, ok := t.openings[req.name]; ok {
		return nil, o, nil
	}
	r, err := t.lookUp(req.name)
	if status.Code(err) != codes.NotFound || req.GetSpec() == nil {
		return r, nil, err
	}
	settled, err := req.settled()
	if err != nil {
		return nil, nil, err
	}
	o, err := t.start(req, settled.GetSpec(), func() error { return t.create(settled) })
	return nil, o, err
}

// start begins to open a session, if the namespace may have one more. t.mu must be held.
func (t *term) start(req *wanted, spec *pb.Spec, open func() error) (*opening, error) {
	if t.over {
		return nil, store.ErrNotLeader
	}
	if err := req.limits.Admit(t.usage(req.who.Home()), int(req.GetShare().GetMinWorkers()),
		cmp.Or(req.GetShare().GetWeight(), 1)); err != nil {
		return nil, err
	}
	end, ok := t.turns.Take(req.who)
	if !ok {
		return nil, status.Errorf(codes.ResourceExhausted,
			"too many sessions are being opened: %d at once, and %d of one namespace; try again",
			openingsAtOnce, openingsOfOne)
	}
	o := &opening{spec: spec, minWorkers: req.GetShare().GetMinWorkers(), done: make(chan struct{})}
	t.openings[req.name] = o
	t.reading.Go(func() {
		defer close(o.done)
		defer end()
		o.err = open()
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.openings, req.name)
	})
	return o, nil
}

func (t *term) await(ctx context.Context, o *opening) error {
	select {
	case <-o.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.ctx.Done():
		return store.ErrNotLeader
	}
}

// usage is what a namespace's sessions take. t.mu must be held.
func (t *term) usage(namespace string) access.Usage {
	var used access.Usage
	count := func(name store.Name, minWorkers uint32) {
		if of, _ := name.Split(); of == namespace {
			used.Sessions++
			used.MinWorkers += int(minWorkers)
		}
	}
	for name, r := range t.sessions {
		kept := r.meta.GetSession().GetShare().GetMinWorkers()
		if r.over.Load() { // nothing is kept for it
			kept = 0
		}
		count(name, kept)
	}
	for name, o := range t.openings {
		if t.sessions[name] == nil {
			count(name, o.minWorkers)
		}
	}
	for name := range t.damaged {
		count(name, 0)
	}
	return used
}

// delete removes a session, if that is the caller's to do.
func (t *term) delete(ctx context.Context, who identity.Identity, name store.Name) error {
	for {
		t.mu.Lock()
		o, opening := t.openings[name]
		_, damaged := t.damaged[name]
		r, err := t.lookUp(name)
		t.mu.Unlock()
		switch {
		case opening:
			if err := t.await(ctx, o); err != nil {
				return err
			}
		case damaged:
			if !who.Has(identity.Admin) { // whose it is cannot be read
				return status.Errorf(codes.PermissionDenied,
					"session %q is damaged, and is for an administrator of namespace %s to delete", name, who.Home())
			}
			return t.deleteDamaged(ctx, name)
		case status.Code(err) == codes.NotFound:
			return t.deleteClosed(ctx, who, name)
		case err != nil:
			return err
		default:
			if err := access.MayDelete(who, r.meta.GetSession().GetOwner(), "delete it"); err != nil {
				return err
			}
			if _, err := r.do(ctx, call{remove: true}); !errors.Is(err, errClosed) {
				return err
			}
		}
	}
}

func (t *term) deleteDamaged(ctx context.Context, name store.Name) error {
	err := t.master.cfg.Store.Delete(ctx, t.leadership, name)
	if err == nil || errors.Is(err, store.ErrNotFound) {
		t.mu.Lock()
		delete(t.damaged, name)
		t.mu.Unlock()
		namespace, id := name.Split()
		t.events.Add(&pb.Event{
			Kind: pb.EventKind_SESSION, Session: id, Namespace: namespace,
			Words: "deleted; it could not be taken up",
		})
	}
	return err
}

// compact keeps etcd small, unless others do.
func (t *term) compact() error {
	if t.master.cfg.KeepHistory {
		return nil
	}
	return t.every(compactEvery, "cannot compact etcd's history; trying again later", func() error {
		return t.master.cfg.Store.Compact(t.ctx, t.leadership)
	})
}

// every does what keeps etcd small, again and again, and logs if that fails.
func (t *term) every(d time.Duration, failed string, do func() error) error {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-t.ctx.Done():
			return nil
		}
		err := do()
		if errors.Is(err, store.ErrNotLeader) {
			return err
		}
		if err != nil && t.ctx.Err() == nil {
			t.master.cfg.Logger.Warn(failed, "error", err)
		}
	}
}
