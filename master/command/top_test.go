package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

// aFleet has so many workers and sessions, each busier than the one before.
func aFleet(workers, sessions int) *pb.Observation {
	out := &pb.Observation{
		Verdict: "too few workers",
		Points: []*pb.FleetPoint{{Rate: 9}, {
			Rate: 1234567, Demand: 2e6, Stall: 0.0421, Needed: 7.25, Busy: 0.97,
			BytesRead: 3 << 30,
		}},
	}
	for i := range sessions {
		out.Sessions = append(out.Sessions, &pb.SessionLoad{
			Session: fmt.Sprintf("run-%d", i), WorldSize: 4, State: pb.SessionState_RUNNING,
			Rate: float64(1000 * (i + 1)), Stall: 0.5 / float64(i+1), Granted: 2, Cost: 40e-6,
			Bottleneck: pb.Bottleneck_WORKERS, Stage: "decode", BytesSent: 8e6, BytesLinked: 6e6,
			Verdict: "its trainers wait for workers", Progress: &pb.Progress{Ranks: []*pb.RankProgress{
				{Present: true},
				{Rank: 1},
			}}, Trainers: []*pb.TrainerLoad{{Present: true, StepNs: 41e6}, {Rank: 1}},
			Stages: []*pb.StageTime{{Stage: "decode", Seconds: 3}, {Stage: "storage", Seconds: 1}},
		})
	}
	for i := range workers {
		out.Workers = append(out.Workers, &pb.WorkerLoad{
			Name: fmt.Sprintf("worker-%d", i), Busy: float64(i%10) / 10,
			Slots: 8, Draining: i == 1, Sessions: []string{"run-0"},
		})
	}
	return out
}

func TestPrintTop(t *testing.T) {
	for _, c := range []struct {
		workers, sessions, height, lines int
		want                             []string
	}{
		{3, 2, 0, 11, []string{
			"too few workers",
			"1.2 M rows/s delivered, 2 M rows/s demanded; stall 4.2%; 2 workers, 7.2 needed, busy 97%; storage 3.0 GiB/s", "too few workers: decode", "drains", "1 of 4",
		}},
		{1000, 40, 0, 1046, []string{"worker-999"}},
		{1000, 40, 24, 24, []string{"and 989 more", "and 35 more"}},
		{1, 40, 24, 24, []string{"worker-0", "and 25 more"}},
		{0, 0, 24, 5, []string{"no session is open", "no worker reports"}},
		{50, 50, 3, 12, nil},
	} {
		var out bytes.Buffer
		if err := printTop(&out, aFleet(c.workers, c.sessions), "", "rate", c.height); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n != c.lines && (c.height == 0 || n > max(12, c.height)) {
			t.Errorf("%d workers, %d sessions: %d lines, want %d:\n%s", c.workers, c.sessions, n, c.lines, out.String())
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%d workers, %d sessions: no %q in\n%s", c.workers, c.sessions, want, out.String())
			}
		}
	}
}

func TestWeightsBelowOne(t *testing.T) {
	for weight, want := range map[float64]string{0: "weight 1,", 0.5: "weight 0.5,", 3: "weight 3,"} {
		var out bytes.Buffer
		if err := printLoad(&out, &pb.SessionLoad{Share: &pb.Share{Weight: weight, MinWorkers: 1}}); err != nil ||
			!strings.Contains(out.String(), want) {
			t.Errorf("%v, no %q in\n%s", err, want, out.String())
		}
	}
}

func TestTopSorts(t *testing.T) {
	for order, want := range map[string][2]string{
		"rate": {"run-2", "worker-0"}, "stall": {"run-0", "worker-0"},
		"busy": {"run-0", "worker-2"}, "name": {"run-0", "worker-0"},
	} {
		var out bytes.Buffer
		if err := printTop(&out, aFleet(3, 3), "", order, 0); err != nil {
			t.Fatal(err)
		}
		_, sessions, _ := strings.Cut(out.String(), "HELD UP BY\n")
		_, workers, _ := strings.Cut(out.String(), "ADDRESS\n")
		if !strings.HasPrefix(sessions, want[0]) || !strings.HasPrefix(workers, want[1]) {
			t.Errorf("by %s: want %v first in\n%s", order, want, out.String())
		}
	}
}

// Sessions of one id in two namespaces are told apart.
func TestTopNamespaces(t *testing.T) {
	seen := aFleet(0, 2)
	for i, s := range seen.GetSessions() {
		s.Session, s.Namespace = "run", []string{"default", "vision"}[i]
	}
	var out bytes.Buffer
	if err := printTop(&out, seen, "", "name", 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nrun  ", "\nvision/run  "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// Storage that gives nothing is told from one that is slow.
func TestNextStepOfStorage(t *testing.T) {
	for bytes, want := range map[float64]string{
		0:       "storage gives nothing",
		5 << 20: "more workers would read no faster: workers read 5.0 MiB/s altogether",
	} {
		seen := aFleet(1, 1)
		seen.Sessions[0].Bottleneck, seen.Workers[0].BytesRead = pb.Bottleneck_STORAGE, bytes
		if got := nextStep(seen.GetSessions()[0], seen); !strings.HasPrefix(got, want) {
			t.Errorf("at %v bytes/s: %q, want %q", bytes, got, want)
		}
	}
}

func TestPrintExplanation(t *testing.T) {
	for b := range pb.Bottleneck_name {
		seen := aFleet(2, 1)
		seen.Sessions[0].Bottleneck = pb.Bottleneck(b)
		var out bytes.Buffer
		if err := printExplanation(&out, "run-0", seen); err != nil {
			t.Fatal(err)
		}
		demand := "unknown"
		if seen.GetSessions()[0].GetBottleneck() == pb.Bottleneck_NONE {
			demand = "none"
		}
		for _, want := range []string{
			"its trainers wait for workers\n\nnext: ", "demand        " + demand + "\n",
			"batches come  75% by link, 25% by gRPC\n", "40µs of a worker", "decode   75%    3.00",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%v: no %q in\n%s", pb.Bottleneck(b), want, out.String())
			}
		}
		if waits := strings.Contains(out.String(), "wait some seconds"); waits != (b == 0) {
			t.Errorf("%v:\n%s", pb.Bottleneck(b), out.String())
		}
	}
	for state, want := range map[pb.SessionState]string{
		pb.SessionState_RUNNING: "wait some seconds", pb.SessionState_FINISHED: "nothing: it is over",
		pb.SessionState_FAILED:  "mend what it says",
		pb.SessionState_WAITING: "start the job, with", pb.SessionState_IDLE: "look at the training loop",
		pb.SessionState_ABANDONED: "start the job again",
	} {
		seen := &pb.Observation{
			Sessions: []*pb.SessionLoad{{Session: "run-7", State: state, Verdict: "session run-7 is so"}},
		}
		var out bytes.Buffer
		if err := printExplanation(&out, "run-7", seen); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.HasPrefix(text, "session run-7 is so\n\nnext: ") ||
			!strings.Contains(text, want) || strings.Contains(text, "delivered") {
			t.Errorf("%v: %s", state, text)
		}
	}
}

// What has no stage is not told of with one, and streams that find no slot are told from others.
func TestNextSteps(t *testing.T) {
	for want, s := range map[string]*pb.SessionLoad{
		"start workers, with `penstock worker":                {Bottleneck: pb.Bottleneck_WORKERS},
		"most of their time in decode. `penstock master":      {Bottleneck: pb.Bottleneck_WORKERS, Stage: "decode"},
		"give workers more --slots":                           {Bottleneck: pb.Bottleneck_STREAMS, Stage: "slots"},
		"workers have time to spare, but too few streams are": {Bottleneck: pb.Bottleneck_STREAMS, Stage: "decode"},
		"1 of 2 ranks read now: start the others": {
			Bottleneck: pb.Bottleneck_STREAMS, WorldSize: 2, Trainers: []*pb.TrainerLoad{{}},
		},
		"other ranks hold the rest": {
			Bottleneck: pb.Bottleneck_STREAMS, WorldSize: 2, Trainers: []*pb.TrainerLoad{{}, {}},
		},
		"nothing: no row is left": {Bottleneck: pb.Bottleneck_STREAMS, WorldSize: 1, Trainers: []*pb.TrainerLoad{{}}},
	} {
		if got := nextStep(s, &pb.Observation{}); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A session's state is that of its line, its page and its description.
func TestStatesAreNamed(t *testing.T) {
	now := time.Unix(10_000, 0)
	for n, name := range pb.SessionState_name {
		state, want := pb.SessionState(n), strings.ToLower(name)
		if n == 0 {
			want = "no answer"
		}
		if got := standing(&pb.Session{State: state, StateSinceUnix: now.Unix() - 2400},
			now); got != want+" for 40 min" {
			t.Errorf("%q, want %q", got, want)
		}
		var list, top bytes.Buffer
		if err := errors.Join(printSessions(&list, []*pb.Session{{Id: "run-7", State: state}}),
			printTop(&top, &pb.Observation{Sessions: []*pb.SessionLoad{{Session: "run-7", State: state}}}, "", "rate",
				0)); err != nil {
			t.Fatal(err)
		}
		if row := regexp.MustCompile(`run-7 +` + want + ` +`); !row.MatchString(list.String()) ||
			!row.MatchString(top.String()) {
			t.Errorf("%s:\n%s\n%s", want, list.String(), top.String())
		}
	}
}

func TestNeeded(t *testing.T) {
	for want, got := range map[string]string{
		"7.2": needed(7.2, 1e5), "unknown": needed(0, 0),
		"<0.1": needed(0.013, 7000), "all there are": needed(9e4, 1e9),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	d := described{
		&pb.Session{Id: "run-0", State: pb.SessionState_RUNNING}, aFleet(2, 1),
		&pb.ListEventsReply{Events: []*pb.Event{{Number: 1, Words: "it was opened"}}},
	}
	var text, object bytes.Buffer
	if err := d.writeText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"session", "its trainers wait", "decode", "41ms", "gone", "it was opened"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if err := d.writeJSON(&object); err != nil {
		t.Fatal(err)
	}
	var parts map[string]map[string]any
	if err := json.Unmarshal(object.Bytes(), &parts); err != nil || parts["session"]["id"] != "run-0" ||
		parts["observation"]["verdict"] == nil || parts["events"]["events"] == nil {
		t.Errorf("%v: %s", err, object.String())
	}
}
