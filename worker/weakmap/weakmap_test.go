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
	m.Put("a", first)
	m.Put("b", second)
	runtime.GC()
	if m.Get("a") != first || m.Get("b") != second {
		t.Error("values are gone that somebody has")
	}
	m.Put("a", second) // first's end must not take it away
	m.Put("c", first)
	runtime.KeepAlive(first)
	for deadline := time.Now().Add(time.Minute); m.size() > 2; {
		if time.Now().After(deadline) {
			t.Fatalf("%d keys stay, of which one has a value that nobody has", m.size())
		}
		runtime.GC()
	}
	if m.Get("c") != nil || m.Get("a") != second || m.Get("b") != second {
		t.Error("the wrong one has gone")
	}
	runtime.KeepAlive(second)
}

func (m *Map[K, V]) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.of)
}
