package times

import (
	"strings"
	"testing"
	"time"
)

// FuzzParse holds that what is read as a time is the one that Go's own format of it has.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"2024-01-31", "2024-01-31 12:00", "2024-01-31T12:00:00.5Z", "0000-01-01T00:00+14", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := Parse(text)
		if err != nil {
			return
		}
		if !strings.HasPrefix(text, at.Format("2006-01-02")) && len(text) <= len("2024-01-31 12:00:00.123456789Z") &&
			!strings.ContainsAny(text[10:], "+-") {
			t.Errorf("%q is %v", text, at)
		}
		again, err := time.Parse(time.RFC3339Nano, at.Format(time.RFC3339Nano))
		if err == nil && !again.Equal(at) {
			t.Errorf("%q is %v, and again %v", text, at, again)
		}
	})
}
