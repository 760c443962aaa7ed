package feed

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/internal/wire"
)

const (
	// segmentBytes is what a segment has at least. Memory is taken only where it is written to.
	segmentBytes = 1 << 30
	// keptBytes is how much of a segment's memory is kept for the next session.
	keptBytes = 256 << 20
	// keptSegments is how many segments are.
	keptSegments = 2
)

// segment is memory that is shared with the program.
type segment struct {
	id   uint32
	file *os.File
	mem  []byte
}

// segments are those that no session uses. Any goroutine may call.
type segments struct {
	memory func() (*os.File, error)                  // makes a file of memory
	punch  func(f *os.File, from, bytes int64) error // gives back what bytes of a file take

	mu   sync.Mutex
	last uint32
	free []*segment
}

// take returns a segment of so many bytes or more. That of an ended session has its bytes still.
func (s *segments) take(bytes int) (*segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 && bytes <= segmentBytes {
		g := s.free[n-1]
		s.free = s.free[:n-1]
		return g, nil
	}
	s.last++
	g, err := s.make(s.last, max(bytes, segmentBytes))
	if err != nil {
		return nil, fmt.Errorf("shared memory of %d bytes: %w", bytes, err)
	}
	return g, nil
}

// give takes a segment back.
func (s *segments) give(g *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) < keptSegments && len(g.mem) == segmentBytes {
		if s.punch(g.file, keptBytes, segmentBytes-keptBytes) == nil {
			s.free = append(s.free, g)
			return
		}
	}
	g.close()
}

// close gives back all memory.
func (s *segments) close() {
	for _, g := range s.free {
		g.close()
	}
	s.free = nil
}

func (s *segments) make(id uint32, bytes int) (*segment, error) {
	file, err := s.memory()
	if err != nil {
		file, err = temporaryFile()
	}
	if err != nil {
		return nil, err
	}
	g := &segment{id: id, file: file}
	if err := file.Truncate(int64(bytes)); err != nil {
		g.close()
		return nil, err
	}
	if g.mem, err = unix.Mmap(int(file.Fd()), 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE); err != nil {
		g.close()
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return g, nil
}

// temporaryFile makes a file without a name, for where there are none of memory, or a sandbox refuses them.
func temporaryFile() (*os.File, error) {
	f, err := os.CreateTemp("", "penstock-feed-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (g *segment) close() {
	if g.mem != nil {
		_ = unix.Munmap(g.mem) // fails only for what was never mapped
	}
	_ = g.file.Close()
}

// arena is the memory of one session's batches: it only grows, for the client uses what it has again.
type arena struct {
	pool     *segments
	segments []*segment
	used     int // of the last one
	err      error
}

// allocate is client.Config.Memory; in Go's heap, where no memory can be shared: err says why.
func (a *arena) allocate(bytes int) []byte {
	n := len(a.segments)
	if n == 0 || a.used+bytes > len(a.segments[n-1].mem) {
		g, err := a.pool.take(bytes)
		if err != nil {
			a.err = err
			return wire.Aligned[byte](bytes)
		}
		a.segments, a.used = append(a.segments, g), 0
		n++
	}
	out := a.segments[n-1].mem[a.used:][:bytes:bytes]
	a.used = min((a.used+bytes+wire.Alignment-1)&^(wire.Alignment-1), len(a.segments[n-1].mem))
	return out
}

// find tells where memory lies that allocate made.
func (a *arena) find(b []byte) (id uint32, offset int64, ok bool) {
	if len(b) == 0 {
		return 0, 0, true
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for _, g := range a.segments {
		begin := uintptr(unsafe.Pointer(unsafe.SliceData(g.mem)))
		if at >= begin && at < begin+uintptr(len(g.mem)) {
			return g.id, int64(at - begin), true
		}
	}
	return 0, 0, false
}

// close ends the memory's use; again says that others may use it.
func (a *arena) close(again bool) {
	for _, g := range a.segments {
		if again {
			a.pool.give(g)
		} else {
			g.close()
		}
	}
	a.segments = nil
}
