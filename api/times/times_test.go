package times

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// TestParse reads what the Python package's test reads, too.
func TestParse(t *testing.T) {
	table, err := os.ReadFile("testdata/times.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]int64
	if err := json.Unmarshal(table, &want); err != nil {
		t.Fatal(err)
	}
	for text, counts := range want {
		switch at, err := Parse(text); {
		case (err != nil) != (counts == nil):
			t.Errorf("%q: %v, %v", text, at, err)
		case err == nil && (at.Unix() != counts[0] || int64(at.Nanosecond()) != counts[1]):
			t.Errorf("%q is %v", text, at)
		}
	}
}

func TestOf(t *testing.T) {
	at, err := Parse("1969-12-31 23:59:59.123456789")
	if err != nil {
		t.Fatal(err)
	}
	for unit, want := range map[Unit]int64{Days: -1, "s": -1, "ms": -877, "us": -876544, "ns": -876543211} {
		if n, err := unit.Of(at); err != nil || n != want {
			t.Errorf("%d, %v of %v, want %d", n, err, unit, want)
		}
	}
	far, err := Parse("2262-04-12")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := Unit("ns").Of(far); err == nil {
		t.Errorf("%d", n)
	}
}

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
