package fleet

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWarningsAreBounded holds that what strangers send to the gossip port fills no log, and that what is left out is
// counted.
func TestWarningsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		f := &Fleet{cfg: Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}}
		send := func(n int) (lines int) {
			t.Helper()
			logged.Reset()
			for i := range n {
				fmt.Fprintf(logWriter{f}, "[ERR] memberlist: failed to receive: stranger %d\n", i)
			}
			return strings.Count(logged.String(), "\n")
		}
		if n := send(1000); n != maxWarnings {
			t.Errorf("%d lines for 1000 warnings, want %d", n, maxWarnings)
		}
		if n := send(1000); n != 0 {
			t.Errorf("%d lines more in the same minute", n)
		}
		time.Sleep(warnEvery) // of the bubble's clock
		if n := send(1); n != 2 || !strings.Contains(logged.String(), "left_out=1990") ||
			!strings.Contains(logged.String(), "stranger 0") {
			t.Errorf("%d lines in the next minute: %s", n, logged.String())
		}
		time.Sleep(warnEvery)
		if n := send(1); n != 1 {
			t.Errorf("%d lines when nothing was left out: %s", n, logged.String())
		}
	})
}
