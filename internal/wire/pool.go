package wire

import (
	"math/bits"
	"slices"
	"sync"
	"unsafe"
)

// Alignment is that of pooled memory, and of each buffer in a message's body: what vector instructions and copies to
// accelerators want.
const Alignment = 64

// Pool keeps aligned memory, and what else a message takes, for the next one. The garbage collector takes what is not
// used. The zero value is ready for use.
type Pool struct {
	classes [classes]sync.Pool
	parcels sync.Pool
	packers sync.Pool
}

const (
	minBits = 12 // of the smallest size, 4 KiB
	steps   = 4  // sizes for each power of two, so that at most a fifth of a buffer lies idle
	classes = steps * 24
)

// Memory is a pool's. Its capacity may be more than was asked for.
type Memory struct {
	Bytes []byte
	pool  *sync.Pool
	loan  *loan // of another process, if it is
	// What lies in it, as a Batch has it.
	nodes   []Node
	buffers [][]byte
}

// arrays returns room for so many nodes and buffers, which is the memory's, if there is any.
func (m *Memory) arrays(nodes, buffers int) ([]Node, [][]byte) {
	if m == nil {
		return make([]Node, nodes), make([][]byte, buffers)
	}
	m.nodes = slices.Grow(m.nodes[:0], nodes)[:nodes]
	m.buffers = slices.Grow(m.buffers[:0], buffers)[:buffers]
	return m.nodes, m.buffers
}

// class returns the class of sizes that n bytes fall into, and its size.
func class(n int) (int, int) {
	if n <= 1<<minBits {
		return 0, 1 << minBits
	}
	exp := bits.Len(uint(n-1)) - 1 // 2^exp < n <= 2^(exp+1)
	step := (n - 1 - 1<<exp) >> (exp - 2)
	return 1 + steps*(exp-minBits) + step, 1<<exp + (step+1)<<(exp-2)
}

// take has nodes and buffers of another memory, whose batch is in this one now.
func (m *Memory) take(other *Memory) {
	m.nodes, other.nodes = other.nodes, m.nodes
	m.buffers, other.buffers = other.buffers, m.buffers
}

// Get returns n bytes, whose contents are undefined.
func (p *Pool) Get(n int) *Memory {
	c, size := class(n)
	if c >= classes {
		return &Memory{Bytes: aligned(n)}
	}
	if m, ok := p.classes[c].Get().(*Memory); ok {
		m.Bytes = m.Bytes[:n]
		return m
	}
	return &Memory{Bytes: aligned(size)[:n], pool: &p.classes[c]}
}

// Free gives the memory back.
func (m *Memory) Free() {
	switch {
	case m.loan != nil:
		m.loan.free()
	case m.pool != nil:
		m.pool.Put(m)
	}
}

// Value is what tensors are made of.
type Value interface {
	bool | byte | int32 | int64 | float32 | float64
}

// Aligned returns n values whose memory is aligned to Alignment, and zero.
func Aligned[T Value](n int) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(aligned(n*int(unsafe.Sizeof(zero)))))), n)
}

func aligned(n int) []byte {
	raw := make([]byte, n+Alignment-1)
	skip := int(-uintptr(unsafe.Pointer(&raw[0])) % Alignment)
	return raw[skip : skip+n : skip+n]
}

func (p *Pool) parcel() *parcel {
	if m, ok := p.parcels.Get().(*parcel); ok {
		return m
	}
	return &parcel{pool: p, placed: map[*byte]extent{}}
}

func (p *Pool) packer() *packer {
	if m, ok := p.packers.Get().(*packer); ok {
		return m
	}
	return new(packer)
}
