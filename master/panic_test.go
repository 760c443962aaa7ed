package master

import (
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/master/session"
)

// broken is a command that panics: it has no method to apply.
type broken struct{ session.Command }

// A command that panics fails its own call, and has the session loaded again; the calls beside it are to be tried
// again.
func TestACommandThatPanics(t *testing.T) {
	state, err := session.New(session.Identity{Session: "s", Epochs: 1, FirstWorldSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	r := &runner{term: &term{master: &Master{}}, state: state, logger: slog.New(slog.NewTextHandler(&log, nil))}
	replies := []chan answer{make(chan answer, 1), make(chan answer, 1)}
	err = r.answer([]call{
		{command: broken{}, reply: replies[0]},
		{command: session.ListCheckpoints{}, reply: replies[1]},
	})
	if err == nil || fatal(err) {
		t.Errorf("the session goes on with %v", err)
	}
	for i, want := range []codes.Code{codes.Internal, codes.Unavailable} {
		if got := callError((<-replies[i]).err); status.Code(got) != want {
			t.Errorf("call %d got %v, want %v", i, got, want)
		}
	}
	if !strings.Contains(log.String(), "master.broken") || !strings.Contains(log.String(), "stack=") {
		t.Errorf("the log says %s", log.String())
	}
}
