package main

import (
	"github.com/penstock-ml/penstock/bench/workload"
)

// curve is a row of points that differ in one thing.
type curve struct {
	Name string `json:"name"`
	// Title says what is shown, X what differs, Unit what a cost is for: "row", "value" or "shard".
	Title  string  `json:"title"`
	X      string  `json:"x"`
	Unit   string  `json:"unit"`
	Points []point `json:"points"`
}

// point is a session to measure and what it cost.
type point struct {
	X        int               `json:"x"`
	Workload workload.Workload `json:"workload"`
	Workers  int               `json:"workers"`
	Units    int               `json:"units"`
	// Cost has the medians, in nanoseconds of CPU time for each unit.
	Cost cost `json:"cost"`
}

// cost is CPU time by process: seconds while it is measured, then nanoseconds a unit.
type cost struct {
	Workers float64 `json:"workers"`
	Master  float64 `json:"master"`
	// First is the master's in the session before, over files that it had not seen. It is no part of the sum.
	First   float64 `json:"master_in_first_session"`
	Trainer float64 `json:"trainer"`
	Wall    float64 `json:"wall"`
}

func curveNames() []string {
	var names []string
	for _, c := range curves(1) {
		names = append(names, c.Name)
	}
	return names
}

// curves returns what to measure, with a part of its rows.
func curves(scale float64) []curve {
	rows := func(n int) int { return max(1, int(scale*float64(n))) }
	return []curve{workersCurve(rows), featuresCurve(rows), groupsCurve(rows), shardsCurve(rows)}
}

func workersCurve(rows func(int) int) curve {
	w := mustName("rm1")
	w.Rows = rows(1 << 22) // so many that each of eight processes takes many ticks of the CPU clock
	c := curve{Name: "workers", Title: "CPU time of a row (rm1), by the number of workers", X: "workers", Unit: "row"}
	for _, n := range []int{1, 2, 3, 4, 6, 8} {
		c.Points = append(c.Points, point{X: n, Workload: w, Workers: n, Units: w.Rows})
	}
	return c
}

// featuresCurve has as many values in each of its datasets.
func featuresCurve(rows func(int) int) curve {
	c := curve{Name: "features", Title: "CPU time of a value, by the number of features (half dense, half sparse of length 1)", X: "features", Unit: "value"}
	for _, n := range []int{10, 100, 1000, 10_000} {
		w := plain("features", rows(20_000_000/n))
		w.Dense, w.Sparse, w.Length, w.Transform = n/2, n/2, 1, true
		w.GroupRows = max(1, w.Rows/2)
		w.BatchSize = min(8192, w.GroupRows)
		c.Points = append(c.Points, point{X: n, Workload: w, Workers: 1, Units: w.Rows * n})
	}
	return c
}

func groupsCurve(rows func(int) int) curve {
	c := curve{Name: "groups", Title: "CPU time of a row (rm1's features), by the rows of a row group", X: "rows of a row group", Unit: "row"}
	for _, n := range []int{1000, 10_000, 100_000, 1_000_000} {
		w := mustName("rm1")
		w.Rows, w.FileRows, w.GroupRows = rows(1_000_000), rows(1_000_000), n
		c.Points = append(c.Points, point{X: n, Workload: w, Workers: 1, Units: w.Rows})
	}
	return c
}

// shardsCurve has files that are tiny, so that what a shard costs shows beside what its rows do.
func shardsCurve(rows func(int) int) curve {
	c := curve{Name: "shards", Title: "CPU time of a shard of eight rows with two features, by the number of shards", X: "shards", Unit: "shard"}
	for _, n := range []int{100, 1000, 10_000} {
		w := plain("shards", 8*rows(n))
		w.Dense, w.Sparse, w.Length = 1, 1, 1
		w.FileRows, w.GroupRows = 8, 8
		w.BatchSize = 1024
		c.Points = append(c.Points, point{X: n, Workload: w, Workers: 1, Units: w.Rows / 8})
	}
	return c
}

func plain(name string, rows int) workload.Workload {
	return workload.Workload{Name: name, Rows: rows, BatchSize: 8192}
}

func mustName(name string) workload.Workload {
	w, err := workload.Named(name)
	if err != nil {
		panic(err) // the name is a constant
	}
	return w
}
