package parquet

// prefetch asks for b to be brought into the caches, and waits for nothing.
//
//go:noescape
func prefetch(b []byte)
