// Package weakmap remembers what is dear to make for as long as somebody else has it.
package weakmap

import (
	"runtime"
	"sync"
	"weak"
)

// Map has for each key the first value that was put, until the garbage collector finds that nobody else has that value. The zero
// Map is empty. It may be used by many goroutines at once.
type Map[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]weak.Pointer[V]
}

// Get returns the value of a key, or nil.
func (m *Map[K, V]) Get(key K) *V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[key].Value()
}

// Put has value be that of key, unless it has another that is still there: so no value, however often it is put, gets cleanups
// without end.
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
