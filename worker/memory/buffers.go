package memory

import (
	"context"
	"slices"
	"sync"
)

// Buffers are what an account holds to read into: what is worked on, and what has been read ahead of that. A nil
// *Buffers holds nothing.
type Buffers struct {
	account *Account
	base    int64 // counted when they were made: enough for one buffer
	max     int64

	mu       sync.Mutex
	used     int64 // by buffers, those that are free included
	reserved int64 // of the account
	free     [][]byte
	freed    chan struct{}
}

// NewBuffers returns buffers of at most max bytes. The account holds base already, and no buffer is longer than that.
func NewBuffers(a *Account, base, max int64) *Buffers {
	return &Buffers{account: a, base: base, max: max, reserved: base, freed: make(chan struct{}, 1)}
}

// Base is how long a buffer may be.
func (m *Buffers) Base() int64 { return m.base }

// Ahead is what is held beyond Base.
func (m *Buffers) Ahead() int64 {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reserved - m.base
}

// Free are the buffers that nobody uses. They are the caller's once nobody calls Get any more.
func (m *Buffers) Free() [][]byte { return m.free }

// Use takes over free buffers of so many bytes, which the account holds, or base if that is more. It is called before
// Get is.
func (m *Buffers) Use(buffers [][]byte, base, bytes int64) {
	m.base, m.free, m.used, m.reserved = base, buffers, bytes, max(base, bytes)
}

// Shrink gives up what is free, and reports whether that was something.
func (m *Buffers) Shrink() bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.reserved
	m.dropFree(m.base)
	m.giveBack()
	return m.reserved < before
}

// Get waits for a buffer of a size, which is at most Base.
func (m *Buffers) Get(ctx context.Context, size int64) ([]byte, error) {
	for {
		if buffer, ok := m.tryGet(size); ok {
			return buffer, nil
		}
		select {
		case <-m.freed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (m *Buffers) tryGet(size int64) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, b := range m.free {
		if have := int64(cap(b)); have >= size && have/2 <= size {
			m.free = slices.Delete(m.free, i, i+1)
			return b[:size], true
		}
	}
	// What is dropped stays reserved until this buffer is counted: if another account came between, and no buffer were
	// out, nobody would ever put one back.
	m.dropFree(max(m.base, min(m.reserved, m.max)) - size)
	defer m.giveBack()
	for _, n := range []int64{size + size/Roomier, size} {
		if m.reserve(n) {
			return make([]byte, size, n), true
		}
	}
	return nil, false
}

// Roomier is which part of its size a buffer is longer than that, if there is memory for it: what is read next is a
// little longer or shorter, and fits into it then.
const Roomier = 64

// reserve counts n bytes more as used, if there is memory for them.
func (m *Buffers) reserve(n int64) bool {
	if missing := m.used + n - m.reserved; missing > 0 {
		if m.reserved+missing > m.max || !m.account.Try(missing) {
			return false
		}
		m.reserved += missing
	}
	m.used += n
	return true
}

// Put takes a buffer back, to be used again unless others wait for memory.
func (m *Buffers) Put(buffer []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = append(m.free, buffer)
	if m.account.budget.Pressed() {
		m.dropFree(m.base)
		m.giveBack()
	}
	select {
	case m.freed <- struct{}{}:
	default: // it will look
	}
}

// dropFree drops buffers that are free until at most so many bytes are used.
func (m *Buffers) dropFree(limit int64) {
	for len(m.free) > 0 && m.used > limit {
		m.used -= int64(cap(m.free[0]))
		m.free = slices.Delete(m.free, 0, 1)
	}
}

// giveBack gives back what is reserved beyond base, and not used.
func (m *Buffers) giveBack() {
	if back := m.reserved - max(m.base, m.used); back > 0 {
		m.account.Give(back)
		m.reserved -= back
	}
}
