package weakmap

import (
	"runtime"
	"testing"
	"time"
)

// value has a pointer, so that no two values share an allocation.
type value struct{ p *int }

func TestMap(t *testing.T) {
	var m Map[string, value]
	if m.Get("a") != nil {
		t.Error("an empty map has a value")
	}
	first, second := &value{}, &value{new(int)}
	m.Put("a", first)
	m.Put("a", second)
	m.Put("b", second)
	runtime.GC()
	if m.Get("a") != first || m.Get("b") != second {
		t.Error("values are gone that somebody has, or others took their places")
	}
	runtime.KeepAlive(first)
	collect(t, func() bool { return m.Get("a") == nil })
	m.Put("a", second) // first's cleanup, whenever it comes, must not take it away
	third := &value{new(int)}
	m.Put("c", third)
	runtime.KeepAlive(third)
	collect(t, func() bool { return m.size() == 2 })
	if m.Get("c") != nil || m.Get("a") != second || m.Get("b") != second {
		t.Error("the wrong one has gone")
	}
	runtime.KeepAlive(second)
}

// collect runs the garbage collector until something is gone.
func collect(t *testing.T, gone func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !gone(); {
		if time.Now().After(deadline) {
			t.Fatal("a key stays whose value nobody has")
		}
		runtime.GC()
	}
}

func (m *Map[K, V]) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.of)
}
