package columns

// Source gives the bytes of a column chunk, from its front to its end.
type Source interface {
	// Bytes returns n bytes of the chunk from an offset on, or more; n ends inside of the chunk. They are valid until the next call,
	// which is for an offset that is not less. So nothing of a page may be kept, but as a copy, once the next one's header is read.
	Bytes(from, n int) ([]byte, error)
}

// whole is a chunk in memory.
type whole []byte

func (w *whole) Bytes(from, _ int) ([]byte, error) { return (*w)[from:], nil }
