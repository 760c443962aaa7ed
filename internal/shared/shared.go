// Package shared makes memory that another process on the same machine can map: a worker lays batches out in it, and a trainer
// reads them where they are (internal/wire). It exists on Linux alone; elsewhere Make fails, and batches are sent.
//
// A Memory has one owner at a time.
package shared

import "sync/atomic"

// Memory is bytes that several processes may have mapped.
type Memory struct {
	// Bytes are nil once it was freed.
	Bytes []byte
	// Number tells it from what else this process made. It is not 0.
	Number uint32

	file int
}

// made numbers what this process makes.
var made atomic.Uint32 //nolint:gochecknoglobals // only a counter
