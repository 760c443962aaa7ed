//go:build race

package columns

// underRace tells of the race detector, under which a sync.Pool drops a part of what it is given.
const underRace = true
