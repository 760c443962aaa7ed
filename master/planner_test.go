package master

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/master/store"
)

// A session whose failure cannot be recorded plans its block again, but not at once.
func TestAFailureThatIsNotRecorded(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	logger := slog.New(slog.DiscardHandler)
	e, err := store.Embedded(t.Context(), t.TempDir(), "", logger)
	check(err)
	defer func() { check(e.Close()) }()
	st, err := store.Open(t.Context(), store.Config{Endpoints: e.Endpoints()})
	check(err)
	defer func() { check(st.Close()) }()
	lead, err := st.Campaign(t.Context(), "a")
	check(err)
	_, err = st.Create(t.Context(), lead, &pb.SessionMeta{
		Session:        &pb.Session{Id: "run", WorldSize: 1},
		PlannerVersion: plan.Version,
	}, nil)
	check(err)
	m := &Master{cfg: Config{Store: st, Logger: logger}}
	r, err := newRunner(&term{ctx: t.Context(), master: m, leadership: lead}, "run")
	check(err)
	check(lead.Resign(t.Context())) // etcd takes nothing from it
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
