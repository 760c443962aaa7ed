package main

import (
	"testing"
	"time"
)

func TestPauseOfAFault(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	f := struck{Began: at(0), Ended: at(4)}
	for _, c := range []struct {
		name string
		wait wait
		want time.Duration
	}{
		{"within it", wait{end: at(2), long: time.Second}, time.Second},
		{"over its begin", wait{end: at(1), long: 3 * time.Second}, 3 * time.Second},
		{"after it, soon", wait{end: at(5), long: time.Second / 2}, time.Second / 2},
		{"after it, late", wait{end: at(9), long: time.Second}, 0},
		{"before it", wait{end: at(-1), long: time.Second}, 0},
	} {
		if got := f.pause([]wait{c.wait}); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var d []time.Duration
	for i := range 100 {
		d = append(d, time.Duration(99-i))
	}
	for share, want := range map[float64]time.Duration{0: 0, 0.5: 50, 0.9: 90, 1: 99} {
		if got := quantile(d, share); got != want {
			t.Errorf("quantile %v is %v, want %v", share, got, want)
		}
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("a quantile of nothing")
	}
}

func TestLanesFitEachWorld(t *testing.T) {
	for _, c := range [][3]int{{3, 4, 12}, {1, 2, 2}, {4, 6, 12}, {5, 1, 5}} {
		if got := lcm(c[0], c[1]); got != c[2] {
			t.Errorf("lcm(%d, %d) is %d", c[0], c[1], got)
		}
	}
}
