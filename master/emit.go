package master

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
	"github.com/penstock-ml/penstock/master/words"
)

const (
	// emitEvery is how often events tell of workers, at most: those that come or go at once are one event.
	emitEvery = time.Second
	// namedAtOnce is how many workers or ranks one event names.
	namedAtOnce = 8
)

// eventKeeper keeps a term's events.
type eventKeeper struct {
	*store.Store
	leadership *store.Leadership
}

// AppendEvents writes events as this term's leader.
func (k eventKeeper) AppendEvents(ctx context.Context, events []*pb.Event) error {
	return k.Store.AppendEvents(ctx, k.leadership, events)
}

// emitWorkers makes events of workers that come, drain and go.
func (t *term) emitWorkers() error {
	known := byName(t.master.fleet.Members(fleet.Worker))
	drained := map[string]bool{}
	for {
		outdated := t.master.places.get().outdated
		now := byName(t.master.fleet.Members(fleet.Worker))
		for name, m := range known {
			if _, there := now[name]; !there && drained[name] { // since it was told of last
				m.Draining = true
				known[name] = m
			}
		}
		for _, e := range workerEvents(known, now) {
			t.events.Add(e)
		}
		known = now
		select {
		case <-outdated:
		case <-t.ctx.Done():
			return nil
		}
		if drained = t.drainsMeanwhile(); t.ctx.Err() != nil {
			return nil //nolint:nilerr // the term ends
		}
	}
}

// drainsMeanwhile waits for emitEvery, and returns which workers drained meanwhile: they may be gone at its end.
func (t *term) drainsMeanwhile() map[string]bool {
	drained := map[string]bool{}
	over := time.After(emitEvery)
	for {
		outdated := t.master.places.get().outdated
		for _, m := range t.master.fleet.Members(fleet.Worker) {
			if m.Draining {
				drained[m.Name] = true
			}
		}
		select {
		case <-outdated:
		case <-over:
			return drained
		case <-t.ctx.Done():
			return drained
		}
	}
}

func byName(members []fleet.Member) map[string]fleet.Member {
	out := make(map[string]fleet.Member, len(members))
	for _, m := range members {
		out[m.Name] = m
	}
	return out
}

// workerEvents says what became of workers: one event for all that came, one for those that drain now, and one for
// those that went.
func workerEvents(before, after map[string]fleet.Member) []*pb.Event {
	var came, again, drain, gone, lost []string
	able := 0
	for name, m := range after {
		if !m.Draining {
			able++
		}
		switch old, known := before[name]; {
		case known && old.Address != m.Address && !old.Draining: // another process of that name
			again = append(again, name)
		case !known || old.Address != m.Address:
			came = append(came, name)
		case m.Draining && !old.Draining:
			drain = append(drain, name)
		}
	}
	for name, m := range before {
		if _, ok := after[name]; ok {
			continue
		}
		if m.Draining {
			gone = append(gone, name)
		} else {
			lost = append(lost, name)
		}
	}
	var out []*pb.Event
	add := func(names []string, lost int, one, several string) {
		if len(names) == 0 {
			return
		}
		slices.Sort(names)
		e := &pb.Event{
			Kind: pb.EventKind_WORKER, Lost: uint32(lost),
			Words: fmt.Sprintf("%s %s; the fleet has %s", listed(names), several, english.Plural(able, "worker", "")),
		}
		if len(names) == 1 {
			e.Worker, e.Words = names[0], fmt.Sprintf("%s %s; the fleet has %s", names[0], one,
				english.Plural(able, "worker", ""))
		}
		out = append(out, e)
	}
	add(came, 0, "joined", "joined")
	add(again, len(again), "was started again, and was not seen to drain",
		"were started again, and were not seen to drain")
	add(drain, 0, "drains", "drain")
	add(gone, 0, "has drained and left", "have drained and left")
	add(lost, len(lost), "is gone, and was not seen to drain", "are gone, and were not seen to drain")
	return out
}

// listed names the first few.
func listed(names []string) string {
	if more := len(names) - namedAtOnce; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedAtOnce], ", "), more)
	}
	return english.WordSeries(names, "and")
}

// emit adds an event of this session.
func (r *runner) emit(kind pb.EventKind, format string, args ...any) {
	r.term.events.Add(r.event(kind, fmt.Sprintf(format, args...)))
}

func (r *runner) event(kind pb.EventKind, says string) *pb.Event {
	return &pb.Event{Kind: kind, Words: says, Session: r.id, Namespace: r.meta.GetSession().GetNamespace()}
}

// told is what events have told of a session, as far as they can be told from its state.
type told struct {
	state      pb.SessionState
	generation uint64
	skipped    int
	badRows    []session.BadRow
	named      []*session.Named
}

func (r *runner) toEmit() told {
	skipped, _ := r.state.Skipped()
	_, bad := r.state.BadRows()
	return told{
		badRows: bad,
		state:   r.stand(time.Now()).state, generation: r.state.Generation(), skipped: len(skipped),
		named: slices.Clone(r.state.Checkpoints()),
	}
}

// emitChanges makes events of what became of the session since it was called last. What it tells lies in etcd.
func (r *runner) emitChanges() {
	before, now := r.told, r.toEmit()
	r.told = now
	if now.generation != before.generation {
		how := fmt.Sprintf("restored to the states that its %s brought; generation %d",
			english.Plural(int(r.state.World()), "trainer", ""), now.generation)
		if from := r.state.From(); from.Name != "" {
			how = fmt.Sprintf("restored to checkpoint %s, of step %s, for %s; generation %d",
				from.Name, humanize.Comma(int64(from.Step)),
				english.Plural(int(r.state.World()), "trainer", ""), now.generation)
		}
		r.emit(pb.EventKind_CHECKPOINT, "%s", how)
	}
	if other := r.otherCode; len(other) > 0 {
		r.otherCode = nil
		r.emit(pb.EventKind_CHECKPOINT, "restored with other code, as was asked for: %s", strings.Join(other, "; "))
	}
	skipped, _ := r.state.Skipped()
	for _, k := range skipped[min(before.skipped, len(skipped)):] {
		r.emit(pb.EventKind_DATA,
			"%s rows are left out of epoch %d: extent %d of %s, from row %d on, cannot be read: %s",
			humanize.Comma(k.Rows), k.Epoch+1, k.RowGroup, k.File, k.FirstRow, k.Words)
	}
	for _, b := range now.badRows {
		if !slices.Contains(before.badRows, b) {
			r.emit(pb.EventKind_DATA, "row %d of %s is left out of epoch %d: %s", b.Row, b.File, b.Epoch+1, b.Words)
		}
	}
	r.emitCheckpoints(before.named, now.named)
	if now.state == before.state {
		return
	}
	switch now.state {
	case pb.SessionState_FAILED:
		r.emit(pb.EventKind_SESSION, "failed: %s", r.state.Failure())
	case pb.SessionState_FINISHED:
		r.emit(pb.EventKind_SESSION, "finished: %s handed over in %s",
			words.Count(r.state.Progress().GetRowsDelivered(), "row"),
			english.Plural(int(spec.Epochs(r.meta.GetSession().GetSpec())), "epoch", ""))
	default:
		if isOver(before.state) {
			r.emit(pb.EventKind_SESSION, "is open again")
		}
	}
}

func (r *runner) emitCheckpoints(before, now []*session.Named) {
	has := func(list []*session.Named, n *session.Named) bool {
		return slices.ContainsFunc(list, func(o *session.Named) bool { return o.Name == n.Name && o.Nonce == n.Nonce })
	}
	for _, n := range now {
		if !has(before, n) {
			r.emit(pb.EventKind_CHECKPOINT, "checkpoint %s was taken, of step %s",
				n.Name, humanize.Comma(int64(n.Step)))
		}
	}
	for _, n := range before {
		if !has(now, n) {
			r.emit(pb.EventKind_CHECKPOINT, "checkpoint %s was deleted", n.Name)
		}
	}
}

// emitExpired says whose leases ended.
func (r *runner) emitExpired(ranks []uint32, rows int64) {
	if len(ranks) == 0 {
		return
	}
	names := make([]string, len(ranks))
	for i, rank := range ranks {
		names[i] = strconv.FormatUint(uint64(rank), 10)
	}
	e := r.event(pb.EventKind_SESSION,
		fmt.Sprintf("%s %s: others get what they held; at most %s of them may come twice",
			english.PluralWord(len(ranks), "the lease ended of rank", "the leases ended of ranks"), listed(names),
			words.Count(rows, "row")))
	if len(ranks) == 1 {
		e.Rank = &ranks[0]
	}
	r.term.events.Add(e)
}
