package master

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

// gather takes the calls that wait, so that they share one transaction. One that deletes the session is the last.
func (r *runner) gather(first call) []call {
	calls := []call{first}
	for len(calls) < r.together && !calls[len(calls)-1].remove {
		select {
		case c := <-r.calls:
			calls = append(calls, c)
		default:
			return calls
		}
	}
	return calls
}

// answer applies calls, commits what they changed and only then answers.
func (r *runner) answer(calls []call) error {
	last := calls[len(calls)-1]
	if last.remove {
		calls = calls[:len(calls)-1]
	}
	answers, err := r.execute(calls)
	for i, c := range calls {
		switch {
		case errors.Is(answers[i].err, errPanicked):
		case err != nil:
			answers[i] = answer{err: err}
		case answers[i].err == nil:
			r.acknowledge(c.command, answers[i])
			r.countGiven(answers[i].grants)
		}
		c.reply <- answers[i]
	}
	if !last.remove {
		return err
	}
	if err != nil {
		last.reply <- answer{err: err}
		return err
	}
	return r.remove(last)
}

// execute applies calls and commits.
func (r *runner) execute(calls []call) ([]answer, error) {
	answers := make([]answer, len(calls))
	var changes session.Changes
	for i, c := range calls {
		if c.code != nil {
			if err := r.changeCode(*c.code); err != nil {
				return answers, err
			}
		}
		if c.command != nil {
			var changed session.Changes
			if answers[i], changed = r.apply(c); errors.Is(answers[i].err, errPanicked) {
				return answers, errBesides // nobody knows what the state is like
			}
			changes = changes.Merge(changed)
		}
		if c.view {
			answers[i].view = r.view()
		}
	}
	r.publish()
	err := r.commit(store.Writes{}, changes)
	switch {
	case err == nil:
		r.together = min(r.together+1, groupCommit)
	case errors.Is(err, store.ErrTooLarge) && len(calls) > 1:
		r.together = len(calls) / 2
		err = errCrowded
	}
	return answers, err
}

// change changes the state. A command that panics must not end this master, with all other sessions, and the next one
// whose trainer calls again.
func (r *runner) change(c session.Command) (reply session.Reply, changes session.Changes, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.logger.Error("a change of the session's state panicked, which is a bug; please report it",
				"command", fmt.Sprintf("%T", c), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	return r.state.Apply(c)
}

// apply applies one command and makes the tickets of its answer.
func (r *runner) apply(c call) (answer, session.Changes) {
	if sync, ok := c.command.(session.Sync); ok {
		sync.Refused = r.tickets.refusals(c.refused)
		c.command = sync
	}
	join, joins := c.command.(session.Join)
	if _, restores := c.command.(session.Restore); restores || join.Restoring || len(join.Restore) > 0 {
		if err := r.term.resume(c.limits, r); err != nil {
			return answer{err: err}, session.Changes{}
		}
	}
	if joins {
		join = r.replaces(join)
		c.command = join
	}
	before, _ := r.state.Skipped()
	reply, changes, err := r.change(c.command)
	r.logSkipped(len(before))
	if joins && err == nil {
		r.logReplaced(join, reply, changes)
	}
	if err != nil {
		if sync, ok := c.command.(session.Sync); ok {
			r.logZombie(sync, err)
		}
		return answer{err: err}, changes
	}
	if sync, ok := c.command.(session.Sync); ok && c.refresh && reply.Unchanged {
		reply.Unchanged, reply.Grants = false, r.state.Held(sync.Rank)
		reply.Pieces, reply.Starts = r.state.Pieces(sync.Rank)
	}
	if len(reply.OtherCode) > 0 {
		r.otherCode = reply.OtherCode
	}
	a := answer{Reply: reply}
	if a.grants, a.err = r.tickets.grants(reply.Generation, reply.Grants, c.zone); a.err == nil &&
		len(reply.Pieces) > 0 {
		a.grants, a.err = r.tickets.pieces(reply.Generation, reply.Pieces, c.zone)
	}
	return a, changes
}

// logSkipped tells of row groups that were skipped since there were n.
func (r *runner) logSkipped(n int) {
	skipped, _ := r.state.Skipped()
	for _, k := range skipped[min(n, len(skipped)):] {
		r.logger.Warn("rows are left out: no worker can read them", "epoch", k.Epoch, "file", k.File, "row_group",
			k.RowGroup,
			"first_row", k.FirstRow, "rows", k.Rows, "cause", k.Words)
	}
}

// remove deletes the session, and returns store.ErrNotFound once it is gone. The answer comes when nobody can find
// it any more.
func (r *runner) remove(c call) error {
	r.putAwayAs = ""
	err := r.term.master.cfg.Store.Delete(r.term.ctx, r.term.leadership, r.name)
	if err == nil || errors.Is(err, store.ErrNotFound) {
		r.term.forget(r)
	}
	c.reply <- answer{err: err}
	if err == nil {
		return fmt.Errorf("%w: it was deleted", store.ErrNotFound)
	}
	return err
}

// commit writes the changed keys, and drops the blocks of which nothing is in flight any more. It asks etcd even
// when nothing changed: a deposed leader must not acknowledge.
func (r *runner) commit(w store.Writes, changes session.Changes) error {
	heard := r.silence.heard
	if changes.Head || r.silence.due() {
		w.Head = r.state.Head()
		w.Head.HeardUnixMs = heard.UnixMilli()
	}
	for _, rank := range changes.Ranks {
		if w.Ranks == nil {
			w.Ranks = map[uint32]*pb.SessionRank{}
		}
		w.Ranks[rank] = r.state.Rank(rank)
	}
	w.Checkpoints = r.named(changes.Checkpoints)
	w.Drop = r.tickets.idle(r.state)
	ctx, cancel := context.WithTimeout(r.term.ctx, commitTimeout)
	defer cancel()
	if err := r.term.master.cfg.Store.Commit(ctx, r.term.leadership, r.stored, w); err != nil {
		return err
	}
	if w.Head != nil {
		r.silence.recorded = heard
	}
	r.tickets.update(w)
	r.endReads(func(id store.BlockID) bool { return r.tickets.blocks[id] == nil })
	r.emitChanges()
	return nil
}
