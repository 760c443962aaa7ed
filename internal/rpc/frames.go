package rpc

import "sync"

// frame is the most that an HTTP/2 frame has, as gRPC's peers send them.
const frame = 16 << 10

// frames is a mem.BufferPool of memory for received frames. Unlike gRPC's own it hands them out as they came back: they
// are written before they are read, and to zero each of them first takes a tenth of what receiving does.
type frames struct{ pool sync.Pool }

// Get returns n bytes, whose contents are undefined.
func (f *frames) Get(n int) *[]byte {
	if n > frame {
		b := make([]byte, n)
		return &b
	}
	if b, ok := f.pool.Get().(*[]byte); ok {
		*b = (*b)[:n]
		return b
	}
	b := make([]byte, n, frame)
	return &b
}

// Put takes back what Get returned.
func (f *frames) Put(b *[]byte) {
	if cap(*b) == frame {
		f.pool.Put(b)
	}
}
