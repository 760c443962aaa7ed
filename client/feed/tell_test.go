package feed

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// TestWhyASessionEnds is told with what the program's exceptions are made of.
func TestWhyASessionEnds(t *testing.T) {
	refuses := func(code codes.Code) *fake.Worker {
		return &fake.Worker{Fault: func(context.Context, *fake.Record) error { return status.Error(code, "so it is") }}
	}
	for _, c := range []struct {
		name   string
		worker *fake.Worker
		change func(*fleet)
		want   *pb.FeedError // but for words and address
		words  string
	}{
		{
			name: "fenced", change: func(fl *fleet) { fl.master.Ranks[0].Incarnation++ },
			want: &pb.FeedError{Kind: pb.FeedError_MASTER, Code: uint32(codes.Aborted)}, words: "another start of the rank has joined (Aborted)",
		},
		{
			name: "given up", change: func(fl *fleet) { fl.master.Failure = "so it is" },
			want: &pb.FeedError{Kind: pb.FeedError_SESSION, Code: uint32(codes.Unknown)}, words: "so it is",
		},
		{
			name: "bad data", worker: refuses(codes.DataLoss),
			want: &pb.FeedError{Kind: pb.FeedError_SESSION, Code: uint32(codes.Unknown), BadData: true}, words: "so it is",
		},
		{
			name: "refused", worker: refuses(codes.InvalidArgument),
			want:  &pb.FeedError{Kind: pb.FeedError_REFUSED, Code: uint32(codes.InvalidArgument), Shard: "0/0/0/0+0", File: "mem://part"},
			words: "so it is",
		},
		{
			name: "stranger", change: func(fl *fleet) {
				fl.net.Serve("stranger", func(*grpc.Server) {})
				fl.master.Workers = fl.net.Workers("stranger")
			},
			want: &pb.FeedError{
				Kind: pb.FeedError_REFUSED, Code: uint32(codes.Unimplemented), Stranger: true, Shard: "0/0/0/0+0", File: "mem://part",
			},
			words: "unknown service",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.worker == nil {
				c.worker = &fake.Worker{}
			}
			fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 4096}}, c.worker)
			p := start(t, memory()).connect(t)
			o := fl.join(t, 0, 1)
			if c.change != nil {
				fl.master.Change(func() { c.change(fl) })
			}
			p.open(o)
			e := p.next().GetError()
			if again := p.next().GetError(); !proto.Equal(again, e) {
				t.Errorf("asked again, it says %v", again)
			}
			if !strings.Contains(e.GetWords(), c.words) {
				t.Errorf("%v does not say %q", e, c.words)
			}
			if refused := e.GetKind() == pb.FeedError_REFUSED; refused && e.GetAddress() != fl.master.Workers[0].GetAddress() {
				t.Errorf("%v names another address than %v", e, fl.master.Workers)
			}
			e.Words, e.Address = "", ""
			if !proto.Equal(e, c.want) {
				t.Errorf("the session ends with %v; expected %v", e, c.want)
			}
		})
	}
}

func TestMasterThatIsWaitedFor(t *testing.T) {
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 4096}, Intercept: func(r proto.Message) error {
		if r, ok := r.(*pb.SyncRequest); ok && !r.GetLeave() {
			return status.Error(codes.Unavailable, "not today")
		}
		return nil
	}}, &fake.Worker{})
	p := start(t, memory()).connect(t)
	o := fl.join(t, 0, 1)
	o.LeaseNs = -1
	p.open(o)
	w := untilWaiting(t, p, func(w *pb.FeedWaiting) bool { return w.GetMaster() != "" })
	if !strings.Contains(w.GetMaster(), "not today") || !w.GetLapsed() || len(w.GetWorkers()) > 0 {
		t.Errorf("without a master: %v", w)
	}
}

func TestWorkersThatAreWaitedFor(t *testing.T) {
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 4096}}, &fake.Worker{
		Fault: func(context.Context, *fake.Record) error { return status.Error(codes.Unavailable, "not today") },
	})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	w := untilWaiting(t, p, func(w *pb.FeedWaiting) bool { return len(w.GetWorkers()) > 0 && w.GetWorkers()[0].GetError() != "" })
	if a := w.GetWorkers()[0]; len(w.GetWorkers()) != 1 || a.GetName() != "w1" || !strings.Contains(a.GetError(), "not today") || w.GetMaster() != "" ||
		w.GetLapsed() || w.GetIdleNs() <= 0 {
		t.Errorf("without a worker: %v", w)
	}
	await(t, "the event", func() bool {
		p.ask(nextOf(0))
		for _, e := range p.events {
			if e.GetName() == "no_worker" {
				return e.GetLevel() == int32(slog.LevelWarn) && strings.Contains(e.GetAbout()["cause"].GetText(), "not today")
			}
		}
		return false
	})
}

// untilWaiting asks until a session waits as it should.
func untilWaiting(t *testing.T, p *program, as func(*pb.FeedWaiting) bool) (w *pb.FeedWaiting) {
	t.Helper()
	await(t, "the session to wait", func() bool {
		w = p.ask(nextOf(int64(time.Millisecond))).GetWaiting()
		return as(w)
	})
	return w
}

// TestEvents has values of each kind, and no more of them than are kept.
func TestEvents(t *testing.T) {
	e := &events{}
	log := slog.New(e).With("session", "it is known")
	log.Debug("in detail")
	log.Warn("words", "event", "name", "n", 3, "u", uint64(4), "f", 0.5, "d", 1500*time.Millisecond, "b", true, "s", "text", "e", errors.New("cause"))
	want := &pb.FeedEvent{Name: "name", Message: "words", Level: 4, About: map[string]*pb.FeedValue{
		"n": {Is: &pb.FeedValue_Integer{Integer: 3}}, "u": {Is: &pb.FeedValue_Integer{Integer: 4}},
		"f": {Is: &pb.FeedValue_Number{Number: 0.5}}, "d": {Is: &pb.FeedValue_Number{Number: 1.5}},
		"b": {Is: &pb.FeedValue_Truth{Truth: true}}, "s": {Is: &pb.FeedValue_Text{Text: "text"}}, "e": {Is: &pb.FeedValue_Text{Text: "cause"}},
	}}
	if got := e.take(); len(got) != 2 || !proto.Equal(got[0], &pb.FeedEvent{Message: "in detail", Level: -4}) || !proto.Equal(got[1], want) {
		t.Errorf("the events %v; expected %v", got, want)
	}
	for range mostEvents + 3 {
		log.Info("again")
	}
	got := e.take()
	if n := len(got) - 1; n != mostEvents || got[n].GetName() != "events_lost" || got[n].GetAbout()["events"].GetInteger() != 3 {
		t.Errorf("%d events are kept, and last comes %v", n, got[n])
	}
	if n := len(e.take()); n != 0 {
		t.Errorf("%d events are told again", n)
	}
}

// TestWordsOfAnyBytes can be told.
func TestWordsOfAnyBytes(t *testing.T) {
	const words = "file a\xffb"
	err := errors.New(words)
	e := &events{}
	slog.New(e).Warn(words, "cause", err, "file", words)
	for _, m := range []proto.Message{
		e.take()[0], failed(err), waiting(client.Waiting{Master: err, Workers: []client.Asked{{Err: err}}}),
	} {
		if _, err := proto.Marshal(m); err != nil {
			t.Error(err)
		}
	}
}
