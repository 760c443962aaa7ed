package client

import (
	"slices"
	"sync"
)

// maxFree bounds the released buffers that a session keeps: one being filled, one in the training loop, and a reader
// ahead of it.
const maxFree = 4

// spares are the buffers of batches to come. Any goroutine may call.
type spares struct {
	layout *layout
	rows   int                // of a batch
	memory func() BatchMemory // nil: Go's heap

	mu   sync.Mutex
	free []*buffers // released
}

// take returns empty buffers, released ones if there are any.
func (s *spares) take() *buffers {
	if b := s.released(); b != nil {
		b.reset()
		return b
	}
	var memory *allocator
	if s.memory != nil {
		memory = &allocator{of: s.memory()}
	}
	return newBuffers(s.layout, s.rows, memory)
}

// released returns the buffers that were released last, or nil.
func (s *spares) released() *buffers {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free)
	if n == 0 {
		return nil
	}
	b := s.free[n-1]
	s.free = slices.Delete(s.free, n-1, n)
	return b
}

// keep keeps buffers for another batch, unless there are many.
func (s *spares) keep(b *buffers) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == maxFree {
		return false
	}
	s.free = append(s.free, b)
	return true
}
