// Package weakmap shares values that are expensive to make: a value can be found as long as somebody else uses it.
package weakmap

import (
	"runtime"
	"sync"
	"weak"
)

// Map holds values by key without keeping them alive: an entry is gone once the garbage collector finds that nobody
// uses its value. The zero Map is empty. It may be used by many goroutines at once.
type Map[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]weak.Pointer[V]
}

// Get returns the value of a key, or nil if there is none.
func (m *Map[K, V]) Get(key K) *V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[key].Value()
}

// Put stores value under key, unless the key still has a value that is in use. Storing one again each time would
// register another cleanup with the runtime each time.
func (m *Map[K, V]) Put(key K, value *V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[key].Value() != nil {
		return
	}
	if m.of == nil {
		m.of = make(map[K]weak.Pointer[V])
	}
	m.of[key] = weak.Make(value)
	runtime.AddCleanup(value, m.forget, key)
}

// forget drops a key whose value is gone.
func (m *Map[K, V]) forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[key].Value() == nil {
		delete(m.of, key)
	}
}
