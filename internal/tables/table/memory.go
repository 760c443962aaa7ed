package table

import "sync"

// grain is how much memory is asked for at once where it is little by little.
const grain = 1 << 20

// Memory asks for what opening a table takes. The zero Memory has no bound. Its methods may be called by several
// goroutines at once.
type Memory struct {
	// Ask is a Table's Take, or nil.
	Ask func(bytes int64) error

	mu   sync.Mutex
	room int64 // that files being read have; it is used again
	owed int64 // that is kept and not asked for yet
}

// Take asks for memory.
func (m *Memory) Take(n int64) error {
	if m.Ask == nil || n <= 0 {
		return nil
	}
	return m.Ask(n)
}

// Keep counts memory that is kept.
func (m *Memory) Keep(n int64) error {
	m.mu.Lock()
	if m.owed += n; m.owed < grain {
		m.mu.Unlock()
		return nil
	}
	n, m.owed = m.owed, 0
	m.mu.Unlock()
	return m.Take(n)
}

// Use makes room for what is being read, and for what is made of it, of so many bytes at once.
func (m *Memory) Use(size int64) error {
	m.mu.Lock()
	if size <= max(m.room, grain) {
		m.mu.Unlock()
		return nil
	}
	more := size - m.room
	m.room = size
	m.mu.Unlock()
	return m.Take(more)
}
