package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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
		before func(*fleet) // it is opened
		change func(*fleet)
		want   *failure // but for words and address
		words  string
	}{
		{
			name: "fenced", change: func(fl *fleet) { fl.master.Ranks[0].Incarnation++ },
			want:  &failure{Kind: kindMaster, Code: "Aborted", Op: "sync"},
			words: "another start of the rank has joined (Aborted)",
		},
		{
			name: "given up", change: func(fl *fleet) { fl.master.Failure = "so it is" },
			want: &failure{Kind: kindSession, Code: "Unknown"}, words: "so it is",
		},
		{
			name: "bad data", worker: refuses(codes.DataLoss),
			want: &failure{Kind: kindSession, Code: "Unknown", BadData: true}, words: "so it is",
		},
		{
			name: "refused", worker: refuses(codes.InvalidArgument),
			want:  &failure{Kind: kindRefused, Code: "InvalidArgument", Shard: "0/0/0/0+0", File: "mem://part"},
			words: "so it is",
		},
		{
			name: "stranger", before: func(fl *fleet) {
				fl.net.Serve("stranger", func(*grpc.Server) {})
				fl.master.Workers = fl.net.Workers("stranger")
			},
			want: &failure{
				Kind: kindRefused, Code: "Unimplemented", Stranger: true, Shard: "0/0/0/0+0", File: "mem://part",
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
			if c.before != nil {
				fl.master.Change(func() { c.before(fl) })
			}
			p.open(fl.join(t, 0, 1))
			if c.change != nil {
				fl.master.Change(func() { c.change(fl) })
			}
			e := p.next().Error
			if again := p.next().Error; !reflect.DeepEqual(again, e) {
				t.Errorf("asked again, it says %v", again)
			}
			if !strings.Contains(e.Words, c.words) {
				t.Errorf("%v does not say %q", e, c.words)
			}
			if refused := e.Kind == kindRefused; refused && e.Address != fl.master.Workers[0].GetAddress() {
				t.Errorf("%v names another address than %v", e, fl.master.Workers)
			}
			e.Words, e.Address = "", ""
			if !reflect.DeepEqual(e, c.want) {
				t.Errorf("the session ends with %v; expected %v", e, c.want)
			}
		})
	}
}

func TestMasterThatIsWaitedFor(t *testing.T) {
	m := &fake.Master{
		Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 4096}, LeaseMs: 400,
		Intercept: func(r proto.Message) error {
			if r, ok := r.(*pb.SyncRequest); ok && !r.GetLeave() {
				return status.Error(codes.Unavailable, "not today")
			}
			return nil
		},
	}
	fl := newFleet(t, m, &fake.Worker{})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	w := untilWaiting(t, p, func(w *waiting) bool { return w.Master != "" && w.Lapsed })
	if !strings.Contains(w.Master, "not today") || len(w.Workers) > 0 {
		t.Errorf("without a master: %v", w)
	}
}

func TestWorkersThatAreWaitedFor(t *testing.T) {
	fl := newFleet(t, &fake.Master{Data: fake.NewDataset(3, 1, 12), Spec: &pb.Spec{BatchSize: 4096}}, &fake.Worker{
		Fault: func(context.Context, *fake.Record) error { return status.Error(codes.Unavailable, "not today") },
	})
	p := start(t, memory()).connect(t)
	p.open(fl.join(t, 0, 1))
	w := untilWaiting(t, p, func(w *waiting) bool { return len(w.Workers) > 0 && w.Workers[0].Error != "" })
	if a := w.Workers[0]; len(w.Workers) != 1 || a.Name != "w1" || !strings.Contains(a.Error, "not today") ||
		w.Master != "" ||
		w.Lapsed || w.Idle <= 0 {
		t.Errorf("without a worker: %v", w)
	}
	await(t, "the event", func() bool {
		p.ask(nextOf(0))
		for _, e := range p.events {
			if e.Name == "no_worker" {
				return e.Level == int(slog.LevelWarn) && strings.Contains(fmt.Sprint(e.About["cause"]), "not today")
			}
		}
		return false
	})
}

// untilWaiting asks until a session waits as it should.
func untilWaiting(t *testing.T, p *program, as func(*waiting) bool) (w *waiting) {
	t.Helper()
	await(t, "the session to wait", func() bool {
		w = p.ask(nextOf(0.001)).Waiting
		return as(w)
	})
	return w
}

// TestEvents has values of each kind, and no more of them than are kept.
func TestEvents(t *testing.T) {
	e := &events{}
	log := slog.New(e).With("session", "it is known")
	log.Debug("in detail")
	log.Warn("words", "event", "name", "n", 3, "u", uint64(4), "f", 0.5, "i", math.Inf(1), "d", 1500*time.Millisecond,
		"b", true, "s", "text", "e", errors.New("cause"))
	want := event{Name: "name", Message: "words", Level: 4, About: map[string]any{
		"n": int64(3), "u": uint64(4), "f": 0.5, "i": "+Inf", "d": 1.5, "b": true, "s": "text", "e": "cause",
	}}
	if got := e.take(); len(got) != 2 || got[0].Message != "in detail" || got[0].Level != -4 ||
		!reflect.DeepEqual(got[1], want) {
		t.Errorf("the events %v; expected %v", got, want)
	}
	for range maxEvents + 3 {
		log.Info("again")
	}
	got := e.take()
	if n := len(got) - 1; n != maxEvents || got[n].Name != "events_lost" || got[n].About["events"] != int64(3) {
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
	for _, m := range []any{
		e.take()[0], failed(err), waitingFor(client.Waiting{Master: err, Workers: []client.Asked{{Err: err}}}),
	} {
		if data, err := framed(m); err != nil || !utf8.Valid(data[prefix:]) {
			t.Errorf("%q, %v", data, err)
		}
	}
}

// Figures that there are none of are left out: programs have empty ones then, and no null.
func TestNoFigures(t *testing.T) {
	text, err := json.Marshal(figures{})
	if err != nil || bytes.Contains(text, []byte("null")) {
		t.Errorf("%s, %v", text, err)
	}
}
