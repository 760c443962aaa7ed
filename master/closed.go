package master

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/tables"
	"github.com/penstock-ml/penstock/master/access"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

// A session that is over is closed once its trainers have left: it has no goroutine any more, no leader loads it, and
// etcd keeps a summary and its named checkpoints for Config.SessionTTL. Calls about it are answered from there; a
// restore opens it again. One without a limit, which is never over, is closed when all have left it between two epochs,
// and opened again for whoever joins. One that all have left within an epoch sleeps: a summary says what can be seen of
// it, no leader loads it, and whoever does more than look wakes it as it was.

// maxRanksKept is how many ranks a summary tells of.
const maxRanksKept = 16

// errClosed tells whoever called a session just when it was closed to look for it again.
var errClosed = status.Error(codes.Unavailable, "the session has just been closed; try again")

// closed is a session that is closed or sleeps, and the state from which calls are answered.
type closed struct {
	*store.Closed
	state *session.State
}

// past reports whether the session is to be closed.
func (r *runner) past(now time.Time) bool {
	silent, after := now.Sub(r.silence.here), r.term.master.cfg.CloseAfter
	if r.state.Between() && r.state.Left() {
		return silent > after
	}
	return r.state.Over() && closes(r.state.Failure() != "", r.state.Left(), silent, after)
}

// closes reports whether a session that is over is to be closed, by whether its trainers have left, and for how long
// none was heard of.
func closes(failed, left bool, silent, after time.Duration) bool {
	return left && !failed || silent > after
}

// deserted reports whether nobody has been in the session, whose state is given, for so long that it may sleep.
func (r *runner) deserted(state pb.SessionState, now time.Time) bool {
	return state == pb.SessionState_ABANDONED && now.Sub(r.silence.here) > r.term.master.cfg.CloseAfter
}

// close closes the session, and returns store.ErrNotFound once it is.
func (r *runner) close(now time.Time) error {
	return r.putAway(r.term.master.cfg.Store.CloseSession, now,
		"session closed; a summary and its checkpoints are kept")
}

// sleep puts the session to sleep, and returns store.ErrNotFound once it is.
func (r *runner) sleep(now time.Time) error {
	if heard := r.silence.heard; heard.Before(now) {
		now = heard
	}
	return r.putAway(r.term.master.cfg.Store.Sleep, now,
		"session sleeps, since nobody is in it; it is as it was for whoever comes back")
}

// putAway ends the goroutine once the session's summary is written.
func (r *runner) putAway(
	put func(context.Context, *store.Leadership, *store.Session, *pb.ClosedSession) error, at time.Time, words string,
) error {
	ctx, cancel := context.WithTimeout(r.term.ctx, commitTimeout)
	defer cancel()
	r.putAwayAs = words
	err := put(ctx, r.term.leadership, r.stored, &pb.ClosedSession{
		Meta: r.stored.Meta, Head: r.state.Remains(), Progress: keptProgress(r.state.Progress()),
		ClosedUnixMs: at.UnixMilli(),
	})
	if err == nil {
		return fmt.Errorf("%w: %s", store.ErrNotFound, words)
	}
	return err
}

// keptProgress is what a summary has of a session's progress: its ranks if they are few, else some of those whose rows
// may repeat.
func keptProgress(p *pb.Progress) *pb.Progress {
	p.StripDone, p.StripHeld = nil, nil
	if len(p.GetRanks()) > maxRanksKept {
		p.Ranks = slices.DeleteFunc(p.Ranks, func(r *pb.RankProgress) bool { return r.GetMayRepeat() == 0 })
		p.Ranks = p.Ranks[:min(maxRanksKept, len(p.Ranks))]
	}
	return p
}

// closed reads a session that is closed or sleeps.
func (t *term) closed(ctx context.Context, name store.Name) (*closed, error) {
	found, err := t.master.cfg.Store.Closed(ctx, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, errNoSession(name)
	case err != nil:
		return nil, fmt.Errorf("master: %w", err)
	}
	return closedOf(found, nil)
}

func closedOf(found *store.Closed, named []*pb.Checkpoint) (*closed, error) {
	s, err := session.Reopened(identityOf(found.GetMeta()), found.GetHead(), named)
	if err != nil {
		return nil, fmt.Errorf("%w: master: %w", store.ErrCorrupt, err)
	}
	return &closed{found, s}, nil
}

// withCheckpoints has the state know of the checkpoints.
func (c *closed) withCheckpoints(ctx context.Context, st *store.Store) (*closed, error) {
	named, err := st.Checkpoints(ctx, c.Name)
	if err != nil {
		return nil, fmt.Errorf("master: %w", err)
	}
	return closedOf(c.Closed, named)
}

// view is what the session looks like from outside.
func (c *closed) view() *pb.Session {
	out := viewOf(c.GetMeta(), c.state, c.GetProgress())
	out.Generation, out.StateSinceUnix = c.GetHead().GetGeneration(), c.GetClosedUnixMs()/1000
	out.State = facts{failed: c.state.Failure() != "", finished: c.state.Finished(), joined: true}.state(time.Time{})
	if !c.GetAsleep() {
		out.ClosedUnix = out.GetStateSinceUnix()
	}
	return out
}

// answer answers a Join or a Sync.
func (c *closed) answer(command session.Command) (a answer, err error) {
	switch command := command.(type) {
	case session.Sync:
		a.Reply, err = c.state.Late(command)
	default:
		a.Reply, _, err = c.state.Apply(command)
	}
	a.view = c.view()
	a.view.Generation = c.state.Generation() // that the trainer is to call with
	return a, err
}

// visit calls one of two functions with a session, which the caller names by its id: live, if it runs, or past, if it
// is closed. It wakes one that sleeps.
func (s *service) visit(
	ctx context.Context, id string, live func(*runner) error, past func(*term, *closed) error,
) error {
	return s.look(ctx, id, live, func(t *term, c *closed) error {
		if !c.GetAsleep() {
			return past(t, c)
		}
		return cmp.Or(t.reopen(ctx, s.master.cfg.Access.Limits(identity.From(ctx)), c), errClosed)
	})
}

// look is visit for who only looks: past is called with a session that sleeps, too.
func (s *service) look(
	ctx context.Context, id string, live func(*runner) error, past func(*term, *closed) error,
) error {
	t, err := s.leader(ctx)
	if err != nil {
		return err
	}
	name := store.NameOf(identity.From(ctx).Home(), id)
	for ctx.Err() == nil {
		r, err := t.find(name)
		if status.Code(err) == codes.NotFound {
			err = t.visitClosed(ctx, name, past)
		} else if err == nil {
			err = live(r)
		}
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, errClosed):
			return callError(err)
		}
	}
	return callError(ctx.Err())
}

// visitClosed calls a function with a closed session, or returns errClosed if it has just been opened again.
func (t *term) visitClosed(ctx context.Context, name store.Name, past func(*term, *closed) error) error {
	c, err := t.closed(ctx, name)
	if err == nil {
		err = past(t, c)
	} else if _, missing := t.find(name); missing == nil {
		return errClosed
	}
	if errors.Is(err, store.ErrConflict) {
		return errClosed
	}
	return err
}

// reopen makes a session that is closed or sleeps one that runs, for a caller who restores it, or goes on with it.
func (t *term) reopen(ctx context.Context, limits access.Limits, c *closed) error {
	of := c.GetMeta().GetSession()
	if err := t.master.mayRun(of.GetNamespace(), of.GetSpec()); err != nil {
		return err
	}
	if !c.GetAsleep() { // it is listed anew
		if err := mayRead(limits, of.GetSpec()); err != nil {
			return err
		}
	}
	for {
		o, err := t.begin(ctx, limits, c)
		if err != nil {
			return err
		}
		if o == nil {
			return nil
		}
		if err := t.await(ctx, o); err != nil {
			return err
		}
		if o.err != nil {
			return o.err
		}
	}
}

// begin returns the opening that leads to a closed session, or nil if it is there.
func (t *term) begin(ctx context.Context, limits access.Limits, c *closed) (*opening, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o, ok := t.openings[c.Name]; ok || t.sessions[c.Name] != nil {
		return o, nil
	}
	of := c.GetMeta().GetSession()
	req := &wanted{
		OpenRequest: &pb.OpenRequest{Share: of.GetShare()}, name: c.Name, who: identity.From(ctx),
		limits: limits,
	}
	return t.start(req, of.GetSpec(), func() error { return t.revive(limits, c) }) //nolint:contextcheck // the work outlives the call
}

// revive runs a session that sleeps, or a closed one, which it writes anew.
func (t *term) revive(limits access.Limits, c *closed) error {
	if !c.GetAsleep() {
		if err := t.writeAgain(limits, c); err != nil {
			return err
		}
	}
	for { // nothing says any more that it is closed or sleeps: it must not be lost sight of
		err := t.takeUp(c.Name)
		switch {
		case err == nil:
			t.master.cfg.Logger.Info("session taken up again", "session", c.Name)
			return nil
		case errors.Is(err, store.ErrNotLeader), t.ctx.Err() != nil:
			return err
		}
		t.master.pause(t.ctx, "cannot take up a session; trying on", err)
	}
}

// writeAgain writes a closed session anew. What became of that if etcd did not say so, whoever takes it up finds out.
func (t *term) writeAgain(limits access.Limits, c *closed) error {
	ctx, cancel := context.WithTimeout(t.ctx, openTimeout)
	defer cancel()
	files, err := t.master.listedAgain(ctx, limits, c.GetMeta().GetSession())
	if err != nil {
		return err
	}
	head := c.state.Head()
	head.HeardUnixMs = time.Now().UnixMilli()
	err = t.master.cfg.Store.Reopen(ctx, t.leadership, c.Closed, files, head)
	if errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// listed lists the files of a session's dataset that it reads.
func (m *Master) listed(ctx context.Context, limits access.Limits, of *pb.Session) ([]*pb.File, error) {
	dataset := of.GetSpec().GetDataset()
	found, err := tables.Tell(ctx, limited{m.cfg.Storage, limits}, dataset)
	if err != nil {
		return nil, err
	}
	if found.Table == nil {
		return chosen(found, dataset)
	}
	program := &pb.Program{}
	if err := proto.Unmarshal(of.GetProgram(), program); err != nil {
		return nil, fmt.Errorf("master: session %s: program: %w", of.GetId(), err)
	}
	return plan.PruneTable(program, found.Table.Snapshot)
}

// listedAgain lists what a session reads, which must be what it was when the session was opened.
func (m *Master) listedAgain(ctx context.Context, limits access.Limits, of *pb.Session) ([]*pb.File, error) {
	files, err := m.listed(ctx, limits, of)
	if err != nil {
		return nil, openError(err)
	}
	if known := plan.Known(files); slices.Equal(plan.DatasetDigest(known), of.GetDatasetDigest()) {
		return known, nil // an earlier release opened it, which took no file without an ending
	}
	if digest := plan.DatasetDigest(files); !slices.Equal(digest, of.GetDatasetDigest()) {
		now := plan.Fingerprint(of.GetSpec(), files, bytesOf(files), m.cfg.Plan)
		return nil, status.Errorf(codes.FailedPrecondition,
			"session %q is closed, and its dataset has changed since it was opened (%s): "+
				"its checkpoints say nothing of the new files; bring the dataset back as it was, or begin a "+
				"new session",
			of.GetId(), plan.FileDifferences(of.GetFingerprint(), now, files))
	}
	return files, nil
}

// maxClosedListed is how many sessions a list has that are closed or sleep: the newest.
const maxClosedListed = 1000

// listClosed lists sessions that are closed or sleep and that a caller may see.
func (t *term) listClosed(ctx context.Context, who identity.Identity) (list []*pb.Session, more bool, err error) {
	found, more, err := t.master.cfg.Store.ListClosed(ctx, maxClosedListed, func(name store.Name) bool {
		namespace, _ := name.Split()
		return who.Sees(namespace)
	})
	for _, f := range found {
		if c, err := closedOf(f, nil); err == nil {
			list = append(list, c.view())
			continue
		}
		list = append(list, &pb.Session{
			Namespace: f.GetMeta().GetSession().GetNamespace(), Id: f.GetMeta().GetSession().GetId(),
			State: pb.SessionState_FAILED, Failure: "its summary in etcd cannot be read; delete the session",
		})
	}
	return list, more, err
}

// deleteClosed deletes a session that is closed or sleeps, if that is the caller's to do.
func (t *term) deleteClosed(ctx context.Context, who identity.Identity, name store.Name) error {
	c, err := t.closed(ctx, name)
	switch {
	case errors.Is(err, store.ErrCorrupt):
		if !who.Has(identity.Admin) { // whose it is cannot be read
			return status.Errorf(codes.PermissionDenied,
				"session %q is damaged, and is for an administrator of namespace %s to delete", name, who.Home())
		}
	case err != nil:
		return err
	default:
		if err := access.MayDelete(who, c.GetMeta().GetSession().GetOwner(), "delete it"); err != nil {
			return err
		}
	}
	if err := t.master.cfg.Store.Delete(ctx, t.leadership, name); err != nil {
		return err
	}
	namespace, id := name.Split()
	t.events.Add(&pb.Event{Kind: pb.EventKind_SESSION, Session: id, Namespace: namespace, Words: "deleted"})
	return nil
}

// sweepEvery is how often it is looked for sessions that have been kept long enough.
const sweepEvery = time.Minute

// sweep deletes sessions that are closed or sleep when they have been kept long enough.
func (t *term) sweep() error {
	ttl := t.master.cfg.SessionTTL
	if ttl == 0 {
		return nil
	}
	return t.every(min(sweepEvery, ttl/4), "cannot delete sessions that nobody has used for long; trying again later",
		func() error {
			return t.master.cfg.Store.Sweep(t.ctx, t.leadership, time.Now().Add(-ttl), func(name store.Name) {
				namespace, id := name.Split()
				t.events.Add(&pb.Event{
					Kind: pb.EventKind_SESSION, Session: id, Namespace: namespace,
					Words: fmt.Sprintf("expired: nobody used it for %v (--session-ttl)", ttl),
				})
			})
		})
}
