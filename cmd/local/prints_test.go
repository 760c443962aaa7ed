package local

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/penstock-ml/penstock/worker/python"
)

// TestPrints has lines of the log that functions printed come to the program, and no others.
func TestPrints(t *testing.T) {
	var log, out bytes.Buffer
	p := newPrints(&out)
	logger := python.Printing(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), p.add)
	logger = logger.With("worker", "w1")
	logger.Info("a Python process prints", "op", "f (transforms[1])", "text", "hi", "pid", 7)
	logger.Info("something else", "text", "lo")
	logger.Warn("trouble")
	p.close()
	if want := `{"op":"f (transforms[1])","line":"hi"}` + "\n"; out.String() != want {
		t.Errorf("the program gets %q, want %q", out.String(), want)
	}
	if got := log.String(); !bytes.Contains(log.Bytes(), []byte("trouble")) || bytes.Contains(log.Bytes(), []byte("hi")) {
		t.Errorf("the log has %q", got)
	}
}
