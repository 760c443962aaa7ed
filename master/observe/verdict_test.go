package observe

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		workers int
		change  func(*job)
		want    pb.Bottleneck
		stage   string
		says    string
	}{
		"a slow trainer": {1, func(j *job) {
			j.trainers[0].stall, j.trainers[1].stall = 0, second/100
			j.second.blocked = j.second.open * 9 / 10
		}, pb.Bottleneck_TRAINER, "", "training loop is the bottleneck"},
		"no workers": {0, func(*job) {}, pb.Bottleneck_WORKERS, "", "there are no workers"},
		"slow storage": {1, func(j *job) {
			j.second.storage, j.second.cpu = 5*second/2, second/2
		}, pb.Bottleneck_STORAGE, "storage", "wait for it 83% of the time"},
		"a slow network": {1, func(j *job) {
			j.second.blocked, j.second.cpu = 2*second, second/2
		}, pb.Bottleneck_NETWORK, "", "wait 67% of the time to send"},
		"a client that cannot keep up": {1, func(j *job) {
			j.second.blocked, j.second.cpu = 2*second, second/2
			j.trainers[0].buffered, j.trainers[1].buffered = 5, 3
		}, pb.Bottleneck_CLIENT, "", "rows of 4 batches"},
		"a client that does the work of next": {1, func(j *job) {
			j.trainers[0].client, j.trainers[1].client = second, second
		}, pb.Bottleneck_CLIENT, "", "making batches took 100% of the time"},
		"few streams": {1, func(j *job) {
			j.second.open, j.second.cpu = second, second/2
			j.second.transform, j.second.ops = 0, nil
		}, pb.Bottleneck_STREAMS, "decode", "1.0 are open on 4 slots"},
		"nothing left": {1, func(j *job) { j.second = counts{} }, pb.Bottleneck_STREAMS, "", "no stream is open"},
		"decoding": {
			1, func(j *job) { j.second.decode = 2 * second }, pb.Bottleneck_WORKERS, "decode",
			"with decode 6",
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := hungry()
			c.change(j)
			w := newWorld(c.workers, j).pass(30)
			s := w.session(t, "run")
			if s.Bottleneck != c.want || s.Stage != c.stage || !strings.Contains(s.Verdict, c.says) {
				t.Errorf("%+v, want %v %q %q", s.Cause, c.want, c.stage, c.says)
			}
			if f, _ := w.Fleet(); f.Bottleneck != c.want || !strings.Contains(f.Verdict, c.says) {
				t.Errorf("of the fleet: %+v", f.Cause)
			}
			if why := w.Cause("", "run"); why.GetBottleneck() != c.want ||
				!strings.Contains(s.Verdict, why.GetWords()) {
				t.Errorf("for trainers: %v", why)
			}
		})
	}
}

// What is not read holds nobody up, and says why it is not read.
func TestSessionsThatAreNotRead(t *testing.T) {
	for state, want := range map[pb.SessionState]string{
		pb.SessionState_WAITING:   "it waits for its 2 trainers: none has joined for 40 min",
		pb.SessionState_IDLE:      "its trainers ask for nothing: none has taken rows, or waited for some, for 40 min",
		pb.SessionState_ABANDONED: "it has no trainer any more: the last one left, or was given up, 40 min ago",
	} {
		j := hungry()
		w := newWorld(1, j).pass(30)
		j.State, j.Since = state, w.now.Add(time.Second-40*time.Minute)
		s := w.pass(1).session(t, "run")
		if s.Bottleneck != pb.Bottleneck_NONE || s.Verdict != want || w.Cause("", "run") != nil || s.State != state {
			t.Errorf("%v: %+v", state, s.Cause)
		}
		if s.Demand != 0 || s.Needed != 0 {
			t.Errorf("%v: nobody reads it, and it wants %g rows/s, and %g workers", state, s.Demand, s.Needed)
		}
		if trains := s.Trainers > 0; trains != (state == pb.SessionState_IDLE) {
			t.Errorf("%v: it has %d trainers", state, s.Trainers)
		}
		if f, _ := w.Fleet(); f.Bottleneck != pb.Bottleneck_NONE || !strings.HasPrefix(f.Verdict, "session run is ") ||
			!strings.HasSuffix(f.Verdict, want) {
			t.Errorf("%v: of the fleet: %+v", state, f.Cause)
		}
		read := hungry()
		read.ID = "read"
		w.jobs = append(w.jobs, read)
		f, _ := w.pass(30).Fleet()
		if f.Cause != w.session(t, "read").Cause || f.Bottleneck != pb.Bottleneck_WORKERS {
			t.Errorf("%v: of the fleet, beside one that is read: %+v", state, f.Cause)
		}
		if sum, read := f.sum(), w.session(t, "read"); !near(sum.Stall, 0.375) || sum.Demand != read.Demand ||
			sum.Needed != read.Needed || sum.Demand == 0 {
			t.Errorf("%v: stall %g of those that read, which want %g rows/s and %g workers",
				state, sum.Stall, sum.Demand, sum.Needed)
		}
		read.State, read.Since = state, w.now
		if f, _ = w.pass(1).Fleet(); f.Verdict != "no session is read: 2 "+strings.ToLower(state.String()) {
			t.Errorf("%v: of two: %+v", state, f.Cause)
		}
	}
}

// What the master cannot plan is no lack of streams.
func TestWhatCannotBePlanned(t *testing.T) {
	j := hungry()
	j.second = counts{}
	w := newWorld(1, j).pass(30)
	if s := w.session(t, "run"); s.Bottleneck != pb.Bottleneck_STREAMS {
		t.Fatalf("that can be planned: %+v", s.Cause)
	}
	j.Unplanned = "list s3://b/: connection refused"
	const want = "trainers waited 38% of the time; the master cannot plan what comes next, and tries on: list " +
		"s3://b/: connection refused"
	if s := w.pass(1).session(t, "run"); s.Bottleneck != pb.Bottleneck_STORAGE || s.Verdict != want ||
		w.Cause("", "run").GetBottleneck() != s.Bottleneck {
		t.Errorf("%+v", s.Cause)
	}
	j.trainers[0].stall, j.trainers[1].stall = 0, 0 // enough is planned
	if s := w.pass(20).session(t, "run"); s.Bottleneck == pb.Bottleneck_STORAGE {
		t.Errorf("nobody waits: %+v", s.Cause)
	}
}

// A session whose streams find no slot, for those of loaders that are not read have them, is told so, whatever its few
// streams do.
func TestSlotsThatIdleSessionsHold(t *testing.T) {
	reads, idle := hungry(), hungry()
	reads.second = counts{rows: 5000, open: second / 5, blocked: second * 4 / 25, cpu: second / 10, decode: second / 50}
	idle.ID, idle.trainers = "idle", []*reader{{}}
	idle.second = counts{open: 37 * second / 10, blocked: 37 * second / 10}
	const want = "slots are the bottleneck: streams of other sessions, whose trainers take nothing from them, have " +
		"3.7 of 4 slots; give workers more --slots"
	s := newWorld(1, reads, idle).pass(30).session(t, "run")
	if s.Bottleneck != pb.Bottleneck_STREAMS || s.Stage != slots || !strings.Contains(s.Verdict, want) {
		t.Errorf("%+v", s.Cause)
	}
	idle.second.blocked = 0 // it is read, too
	if s := newWorld(1, reads, idle).pass(30).session(t, "run"); s.Stage == slots {
		t.Errorf("beside one that is read: %+v", s.Cause)
	}
}

// What is shown follows what lasts, not what comes and goes; that there are no workers shows at once.
func TestVerdictsAreSteady(t *testing.T) {
	j := hungry()
	w := newWorld(1, j).pass(60)
	shown, changes := w.session(t, "run").Bottleneck, 0
	for i := range 10 {
		j.trainers[0].stall, j.trainers[1].stall = second/2, second/4
		j.trainers[0].step = 100 * time.Millisecond
		if i%2 == 0 { // for a window
			j.trainers[0].stall, j.trainers[1].stall = 0, 0
			j.trainers[0].step = 200 * time.Millisecond
		}
		for range 10 {
			s := w.pass(1).session(t, "run")
			if s.Bottleneck != shown {
				shown, changes = s.Bottleneck, changes+1
			}
			if !strings.Contains(s.Verdict, map[pb.Bottleneck]string{
				pb.Bottleneck_WORKERS: "workers are",
				pb.Bottleneck_TRAINER: "the training loop is",
			}[s.Bottleneck]) {
				t.Errorf("%+v contradicts itself", s.Cause)
			}
		}
	}
	if changes > 2 {
		t.Errorf("the verdict changed %d times", changes)
	}
	j.trainers[0].stall, j.trainers[1].stall = 0, 0
	if s := w.pass(60).session(t, "run"); s.Bottleneck != pb.Bottleneck_TRAINER {
		t.Errorf("a minute after the trainers have stopped to wait: %+v", s.Cause)
	}
	j.trainers[0].stall, j.trainers[1].stall = second/2, second/2
	w.workers = nil
	if s := w.pass(12).session(t, "run"); !strings.Contains(s.Verdict, "there are no workers") {
		t.Errorf("seconds after the last worker went: %+v", s.Cause)
	}
}

// Needed is the middle of a minute: a slow or a quick step does not show.
func TestNeededIsSteady(t *testing.T) {
	j := hungry()
	w := newWorld(1, j).pass(60)
	for i := range 60 {
		j.trainers[0].step = 100 * time.Millisecond
		if i%6 == 0 {
			j.trainers[0].step = 20 * time.Millisecond
		}
		if s := w.pass(1).session(t, "run"); math.Abs(s.Needed-5) > 0.1 {
			t.Fatalf("after %d s: %.1f workers, want 5", i, s.Needed)
		}
	}
}

// Workers that have time to spare for all that a session needs are not what holds it up.
func TestNeededAndVerdictsAgree(t *testing.T) {
	found := map[pb.Bottleneck]int{}
	for step := 100 * time.Millisecond; step < time.Second; step += 50 * time.Millisecond {
		j := hungry()
		j.trainers[0].step, j.trainers[1].step = step, step
		j.second.cpu = second
		s := newWorld(1, j).pass(30).session(t, "run")
		if found[s.Bottleneck]++; s.Bottleneck == pb.Bottleneck_WORKERS && s.Needed <= s.Granted {
			t.Errorf("%+v", s.Cause)
		}
	}
	if found[pb.Bottleneck_WORKERS] == 0 || found[pb.Bottleneck_STREAMS] == 0 {
		t.Errorf("found %v", found)
	}
}
