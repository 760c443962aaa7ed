package master_test

import (
	"bytes"
	"cmp"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/fleet"
)

// countingWorker answers counts: of each window two rows are left, or as many as it says that come of one.
type countingWorker struct {
	flight.BaseFlightServer
	keys map[string][]byte
	says func(*pb.Ticket) error                             // in place of counts, if it is an error
	of   uint32                                             // rows that come of each, of sessions of functions
	has  func(*pb.Ticket, []string) (*pb.CallsReply, error) // by name

	mu    sync.Mutex
	code  []byte                    // that it was sent
	sent  int                       // how often
	asked map[string]map[uint32]int // how many shards it counted, by session and epoch
}

// counts notes that it counts a shard.
func (w *countingWorker) counts(t *pb.Ticket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked == nil {
		w.asked = map[string]map[uint32]int{}
	}
	if w.asked[t.GetSession()] == nil {
		w.asked[t.GetSession()] = map[uint32]int{}
	}
	w.asked[t.GetSession()][t.GetEpoch()]++
}

// keep takes a part of a session's code.
func (w *countingWorker) keep(body []byte) error {
	var p pb.CodePart
	if err := proto.Unmarshal(body, &p); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	t, err := ticket.VerifySigned(p.GetTicket(), w.keys, time.Now())
	if err == nil {
		err = code.CheckPart(&p)
	}
	if err != nil || !bytes.Equal(t.GetCode().GetSha256(), p.GetSha256()) {
		return status.Errorf(codes.PermissionDenied, "of other code, or %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.GetOffset() == 0 {
		w.code, w.sent = nil, w.sent+1
	}
	w.code = append(w.code, p.GetData()...)
	return nil
}

// tell says what functions there are by names.
func (w *countingWorker) tell(body []byte, out flight.FlightService_DoActionServer) error {
	var req pb.CallsRequest
	if err := proto.Unmarshal(body, &req); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	t, err := ticket.VerifySigned(req.GetTicket(), w.keys, time.Now())
	if err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	reply, err := w.has(t, req.GetCalls())
	if err != nil {
		return err
	}
	if body, err = proto.Marshal(reply); err != nil {
		return err
	}
	return out.Send(&flight.Result{Body: body})
}

// lacks asks for a session's code, unless it is here.
func (w *countingWorker) lacks(of *pb.StoredCode) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(of.GetSha256()) == 0 || code.CheckWhole(of, w.code) == nil {
		return nil
	}
	return code.Needed(of.GetSha256(), "it is not here")
}

// verified is the ticket of an action.
func (w *countingWorker) verified(a *flight.Action) (*pb.Ticket, error) {
	var req pb.StreamRequest
	if err := proto.Unmarshal(a.GetBody(), &req); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	granted, err := ticket.Verify(&req, w.keys, time.Now())
	if err != nil {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	return granted, nil
}

func (w *countingWorker) DoAction(a *flight.Action, out flight.FlightService_DoActionServer) error {
	switch a.GetType() {
	case "code":
		return w.keep(a.GetBody())
	case "calls":
		return w.tell(a.GetBody(), out)
	}
	if a.GetType() != "count" {
		return status.Error(codes.InvalidArgument, a.GetType())
	}
	granted, err := w.verified(a)
	if err != nil {
		return err
	}
	if err := cmp.Or(w.says(granted), w.lacks(granted.GetCode())); err != nil {
		return err
	}
	w.counts(granted)
	for range w.of {
		if err := out.Send(&flight.Result{}); err != nil { // it is at work
			return err
		}
	}
	reply := &pb.CountReply{}
	for _, g := range granted.GetExtents() {
		n := (g.GetRows() + g.GetWindowRows() - 1) / g.GetWindowRows()
		counts := &pb.ExtentCount{}
		for i := range n {
			counts.Outputs = append(counts.Outputs, 2)
			if w.of == several {
				counts.Outputs[i] = someRows(granted.GetFile(), g)
			} else if w.of > 0 {
				counts.Outputs[i] = w.of * uint32(min(g.GetWindowRows(), g.GetRows()-i*g.GetWindowRows()))
			}
		}
		reply.Extents = append(reply.Extents, counts)
	}
	body, err := proto.Marshal(reply)
	if err != nil {
		return err
	}
	return out.Send(&flight.Result{Body: body})
}

// addCounting puts a worker beside a master that counts rows.
func addCounting(t *testing.T, n *node, name string, says func(*pb.Ticket) error) {
	t.Helper()
	startCounting(t, n, name, &countingWorker{says: says})
}

func startCounting(t *testing.T, n *node, name string, w *countingWorker) {
	t.Helper()
	startWith(t, n, name, w, w)
}

// startWith serves as a worker beside a master, which verifies tickets by what w is told.
func startWith(t *testing.T, n *node, name string, served flight.FlightServer, w *countingWorker) {
	t.Helper()
	orders, err := n.SyncWorker(t.Context(), &pb.WorkerReport{Name: name})
	check(t, err)
	w.keys = orders.GetKeys()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	srv := grpc.NewServer()
	flight.RegisterFlightServiceServer(srv, served)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		check(t, <-ended)
	})
	addWorker(t, n, fleet.Member{Name: name, Address: l.Addr().String(), Slots: 8})
}

func fine(*pb.Ticket) error { return nil }

func filtered(dir string) *pb.Spec {
	s := newSpec(dir)
	s.Filter, s.LastBatch = "label < 2", pb.LastBatch_DROP
	return s
}

// outputs lists the output rows of the windows that a trainer was granted, as its tickets say.
func outputs(t *testing.T, grants []*pb.Grant) (all []uint32) {
	t.Helper()
	for _, g := range grants {
		var signed pb.SignedTicket
		var tk pb.Ticket
		check(t, proto.Unmarshal(g.GetTicket(), &signed))
		check(t, proto.Unmarshal(signed.GetTicket(), &tk))
		for _, rg := range tk.GetExtents() {
			all = append(all, rg.GetOutputs()...)
		}
	}
	return all
}

func TestTicketsSayWhatWasCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		filter string
		want   uint32
	}{"nothing is left out": {"", rows}, "workers count": {"label < 2", 2}} {
		t.Run(name, func(t *testing.T) {
			m := single(t)
			s := filtered(dataset(t, 1))
			s.Filter = tc.filter
			openSession(t, m, "run", s, 1)
			r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
			if tc.filter != "" {
				addCounting(t, m, "busy",
					func(*pb.Ticket) error { return status.Error(codes.ResourceExhausted, "busy") })
				check(t, r.sync())
				addCounting(t, m, "able", fine)
			}
			r.untilGranted()
			got := outputs(t, r.last.GetGrants())
			if len(got) == 0 {
				t.Fatal("the tickets have no outputs")
			}
			for _, n := range got {
				if n != tc.want {
					t.Fatalf("the tickets say %d, want %d of each window", got, tc.want)
				}
			}
		})
	}
}

// chunked is a spec whose rows a function makes, four at most of each.
func chunked(dir string) *pb.Spec {
	s := newSpec(dir)
	s.LastBatch = pb.LastBatch_DROP
	s.Transforms = []*pb.Transform{{
		Op: "python", In: []string{"label"}, Outs: []*pb.Result{{Name: "chunk", Type: &pb.Type{Kind: pb.Kind_INT32}}},
		Python: &pb.Function{Name: "chunk", Kind: pb.FunctionKind_FLAT_MAP, Most: 4},
	}}
	return s
}

// TestCountsOfFunctions has a worker count the rows that a function makes, whose code it lacks at first.
func TestCountsOfFunctions(t *testing.T) {
	m := startCode(t, etcd(t, "").Endpoints())
	f := newFunctions("chunks", 1, code.PartBytes+100)
	f.put(t, m)
	_, err := m.Open(t.Context(), f.request("run", chunked(dataset(t, 3))))
	check(t, err)
	too := &countingWorker{says: fine, of: 5}
	startCounting(t, m, "too many", too)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	eventually(t, "a worker gets the code, and counts too many", func() bool {
		check(t, r.sync())
		too.mu.Lock()
		defer too.mu.Unlock()
		return too.sent > 0 && len(too.code) == len(f.data)
	})
	able := &countingWorker{says: fine, of: 4}
	startCounting(t, m, "able", able)
	r.untilGranted()
	got := outputs(t, r.last.GetGrants())
	if len(got) == 0 {
		t.Fatal("the tickets have no outputs")
	}
	for _, n := range got {
		if n != 4*rows {
			t.Fatalf("the tickets say %d, want %d of each window", got, 4*rows)
		}
	}
	if able.sent != 1 || too.sent != 1 || !bytes.Equal(able.code, f.data) {
		t.Errorf("workers were sent the code %d and %d times", able.sent, too.sent)
	}
}

func TestBadDataThatAreCountedFailTheSession(t *testing.T) {
	for name, code := range map[string]codes.Code{"damaged": codes.DataLoss, "changed": codes.FailedPrecondition} {
		t.Run(name, func(t *testing.T) {
			m := single(t)
			openSession(t, m, "run", filtered(dataset(t, 1)), 1)
			bad := func(tk *pb.Ticket) error {
				return status.Errorf(code, "%s row group 0 column label: damaged", tk.GetFile().GetUri())
			}
			r := newTrainer(t, m, "run", 0, 1).mustJoin("a") // one that has failed takes nobody in
			addCounting(t, m, "w1", bad)
			addCounting(t, m, "w2", bad)
			eventually(t, "the session fails", func() bool {
				check(t, r.sync())
				return r.last.GetFailure() != ""
			})
			if got := r.last.GetFailure(); !strings.Contains(got, "row group 0 column label: damaged") ||
				!r.last.GetBadData() {
				t.Errorf("failure %q", got)
			}
		})
	}
}

func TestWorkersThatGoOnRefusingToCountFailTheSession(t *testing.T) {
	m := single(t)
	openSession(t, m, "run", filtered(dataset(t, 1)), 1)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	addCounting(t, m, "w1", func(*pb.Ticket) error { return status.Error(codes.Aborted, "the op map_id panicked") })
	eventually(t, "the session fails", func() bool {
		check(t, r.sync())
		return r.last.GetFailure() != ""
	})
	if got := r.last.GetFailure(); !strings.Contains(got, "worker w1: Aborted: the op map_id panicked") ||
		r.last.GetBadData() {
		t.Errorf("failure %q, of bad data: %v", got, r.last.GetBadData())
	}
}

func TestWorkersThatRefuseToCountAtFirst(t *testing.T) {
	for says, at := range map[string]struct {
		code  codes.Code
		times int64
	}{
		"too little memory": {codes.OutOfRange, 2},
		"damaged":           {codes.DataLoss, 1}, // the only worker is believed if it says so twice
		"changed":           {codes.FailedPrecondition, 2},
	} {
		t.Run(says, func(t *testing.T) {
			m := single(t)
			var asked atomic.Int64
			addCounting(t, m, "w1", func(*pb.Ticket) error {
				if asked.Add(1) <= at.times {
					return status.Error(at.code, says)
				}
				return nil
			})
			openSession(t, m, "run", filtered(dataset(t, 1)), 1)
			newTrainer(t, m, "run", 0, 1).mustJoin("a").untilGranted()
		})
	}
}

// One worker's word is not taken for it that data cannot be read, or have changed.
func TestDamageThatOneWorkerSees(t *testing.T) {
	for says, code := range map[string]codes.Code{
		"bad memory":    codes.DataLoss,
		"a stale mount": codes.FailedPrecondition,
	} {
		t.Run(says, func(t *testing.T) {
			m := single(t)
			addCounting(t, m, "wrong", func(*pb.Ticket) error { return status.Error(code, says) })
			addCounting(t, m, "right", fine)
			openSession(t, m, "run", filtered(dataset(t, 4)), 1)
			newTrainer(t, m, "run", 0, 1).mustJoin("a").untilGranted()
		})
	}
}

// That a file has changed is why a session fails, also where another worker refuses for a reason of its own.
func TestAChangedFileThatOneWorkerSees(t *testing.T) {
	m := single(t)
	addCounting(t, m, "sees",
		func(*pb.Ticket) error { return status.Error(codes.FailedPrecondition, "the file has changed") })
	addCounting(t, m, "cannot", func(*pb.Ticket) error { return status.Error(codes.Aborted, "no credentials") })
	openSession(t, m, "run", filtered(dataset(t, 4)), 1)
	if got := failure(t, m, "run"); !strings.Contains(got, "cannot be read, as workers [sees] say") ||
		!strings.Contains(got, "the file has changed; bring the file back") {
		t.Errorf("it fails with %q", got)
	}
}

// several rows come of each, as many as someRows says.
const several = 3

// someRows is how many rows come of an extent of one window, to which an epoch is nothing.
func someRows(f *pb.File, g *pb.Extent) uint32 {
	return uint32(g.GetRows()) - 1 + (f.GetIndex()*7+g.GetIndex()*3)%5
}

// chunkedLanes is a spec of three epochs whose rows a function makes.
func chunkedLanes(dir string, rng bool) *pb.Spec {
	s := laneSpec(dir, pb.LastBatch_DROP)
	s.Epochs, s.Transforms = 3, chunked(dir).GetTransforms()
	s.Transforms[0].Python.Rng = rng
	return s
}

// TestCountsOfEarlierEpochs holds that later epochs have what was counted in the first one, unless a function draws, and
// that a master which takes over counts what it does not find in etcd.
func TestCountsOfEarlierEpochs(t *testing.T) {
	const files = 5
	endpoints := etcd(t, "").Endpoints()
	m := startCode(t, endpoints)
	dir := dataset(t, files)
	f := newFunctions("chunks", 1, 500)
	f.put(t, m)
	w := &countingWorker{of: several, says: fine}
	startCounting(t, m, "able", w)
	read := func(id string, ranks []*laneTrainer, steps int) (batches []string) {
		batches = train(t, ranks, steps)
		for _, g := range ranks[0].grants {
			for _, rg := range ranks[0].open(g).GetExtents() {
				if want := someRows(ranks[0].open(g).GetFile(), rg); len(rg.GetOutputs()) != 1 || rg.GetOutputs()[0] != want {
					t.Errorf("%s: the ticket of %v says %v, want %d", id, g.GetInterval(), rg.GetOutputs(), want)
				}
			}
		}
		return batches
	}
	for _, id := range []string{"draws", "repeats"} {
		_, err := m.Open(t.Context(), f.request(id, chunkedLanes(dir, id == "draws")))
		check(t, err)
	}
	whole := read("draws", joinAll(t, m, "draws", 1), 0x7fffffff)
	if n := w.asked["draws"]; n[0] != files*groups || n[1] != files*groups || n[2] != files*groups {
		t.Errorf("shards were counted by epoch: %v; want all in each", n)
	}
	ranks := joinAll(t, m, "repeats", 1)
	got := read("repeats", ranks, len(whole)/2) // in the second epoch
	if n := w.asked["repeats"]; n[0] != files*groups || len(n) != 1 {
		t.Errorf("shards were counted by epoch: %v; want each once", n)
	}
	m.stop()
	m = startCode(t, endpoints)
	startCounting(t, m, "able too", w)
	ranks[0].master = m
	eventually(t, "the second master leads", func() bool { return ranks[0].sync() == nil })
	if got = append(got, read("repeats", ranks, 0x7fffffff)...); !slices.Equal(got, whole) {
		t.Error("other batches come than where all is counted in each epoch")
	}
	if n := w.asked["repeats"]; n[0] != files*groups || n[1]+n[2] >= files*groups {
		t.Errorf("shards were counted by epoch: %v; want at most those once more that the second master did not find", n)
	}
}
