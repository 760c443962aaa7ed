//go:build race

package parquet

// underRace tells of the race detector, under which a sync.Pool drops a part of what it is given.
const underRace = true
