package master

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/features"
	"github.com/penstock-ml/penstock/master/store"
)

// What sessions read is counted in memory, by the shards that trainers are given, and added every few minutes to what
// lies in etcd, which costs one transaction for each directory that was read meanwhile. A leader that dies takes the
// notes of these minutes with it: no session depends on them.

const (
	// noteEvery is how often notes are written.
	noteEvery = 5 * time.Minute
	// noteTries is how often a note is written again because somebody else wrote, or etcd did not say whether it did.
	noteTries = 4
	// maxWaiting bounds the directories of which notes wait, for as long as etcd takes none.
	maxWaiting = 1000
	// lastNotes bounds the last write of a leader that is stopped.
	lastNotes = 2 * time.Second
)

// notes are what sessions read, in this term.
type notes struct {
	store  *store.Store
	lead   *store.Leadership
	logger *slog.Logger
	turn   chan struct{} // taken by who writes notes, or adds up what is written and what waits

	mu      sync.Mutex
	waiting map[store.ReadsName]*features.Reads
	tallies map[*tally]struct{} // of blocks in flight
}

func newNotes(s *store.Store, lead *store.Leadership, logger *slog.Logger) *notes {
	return &notes{
		store: s, lead: lead, logger: logger, turn: make(chan struct{}, 1),
		waiting: map[store.ReadsName]*features.Reads{}, tallies: map[*tally]struct{}{},
	}
}

// add takes a part of what was read.
func (n *notes) add(name store.ReadsName, part *features.Reads) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.put(name, part)
}

// put is add for those who hold mu.
func (n *notes) put(name store.ReadsName, part *features.Reads) {
	before := n.waiting[name]
	switch {
	case before != nil:
		before.Add(part)
	case len(n.waiting) < maxWaiting:
		n.waiting[name] = part
	default:
		n.logger.Warn("what was read is not counted: etcd takes none, and too much waits", "prefix", name.Prefix,
			"namespace", name.Namespace)
	}
}

// take takes out what waits of a directory.
func (n *notes) take(name store.ReadsName) *features.Reads {
	n.mu.Lock()
	defer n.mu.Unlock()
	part := n.waiting[name]
	delete(n.waiting, name)
	return part
}

// begin counts tallies from now on.
func (n *notes) begin(all []*tally) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range all {
		n.tallies[t] = struct{}{}
	}
}

// give counts a shard.
func (n *notes) give(t *tally, s *pb.Shard) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range s.GetExtents() {
		t.given += e.GetRows()
	}
}

// end takes what tallies came to.
func (n *notes) end(all []*tally) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range all {
		n.settle(t)
		delete(n.tallies, t)
	}
}

// settle takes what a tally came to since the last time. mu must be held.
func (n *notes) settle(t *tally) {
	if part, ok := t.settle(time.Now().UnixMilli()); ok {
		n.put(t.name, features.Of(part))
	}
}

// names are the directories of which something waits, what is being read included.
func (n *notes) names() []store.ReadsName {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range slices.Collect(maps.Keys(n.tallies)) {
		n.settle(t)
		n.mu.Unlock() // so that no trainer waits for all of them
		n.mu.Lock()
	}
	return slices.Collect(maps.Keys(n.waiting))
}

// enter waits for the turn.
func (n *notes) enter(ctx context.Context) error {
	select {
	case n.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (n *notes) leave() { <-n.turn }

// write writes all that waits. What etcd does not take waits on.
func (n *notes) write(ctx context.Context) error {
	if err := n.enter(ctx); err != nil {
		return err
	}
	defer n.leave()
	for _, name := range n.names() {
		part := n.take(name)
		err := n.writeOne(ctx, name, part)
		switch {
		case err == nil:
		case errors.Is(err, store.ErrUnknown): // to write it again might count it twice
			n.logger.Warn("etcd did not say whether it took what was read lately; it may not be counted",
				"prefix", name.Prefix, "namespace", name.Namespace, "error", err)
		default:
			n.add(name, part)
			return err
		}
	}
	return nil
}

// writeOne adds a part to what lies in etcd. It knows a write of its own again, whose answer was lost.
func (n *notes) writeOne(ctx context.Context, name store.ReadsName, part *features.Reads) error {
	writer := rand.Uint64() | 1
	for try := 1; ; try++ {
		had, revision, err := n.store.Reads(ctx, name)
		if err != nil {
			return err
		}
		if had.GetWriter() == writer {
			return nil
		}
		sum := features.Load(had)
		sum.Add(part)
		sum.Proto().Prefix, sum.Proto().Writer = name.Prefix, writer
		err = n.store.PutReads(ctx, n.lead, name, sum.Proto(), revision)
		for errors.Is(err, store.ErrTooLarge) && sum.Shrink() {
			err = n.store.PutReads(ctx, n.lead, name, sum.Proto(), revision)
		}
		again := errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUnknown)
		if !again || try == noteTries {
			return err
		}
	}
}

// keepNotes writes notes now and then, and at the end of the term, if this master leads still.
func (t *term) keepNotes() error {
	err := t.every(noteEvery, "cannot keep what sessions read; trying again later", func() error {
		return t.notes.write(t.ctx)
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), lastNotes)
	defer cancel()
	if failed := t.notes.write(ctx); failed != nil && !errors.Is(failed, store.ErrNotLeader) {
		t.master.cfg.Logger.Warn("what sessions read lately is not counted", "error", failed)
	}
	return err
}

// all adds up what was read below a directory, and by how many directories that is. Nothing was if there are none.
func (n *notes) all(ctx context.Context, namespace, below string) (*features.Reads, error) {
	if err := n.enter(ctx); err != nil {
		return nil, err
	}
	defer n.leave()
	prefixes, err := n.prefixes(ctx, namespace)
	if err != nil {
		return nil, err
	}
	sum := features.Load(nil)
	for _, p := range prefixes {
		if !strings.HasPrefix(p, below) {
			continue
		}
		one, err := n.one(ctx, store.ReadsName{Namespace: namespace, Prefix: p})
		if err != nil {
			return nil, err
		}
		sum.Add(one)
		sum.Proto().Prefixes++
	}
	sum.Proto().Prefix = below
	return sum, nil
}

// each says of each directory how much was read of it, those read last first, without its features.
func (n *notes) each(ctx context.Context, namespace string) ([]*pb.DatasetReads, error) {
	if err := n.enter(ctx); err != nil {
		return nil, err
	}
	defer n.leave()
	prefixes, err := n.prefixes(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var out []*pb.DatasetReads
	for _, p := range prefixes {
		one, err := n.one(ctx, store.ReadsName{Namespace: namespace, Prefix: p})
		if err != nil {
			return nil, err
		}
		m := one.Proto()
		out = append(out, &pb.DatasetReads{
			Prefix: p, SinceUnixMs: m.GetSinceUnixMs(), ReadUnixMs: m.GetReadUnixMs(), Sessions: m.GetSessions(),
			Rows: m.GetRows(), Bytes: m.GetBytes(), Prefixes: 1,
		})
	}
	slices.SortStableFunc(out, func(a, b *pb.DatasetReads) int { return int(b.GetReadUnixMs() - a.GetReadUnixMs()) })
	return out, nil
}

// prefixes are the directories of which a namespace's sessions read.
func (n *notes) prefixes(ctx context.Context, namespace string) ([]string, error) {
	out, err := n.store.ReadPrefixes(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for _, name := range n.names() {
		if name.Namespace == namespace {
			out = append(out, name.Prefix)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// one is what was read of a directory, with what waits to be written.
func (n *notes) one(ctx context.Context, name store.ReadsName) (*features.Reads, error) {
	m, _, err := n.store.Reads(ctx, name)
	if err != nil {
		return nil, err
	}
	sum := features.Load(m)
	n.mu.Lock()
	defer n.mu.Unlock()
	if part := n.waiting[name]; part != nil {
		sum.Add(part)
	}
	return sum, nil
}

// ListFeatures is answered by the leader, which has the newest notes.
func (s *service) ListFeatures(ctx context.Context, req *pb.ListFeaturesRequest) (*pb.ListFeaturesReply, error) {
	t, err := s.leader(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	namespace := identity.From(ctx).Home()
	if req.GetUri() == "" {
		all, err := t.notes.each(ctx, namespace)
		if err != nil {
			return nil, callError(err)
		}
		return &pb.ListFeaturesReply{Datasets: all}, nil
	}
	uri, err := storage.Canonical(req.GetUri())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	below := features.Prefix(uri, storage.FormatOf(uri) != "")
	sum, err := t.notes.all(ctx, namespace, below)
	if err != nil {
		return nil, callError(err)
	}
	if sum.Proto().GetPrefixes() == 0 {
		return nil, status.Errorf(codes.NotFound, "no session of namespace %s has read anything below %s; "+
			"`penstock features` lists what was read", namespace, below)
	}
	return &pb.ListFeaturesReply{Datasets: []*pb.DatasetReads{sum.Proto()}}, nil
}
