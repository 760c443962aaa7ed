package command

import "testing"

func TestWorkersOfAMachineDivideItsCPUs(t *testing.T) {
	for _, c := range []struct{ cpus, workers, want int }{{8, 2, 4}, {8, 3, 2}, {2, 4, 1}, {4, 0, 4}} {
		if got := part(c.cpus, c.workers); got != c.want {
			t.Errorf("%d CPUs for %d workers: %d each, want %d", c.cpus, c.workers, got, c.want)
		}
	}
}
