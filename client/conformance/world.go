package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/util"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

const patience = time.Minute // for a condition that must come true, or an answer

// world is a scenario's fleet, and what it sees of the trainers.
type world struct {
	sc   *Scenario
	net  *fake.Net
	data *fake.Dataset
	spec *pb.Spec
	steps

	layouts []*fake.Layout // of epochs, in order deterministic

	mu       sync.Mutex
	random   *rand.Rand
	rules    []Answer
	faults   map[string][]Fault
	ranks    map[uint32]*rank // since the last renewal
	killed   map[string]bool  // nonces of processes
	sent     int              // rows, by workers
	lastSent time.Time
	largest  int64 // record, in bytes
	problems []string
}

// steps is what the goroutine that makes the steps has to itself.
type steps struct {
	master   *fake.Master
	workers  map[string]*fake.Worker
	stop     map[string]func() // of who listens
	restored []int64           // rows that were handed over before the last renewal
	skipped  map[int64]bool    // rows that masters left out
}

// rank is what is known of one.
type rank struct {
	batches []batch
	asked   bool      // a batch is on its way to the training loop
	begun   int       // Syncs
	heard   time.Time // the newest Sync that the master took in
}

func newWorld(t testing.TB, sc *Scenario) *world {
	w := &world{
		sc: sc, net: fake.Loopback(t), data: dataset(sc), random: rand.New(rand.NewPCG(1, 2)),
		rules: sc.Master.Answers, faults: make(map[string][]Fault), lastSent: time.Now(), killed: make(map[string]bool),
	}
	w.spec = &pb.Spec{
		Dataset: &pb.Dataset{Uri: []string{"mem://data"}}, BatchSize: sc.Spec.BatchSize,
		Epochs: sc.Spec.Epochs,
	}
	if sc.Spec.Drop {
		w.spec.LastBatch = pb.LastBatch_DROP
	}
	if sc.Spec.Pad {
		w.spec.LastBatch = pb.LastBatch_PAD
	}
	w.spec.OnError = &pb.OnError{Skip: sc.Spec.Skip}
	w.skipped = make(map[int64]bool)
	if sc.Spec.Lanes > 0 {
		w.spec.Order, w.spec.Lanes = pb.Order_DETERMINISTIC, sc.Spec.Lanes
		w.spec.BatchSize, w.spec.GlobalBatchSize = 0, sc.Spec.BatchSize*int64(sc.Trainer.World)
		for epoch := range w.data.Epochs {
			w.layouts = append(w.layouts, fake.NewLayout(w.data, epoch, int(sc.Spec.Lanes)))
		}
	}
	w.stop, w.workers = make(map[string]func()), make(map[string]*fake.Worker)
	for name := range sc.Workers {
		w.startWorker(t, name)
	}
	for name, leader := range sc.Master.Followers {
		w.net.Follower(name, leader)
	}
	w.renew()
	return w
}

func dataset(sc *Scenario) *fake.Dataset {
	d := &fake.Dataset{
		Epochs: sc.Spec.Epochs, Shards: sc.Dataset.Shards, BlockShards: sc.Dataset.BlockShards, Bad: sc.Dataset.Bad,
	}
	if r := sc.Dataset.Random; r != nil {
		d.Shards = fake.NewDataset(r.Seed, d.Epochs, r.Shards).Shards
	}
	return d
}

// renew starts a master that knows nothing, in place of the one that there was.
func (w *world) renew() {
	if stop := w.stop["m"]; stop != nil {
		stop()
		w.noteSkipped()
	}
	m := w.sc.Master
	w.master = &fake.Master{
		Data: w.data, Spec: w.spec, Workers: w.net.Workers(slices.Sorted(maps.Keys(w.sc.Workers))...),
		Streams: m.Streams, Run: m.Run, LeaseMs: m.Lease.Milliseconds(), Intercept: w.intercept, Answer: w.answer,
	}
	w.mu.Lock()
	w.ranks = make(map[uint32]*rank)
	w.mu.Unlock()
	w.stop["m"] = w.net.Master("m", w.master)
}

// noteSkipped keeps what the master left out.
func (w *world) noteSkipped() {
	w.master.Look(func() {
		for _, id := range w.data.IDs(w.master.Skipped) {
			w.skipped[id] = true
		}
	})
}

// rank returns what is known of a rank. w.mu must be held.
func (w *world) rank(r uint32) *rank {
	if w.ranks[r] == nil {
		w.ranks[r] = new(rank)
	}
	return w.ranks[r]
}

// intercept sees each call before the master does.
func (w *world) intercept(req proto.Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	call := map[string]string{
		"OpenRequest": "open", "GetSessionRequest": "open", "JoinRequest": "join",
		"SyncRequest": "sync",
	}
	if req, ok := req.(*pb.SyncRequest); ok {
		if w.killed[req.GetNonce()] {
			return status.Error(codes.Aborted, "its process was killed")
		}
		r := w.rank(req.GetRank())
		r.begun++
		w.checkReport(r, req)
	}
	if err := w.rule(call[string(req.ProtoReflect().Descriptor().Name())], false); err != nil {
		return err
	}
	if req, ok := req.(*pb.SyncRequest); ok {
		w.rank(req.GetRank()).heard = time.Now()
	}
	return nil
}

// checkReport checks that a rank reports no rows as consumed that were not handed over. w.mu must be held.
func (w *world) checkReport(r *rank, req *pb.SyncRequest) {
	limit := 0
	for _, b := range r.batches {
		limit += len(b.ids)
	}
	if r.asked { // the trainer may know of its next batch earlier
		limit += int(w.spec.GetBatchSize())
	}
	if n := w.count(position.SetFromProto(req.GetConsumed())); n > limit {
		w.problems = append(w.problems, fmt.Sprintf("rank %d reported %d rows as consumed when it had been given %d",
			req.GetRank(), n, limit))
	}
}

func (w *world) count(set position.Set) int {
	n := 0
	w.data.In(set, func(_ fake.Row, lo, hi int) { n += hi - lo })
	return n
}

// rule is the error of the first rule that fits a call. w.mu must be held.
func (w *world) rule(call string, lost bool) error {
	for i := range w.rules {
		r := &w.rules[i]
		if r.Lost != lost || r.Call != "" && r.Call != call || r.Times < 0 || r.OneIn > 0 &&
			w.random.IntN(r.OneIn) > 0 {
			continue
		}
		use(&r.Times)
		return status.Error(code(r.Code), r.Message)
	}
	return nil
}

// use counts down; 0 is forever, and below 0 is used up.
func use(times *int) {
	if *times > 0 {
		if *times--; *times == 0 {
			*times = -1
		}
	}
}

func code(name string) codes.Code {
	c := codes.Unavailable
	if name != "" {
		if err := c.UnmarshalJSON([]byte(`"` + name + `"`)); err != nil {
			panic(fmt.Errorf("scenario: %w", err))
		}
	}
	return c
}

// answer sees each answer before it leaves.
func (w *world) answer(reply proto.Message) error {
	call := map[string]string{"Session": "open", "JoinReply": "join", "SyncReply": "sync"}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sc.Master.Future {
		reply.ProtoReflect().SetUnknown(future())
		if reply, ok := reply.(*pb.SyncReply); ok {
			for _, g := range reply.GetGrants() {
				g.ProtoReflect().SetUnknown(future())
				g.Ticket = append(g.Ticket, future()...)
			}
		}
	}
	return w.rule(call[string(reply.ProtoReflect().Descriptor().Name())], true)
}

// future is a field that no client knows.
func future() []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 5000, protowire.BytesType), "from a later version")
}

func (w *world) startWorker(t testing.TB, name string) {
	script := w.sc.Workers[name]
	switch script.Kind {
	case "dead":
		w.net.Address(name)
		return
	case "tls":
		srv := &httptest.Server{Listener: w.net.Listen(name), Config: new(http.Server)}
		srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return
	case "stranger":
		w.net.Serve(name, func(*grpc.Server) {})
		return
	case "deaf":
		l := w.net.Listen(name) // the kernel accepts
		t.Cleanup(func() { _ = l.Close() })
		return
	}
	w.mu.Lock()
	if _, again := w.faults[name]; !again {
		w.faults[name] = script.Faults
	}
	w.mu.Unlock()
	if w.workers[name] == nil {
		w.workers[name] = &fake.Worker{Data: w.data, Cut: script.Cut, Without: script.Without, Links: !script.Grpc}
		w.workers[name].After = w.measure
		w.workers[name].Fault = func(ctx context.Context, r *fake.Record) error { return w.fault(ctx, name, r) }
	}
	w.stop[name] = w.net.Worker(name, w.workers[name])
}

// measure keeps the largest record's size.
func (w *world) measure(rec arrow.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.largest = max(w.largest, util.TotalRecordSize(rec))
}

// fault does to a record what the first fault that fits it says.
func (w *world) fault(ctx context.Context, worker string, r *fake.Record) error {
	f := w.pickFault(worker, r)
	switch f.Do {
	case "":
	case "end":
		return fake.ErrEnough
	case "silence":
		<-ctx.Done()
		return ctx.Err()
	case "late":
		t := time.NewTimer(f.For)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	case "twice":
		r.Twice = true
	case "overlap":
		n := min(r.K, 3)
		r.K, r.Rows = r.K-n, r.Rows+int(n)
	case "gap":
		r.K, r.Rows = r.K+1, r.Rows-1
	case "disagree":
		r.Disagree = true
	case "width":
		r.Width = 5
	case "short":
		r.Short = true
	case "garbage":
		r.Meta = []byte{0xff}
	case "miscount", "future":
		meta := &pb.BatchMeta{Window: r.Window, K: r.K, Rows: uint32(r.Rows), Last: r.Last}
		if f.Do == "miscount" {
			meta.Rows++
		} else {
			meta.ProtoReflect().SetUnknown(future())
		}
		var err error
		r.Meta, err = proto.Marshal(meta)
		return err
	default:
		return status.Error(code(f.Do), f.Message)
	}
	return nil
}

// pickFault returns the fault of a record, or one that does nothing.
func (w *world) pickFault(worker string, r *fake.Record) Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	faults := w.faults[worker]
	for i := range faults {
		f := &faults[i]
		if f.Times < 0 || f.Epoch != nil && *f.Epoch != r.Epoch || f.Shard != nil &&
			*f.Shard != w.data.Index(r.Position) ||
			r.K < f.K || r.Before < f.After || f.OneIn > 0 && w.random.IntN(f.OneIn) > 0 {
			continue
		}
		use(&f.Times)
		return *f
	}
	w.sent += r.Rows
	w.lastSent = time.Now()
	return Fault{}
}

// await waits for a condition, which it asks with w.mu held.
func (w *world) await(what string, ok func() bool) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		w.mu.Lock()
		done := ok()
		w.mu.Unlock()
		if done {
			return nil
		}
	}
	return fmt.Errorf("waited for %v: %s", patience, what)
}
