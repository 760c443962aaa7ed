package master

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/events"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

// planningRunner is a session that nobody has joined, under a leader that does nothing by itself.
func planningRunner(t *testing.T) *runner {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	logger := slog.New(slog.DiscardHandler)
	e, err := store.Embedded(t.Context(), t.TempDir(), "", logger)
	check(err)
	t.Cleanup(func() { check(e.Close()) })
	st, err := store.Open(t.Context(), store.Config{Endpoints: e.Endpoints()})
	check(err)
	t.Cleanup(func() { check(st.Close()) })
	lead, err := st.Campaign(t.Context(), "a")
	check(err)
	_, err = st.Create(t.Context(), lead, &pb.SessionMeta{
		Session:        &pb.Session{Id: "run", WorldSize: 1, Spec: &pb.Spec{Epochs: 1}},
		PlannerVersion: plan.Version,
	}, nil)
	check(err)
	m := &Master{cfg: Config{Store: st, Logger: logger}}
	r, err := newRunner(&term{
		ctx: t.Context(), master: m, leadership: lead, events: events.New(nil, logger), notes: newNotes(st, lead, logger),
	}, "run")
	check(err)
	return r
}

// A block that is planned again by other indexes, after a restore, is what lies in etcd and what tickets are of, also
// where its old form was not dropped yet.
func TestABlockIsPlannedByOtherIndexes(t *testing.T) {
	const blocks = 2 * dropsAtOnce
	r := planningRunner(t)
	apply := func(c session.Command) {
		t.Helper()
		_, changes, err := r.change(c)
		if err == nil {
			err = r.commit(store.Writes{}, changes)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	planned := func(index uint32, indexes string, shards int) plannedBlock {
		return plannedBlock{
			command: session.Planned{Block: index, Blocks: blocks, Shards: uint32(shards), Indexes: indexes},
			block:   &pb.Block{Index: index, Shards: make([]*pb.Shard, shards)},
			reads:   &blockReads{},
		}
	}
	state := session.Checkpoint{Version: 1, Session: "run", Generation: 1, World: 1, Members: []uint32{0}}
	for i := range uint32(blocks) {
		if err := r.record(planned(i, "before", 1)); err != nil {
			t.Fatal(err)
		}
		state.Indexes = append(state.Indexes, session.BlockIndexes{Block: i, Digests: "restored"})
	}
	apply(session.Join{World: 1, Nonce: "n", Restoring: true, Restore: []session.Checkpoint{state}})
	if len(r.tickets.blocks) != blocks-dropsAtOnce {
		t.Fatalf("%d blocks lie in etcd", len(r.tickets.blocks))
	}
	for id := range r.tickets.blocks {
		if err := r.record(planned(id.Index, "restored", 2)); err != nil {
			t.Fatal(err)
		}
		if n := len(r.tickets.blocks[id].GetShards()); n != 2 {
			t.Errorf("tickets are of the %d shards of the block's old form", n)
		}
		stored, err := r.term.master.cfg.Store.Load(t.Context(), r.term.leadership, "run")
		if err != nil || len(stored.Blocks) != 1 || len(stored.Blocks[0].GetShards()) != 2 {
			t.Errorf("what lies in etcd: %v, %v", stored, err)
		}
		break
	}
}

// A session whose failure cannot be recorded plans its block again, but not at once.
func TestAFailureThatIsNotRecorded(t *testing.T) {
	r := planningRunner(t)
	if err := r.term.leadership.Resign(t.Context()); err != nil { // etcd takes nothing from it
		t.Fatal(err)
	}
	if err := r.takePlan(plannedBlock{err: errors.New("the file is damaged")}); !errors.Is(err, store.ErrNotLeader) ||
		r.planFails != 1 {
		t.Errorf("%d failures in a row, %v", r.planFails, err)
	}
}

// TestUntrustedStatistics warns once of those of a session, and counts all.
func TestUntrustedStatistics(t *testing.T) {
	var log bytes.Buffer
	p := &blockPlanner{logger: slog.New(slog.NewTextHandler(&log, nil)), untrusted: &atomic.Int64{}}
	for block, chunks := range []int64{0, 2, 0, 3} {
		p.noteUntrusted(plan.Counts{UntrustedChunks: chunks, Untrusted: "file:///a row group 1"}, 0, uint32(block))
	}
	if said := log.String(); p.untrusted.Load() != 5 || strings.Count(said, "\n") != 1 ||
		!strings.Contains(said, "block=1 chunks=2") || !strings.Contains(said, "file:///a row group 1") {
		t.Errorf("%d are counted, and said is %q", p.untrusted.Load(), said)
	}
}
