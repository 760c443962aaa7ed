// Package shared makes memory that another process on the same machine can map: a worker lays batches out in it, and a trainer
// reads them where they are (internal/wire). It exists on Linux alone; elsewhere Make fails, and batches are sent.
//
// A Memory has one owner at a time.
package shared

import (
	"sync/atomic"

	"github.com/penstock-ml/penstock/internal/process"
)

// Memory is bytes that several processes may have mapped.
type Memory struct {
	// Bytes are nil once it was freed.
	Bytes []byte
	// Number tells it from what else this process made. It is not 0.
	Number uint32

	file int
	used int64
}

// Used is how many bytes may have been written to.
func (m *Memory) Used() int64 { return m.used }

// Use says that the first n bytes are going to be written to. The Go runtime's memory limit leaves room for them then.
func (m *Memory) Use(n int) {
	if more := int64(n) - m.used; more > 0 {
		process.SetAside(more)
		m.used += more
	}
}

// made numbers what this process makes.
var made atomic.Uint32 //nolint:gochecknoglobals // only a counter
