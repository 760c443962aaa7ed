package observe

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// The verdict names what workers cannot load for a session, as long as they say so.
func TestWorkersThatRefuseASession(t *testing.T) {
	w := newWorld(3, hungry())
	w.pass(10)
	says := func(words string) *Session {
		for _, s := range w.workers[:2] {
			r := s.report()
			r.Sessions = []*pb.SessionCounters{{Session: "run", Refusal: words}}
			w.Worker(w.now, r)
		}
		w.Tick(w.now, []Running{hungry().Running})
		s := w.session(t, "run")
		return &s
	}
	s := says("the table changed")
	if strings.Join(s.Refusal.Workers, " ") != "w0 w1" || s.Refusal.Words != "the table changed" ||
		!strings.HasSuffix(s.Verdict, "; 2 of 3 workers refuse it: the table changed") {
		t.Errorf("%+v: %s", s.Refusal, s.Verdict)
	}
	if s := says(""); len(s.Refusal.Workers) > 0 || strings.Contains(s.Verdict, "refuse") {
		t.Errorf("%+v: %s", s.Refusal, s.Verdict)
	}
}
