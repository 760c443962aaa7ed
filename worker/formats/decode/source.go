// Package decode is what the decoders of all formats share: the bytes that they decode, the memory that they may hold,
// and the readers of what is no column of a file: defaults of sources that it lacks, and keys of maps. What is here
// belongs to the goroutine that decodes.
package decode

import "github.com/penstock-ml/penstock/worker/vector"

// Source gives the bytes of a chunk, from its front to its end.
type Source interface {
	// Bytes returns n bytes of the chunk from an offset on, or more; n ends inside of the chunk. They are valid until
	// the next call, which is for an offset that is not less.
	Bytes(from, n int) ([]byte, error)
}

// Whole is a chunk in memory.
type Whole []byte

// Bytes is all from an offset on.
func (w *Whole) Bytes(from, _ int) ([]byte, error) { return (*w)[from:], nil }

// Reader makes the vector of a source, or of a part of one, for a window of rows.
type Reader interface {
	Read(rows int) (*vector.Vector, error)
}
