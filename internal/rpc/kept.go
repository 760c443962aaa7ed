package rpc

import (
	"log/slog"
	"sync"
)

// kept is what files mean, read anew each time. While they cannot be taken, as a certificate whose key is not there
// yet, it is what it was before: one half of a pair that is being renewed breaks no handshake.
type kept[T any] struct {
	read func() (T, error)

	mu     sync.Mutex
	value  T
	failed string // how they could not be taken last
}

// keep reads files for the first time.
func keep[T any](read func() (T, error)) (*kept[T], error) {
	value, err := read()
	return &kept[T]{read: read, value: value}, err
}

// get returns the newest value. Why it is not what the files say is logged once.
func (k *kept[T]) get() T {
	k.mu.Lock()
	defer k.mu.Unlock()
	value, err := k.read()
	if err == nil {
		k.value, k.failed = value, ""
		return value
	}
	if err.Error() != k.failed {
		slog.Error("files of TLS cannot be taken; those read before stay in force", "error", err)
		k.failed = err.Error()
	}
	return k.value
}
