package autoscale

import (
	"cmp"
	"slices"
	"time"
)

// Worker is one that may be chosen to drain.
type Worker struct {
	Name    string
	Streams int
	Started time.Time
}

// Victims names n workers to drain, or all if there are fewer: those with the fewest streams to move, and among equals
// the youngest, whose caches hold least.
func Victims(workers []Worker, n int) []string {
	sorted := slices.SortedFunc(slices.Values(workers), func(a, b Worker) int {
		return cmp.Or(cmp.Compare(a.Streams, b.Streams), b.Started.Compare(a.Started), cmp.Compare(a.Name, b.Name))
	})
	names := make([]string, min(max(n, 0), len(sorted)))
	for i := range names {
		names[i] = sorted[i].Name
	}
	return names
}
