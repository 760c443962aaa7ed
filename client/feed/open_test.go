package feed

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
)

// small is a fleet whose batches have 32 rows.
func small(t *testing.T, spec *pb.Spec) *fleet {
	t.Helper()
	spec.BatchSize = 32
	return newFleet(t, &fake.Master{Data: fake.NewDataset(3, 2, 12), Spec: spec}, &fake.Worker{})
}

// TestOpenTells what the program is to know of the session.
func TestOpenTells(t *testing.T) {
	fl := small(t, &pb.Spec{
		Dataset: &pb.Dataset{Uri: []string{"s3://b/" + strings.Repeat("long", 30)}}, Seed: 7, Epochs: 2,
		LastBatch: pb.LastBatch_DROP, Filter: "a > 1",
	})
	reply := start(t, memory()).connect(t).open(fl.join(t, 0, 1))
	o := reply.Opened
	if o == nil || o.BatchSize != 32 || o.WorldSize != 1 || o.Epochs != 2 || !o.Drops || o.Begun ||
		o.RestoredFrom != nil {
		t.Fatalf("opened: %+v", o)
	}
	if uri, _ := o.Spec["uri"].(string); o.Spec["seed"] != 7.0 || o.Spec["filter"] != "a > 1" ||
		!strings.HasPrefix(uri, "s3://b/long") || len(uri) > 60 {
		t.Errorf("the spec's fingerprint is %v", o.Spec)
	}
	if len(reply.Events) != 1 || reply.Events[0].Name != "joined" || reply.Events[0].About["kind"] != "fresh" {
		t.Errorf("the events %v", reply.Events)
	}
}

// TestOpenRestores the states that a rank brings.
func TestOpenRestores(t *testing.T) {
	fl := small(t, &pb.Spec{Epochs: 2})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	read := slices.Clone(p.ids(p.next().Batch))
	given := p.ask(stateOf(1)).States[0]
	if given.Epoch != 0 || given.Rows != 32 || given.WorldSize != 1 || given.Session != "run-1/train" {
		t.Errorf("the state %+v", given)
	}
	p.ask(closing())

	again := small(t, &pb.Spec{Epochs: 2})
	q := start(t, memory()).connect(t)
	o := again.join(t, 0, 1)
	o.Restore = [][]byte{given.State}
	if reply := q.open(o); reply.Opened == nil || !reply.Opened.Begun {
		t.Fatalf("restored: %+v, %+v", reply.Opened, reply.Error)
	}
	exactlyOnce(t, again.master.Data, append(q.drain(), read...))
}

// TestLeaves an epoch, once: what comes next is the whole next one.
func TestLeaves(t *testing.T) {
	fl := small(t, &pb.Spec{Epochs: 2})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	read := p.next()
	for number := range uint64(2) {
		reply := p.ask(&request{Leave: &leaveRequest{Epoch: 0}})
		if end := reply.EpochEnd; end == nil || end.Epoch != 1 || end.Number != 2+number || reply.Next {
			t.Errorf("leaving epoch 0 is answered by %+v", reply)
		}
	}
	if st := p.ask(stateOf(3)).States[0]; st.Epoch != 1 || st.Rows != 32 {
		t.Errorf("after it the state is %+v", st)
	}
	p.next(read.Batch.Number)
	if got, want := len(p.drain()), len(fl.master.Data.IDs(fl.master.Data.All()))/2; got+32 != want {
		t.Errorf("%d rows of epoch 1 came, and one batch before; it has %d", got, want)
	}
}

// TestOpenIsRefused with what the program's exceptions are made of.
func TestOpenIsRefused(t *testing.T) {
	says := func(op string, code codes.Code) func(*fleet, *openRequest) {
		return func(fl *fleet, _ *openRequest) {
			fl.master.Intercept = func(r proto.Message) error {
				if _, joins := r.(*pb.JoinRequest); joins == (op == "join") {
					return status.Error(code, "so it is")
				}
				return nil
			}
		}
	}
	state, err := proto.Marshal(&pb.State{Version: 1, Session: "run-1/train", WorldSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*fleet, *openRequest)
		want   failure // but for words
		words  string
	}{
		"spec": {
			says("open", codes.InvalidArgument),
			failure{Kind: kindMaster, Op: "open", Code: "InvalidArgument"},
			"so it is",
		},
		"mismatch": {
			says("open", codes.AlreadyExists), failure{Kind: kindMaster, Op: "open", Code: "AlreadyExists"}, "so it is",
		},
		"silent": {func(fl *fleet, o *openRequest) {
			says("open", codes.Unavailable)(fl, o)
			o.ConnectTimeout = 0.01
		}, failure{Kind: kindMaster, Op: "open", Code: "Unavailable"}, "so it is"},
		"join": {
			says("join", codes.FailedPrecondition),
			failure{Kind: kindMaster, Op: "join", Code: "FailedPrecondition"},
			"so it is",
		},
		"no ranks": {func(_ *fleet, o *openRequest) {
			o.WorldSize, o.Restore, o.RestoreTimeout = 2, [][]byte{state}, 0.01
		}, failure{Kind: kindMissing, Code: "Unknown"}, "ranks [1]"},
		"no state": {
			func(_ *fleet, o *openRequest) { o.Restore = [][]byte{{0xff}} },
			failure{Kind: kindUsage, Code: "InvalidArgument"},
			"state 1 of 1",
		},
		"no compression": {
			func(_ *fleet, o *openRequest) { o.Compression = "x" },
			failure{Kind: kindUsage, Code: "InvalidArgument"},
			"lz4",
		},
		"no spec": {
			func(_ *fleet, o *openRequest) { o.Spec = json.RawMessage(`{"x":1}`) },
			failure{Kind: kindUsage, Code: "InvalidArgument"},
			"the spec",
		},
		"no rank": {func(_ *fleet, o *openRequest) { o.Rank = 9 }, failure{Code: "Unknown"}, "Rank 9"},
		"no token file": {
			func(_ *fleet, o *openRequest) { o.Security.TokenFile = "/missing" },
			failure{Kind: kindUsage, Code: "InvalidArgument"},
			"/missing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fl := small(t, &pb.Spec{})
			o := fl.join(t, 0, 1)
			fl.master.Change(func() { c.change(fl, o) })
			got := start(t, memory()).connect(t).open(o).Error
			if got == nil || !strings.Contains(got.Words, c.words) {
				t.Fatalf("%+v does not say %q", got, c.words)
			}
			got.Words = ""
			if got.Kind != c.want.Kind || got.Op != c.want.Op || got.Code != c.want.Code || got.NoHandshake {
				t.Errorf("%+v; expected %+v", got, c.want)
			}
		})
	}
}

// TestPortsOfOthers in a master's place are named, with what to do.
func TestPortsOfOthers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	defer group.Wait()
	defer l.Close()
	group.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_ = conn.Close() // as gossip does
		}
	})
	worker, err := rpc.NewServer(rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for address, words := range map[string]string{
		rpctest.Serve(t, worker): "no master's port, but a worker's",
		"127.0.0.1:1":            "nothing listens there: start a master",
		l.Addr().String():        "as gossip's does: name a master's --listen address",
	} {
		fl := small(t, &pb.Spec{})
		o := fl.join(t, 0, 1)
		o.Masters, o.ConnectTimeout = []string{address}, 0.01
		got := start(t, memory()).connect(t).open(o).Error
		if got == nil || got.Code != "Unavailable" || !strings.Contains(got.Words, words) {
			t.Errorf("%+v, want %q", got, words)
		}
	}
}

// TestAnOpeningThatNobodyWaitsForEnds, and the program that waits hears that it goes on.
func TestAnOpeningThatNobodyWaitsForEnds(t *testing.T) {
	fl := small(t, &pb.Spec{})
	fl.master.Change(func() {
		fl.master.Intercept = func(proto.Message) error { return status.Error(codes.Unavailable, "not today") }
	})
	ours, theirs := pair(t)
	pool := memory()
	defer pool.close()
	ended := make(chan error, 1)
	go func() { ended <- newFeeder(theirs, nil, pool).run(t.Context()) }()
	p := &program{t: t, conn: ours}
	p.send(&request{ID: 5, Open: fl.join(t, 0, 1)})
	one, err := p.one()
	if err != nil || !one.Opening || one.ID != 5 {
		t.Fatalf("while it is opened: %+v, %v", one, err)
	}
	if len(one.Events) == 0 || !strings.Contains(one.Events[0].Message, "no master answers") {
		t.Errorf("the events %v", one.Events)
	}
	_ = p.conn.Close()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("it is opened on")
	}
}

// TestRows are told once all is planned.
func TestRows(t *testing.T) {
	fl := small(t, &pb.Spec{})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	if got := p.ask(&request{ID: 3, Rows: &rowsRequest{Wait: 10}}); got.Rows == nil || got.ID != 3 {
		t.Errorf("rows: %+v", got)
	}
}

// TestStatesAreBase64, as docs/internals/feed.md says.
func TestStatesAreBase64(t *testing.T) {
	data, err := framed(state{State: []byte{1, 2}})
	if want := base64.StdEncoding.EncodeToString([]byte{1, 2}); err != nil ||
		!strings.Contains(string(data), `"state":"`+want+`"`) {
		t.Errorf("%s, %v", data, err)
	}
}

// TestOpenHasCode holds that the largest code comes with a request, and is the session's.
func TestOpenHasCode(t *testing.T) {
	identity := &pb.Code{Digest: make([]byte, 32), Python: "3.12"}
	fl := small(t, &pb.Spec{Epochs: 2, Code: identity})
	o := fl.join(t, 0, 1)
	text, err := protojson.Marshal(&pb.Spec{BatchSize: 32, Code: identity})
	if err != nil {
		t.Fatal(err)
	}
	o.Spec, o.Code, o.AcceptCodeChange = text, make([]byte, code.MaxBytes), true
	accepted := make(chan bool, 1)
	fl.master.Intercept = func(req proto.Message) error {
		if join, ok := req.(*pb.JoinRequest); ok {
			accepted <- join.GetAcceptCodeChange()
		}
		return nil
	}
	p := start(t, memory()).connect(t)
	if reply := p.open(o); reply.Opened == nil {
		t.Fatalf("%+v", reply.Error)
	}
	if !<-accepted || fl.master.Code.GetSize() != code.MaxBytes || fl.master.Codes.Parts() != 16 {
		t.Errorf("the session's code has %d bytes, in %d parts", fl.master.Code.GetSize(), fl.master.Codes.Parts())
	}
	exactlyOnce(t, fl.master.Data, p.drain())
}

// TestAnErrorHasItsLines holds that a traceback comes to the program as the worker wrote it.
func TestAnErrorHasItsLines(t *testing.T) {
	const words = "python tokenize (transforms[1]): ValueError: bad\n  File \"train.py\", line 7, in tokenize\n    raise"
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 32}}, &fake.Worker{
		Fault: func(context.Context, *fake.Record) error { return status.Error(codes.DataLoss, words) },
	})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	if reply := p.next(); reply.Error == nil || !strings.Contains(reply.Error.Words, words) {
		t.Errorf("%+v", reply.Error)
	}
}
