//go:build race

package session

// raced says that the race detector is on.
const raced = true
