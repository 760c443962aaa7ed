// Package shared makes memory that another process on the same machine can map: a worker lays batches out in it, and a
// trainer reads them where they are (internal/wire); or a worker and a process of a user's functions hand columns to
// each other (worker/python). It exists on Linux alone; elsewhere Make fails, and batches are sent.
//
// The kernel counts such memory against the process that wrote to it, for as long as any has it mapped. So a Memory
// that its owner has freed counts on while it is lent.
package shared

import (
	"sync"
	"sync/atomic"

	"github.com/penstock-ml/penstock/internal/process"
)

// Name is what the system calls the memory that is made here.
const Name = "penstock-batch"

// Memory is bytes that several processes may have mapped. It has one owner at a time; Lend and Returned may be called
// from any goroutine.
type Memory struct {
	// Bytes are nil once it was freed.
	Bytes []byte
	// Number tells it from what else this process made. It is not 0.
	Number uint32

	file int
	kept func(bytes int64)

	mu   sync.Mutex
	used int64
	lent int // to so many that have not returned it
}

// Used is how many bytes may have been written to.
func (m *Memory) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// Use says that the first n bytes are going to be written to. The Go runtime leaves room for them.
func (m *Memory) Use(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if more := int64(n) - m.used; more > 0 {
		process.SetAside(more)
		m.used += more
	}
}

// Lend says that another process may have it mapped until Returned is called, once for each Lend.
func (m *Memory) Lend() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lent++
}

// Returned says that a process that it was lent to does not have it mapped any more, nor ever will.
func (m *Memory) Returned() {
	if n := m.returned(); n > 0 {
		m.kept(-n) // unlocked: who is told of it may hold a lock of its own where memory is freed
	}
}

// returned is how many bytes nobody has any more.
func (m *Memory) returned() (bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lent--; m.lent == 0 && m.Bytes == nil {
		bytes = m.used
		m.gone()
	}
	return bytes
}

// gone says that nobody has it mapped. m.mu must be held.
func (m *Memory) gone() {
	process.SetAside(-m.used)
	m.used = 0
}

// made numbers what this process makes.
var made atomic.Uint32 //nolint:gochecknoglobals // only a counter
