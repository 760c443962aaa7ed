package demo

import (
	"strings"
	"testing"
	"time"
)

// Off a terminal there is a line every ten seconds, and one for each phase's beginning and end.
func TestProgressOffATerminal(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out)
	var at time.Time
	p.now = func() time.Time { return at }
	for _, phase := range []string{"training", "verifying"} {
		for done := range int64(101) {
			p.show(phase, done, 100, "")
			at = at.Add(time.Second / 2)
		}
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2*(1+4+1) {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
}
