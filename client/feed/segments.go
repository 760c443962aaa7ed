package feed

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/wire"
)

const (
	// segmentBytes is what a segment has at least. Memory is taken only where it is written to.
	segmentBytes = 1 << 30
	// minExtent is what an extent has at least; maxExtent how large they become by themselves.
	minExtent, maxExtent = 64 << 10, 16 << 20
	// keptBytes is how much memory is kept that no batch lies in.
	keptBytes = 512 << 20
)

// segment is memory that is shared with the program.
type segment struct {
	id   uint32
	file *os.File
	mem  []byte
	used int // in extents
}

// extent is a part of a segment, of which so many bytes may have been written to. Its size is a power of 2.
type extent struct {
	*segment
	at, size, touched int
	given             uint64 // when it came back, among all that did
}

// segments lend extents. Any goroutine may call. Memory that was never written to is dear: the kernel clears each page,
// and a virtual machine's host may have to find it first. So what comes back is lent again before any other.
type segments struct {
	memory func() (*os.File, error)                  // makes a file of memory
	punch  func(f *os.File, from, bytes int64) error // gives back what bytes of a file take

	mu    sync.Mutex
	all   []*segment
	free  map[int][]extent // by size, the newest last
	empty map[int][]extent // the same, of those without memory
	given uint64           // extents so far
	kept  int              // bytes touched of free ones
	stays bool             // memory cannot be given back
}

func newSegments(memory func() (*os.File, error), punch func(f *os.File, from, bytes int64) error) *segments {
	return &segments{memory: memory, punch: punch, free: make(map[int][]extent), empty: make(map[int][]extent)}
}

// take lends an extent of so many bytes or more.
func (s *segments) take(bytes int) (extent, error) {
	size := 1 << bits.Len(uint(max(bytes, minExtent)-1))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range []map[int][]extent{s.free, s.empty} {
		if n := len(of[size]); n > 0 {
			e := of[size][n-1]
			of[size] = of[size][:n-1]
			s.kept -= e.touched
			return e, nil
		}
	}
	if n := len(s.all); n == 0 || s.all[n-1].used+size > len(s.all[n-1].mem) {
		g, err := s.make(uint32(n+1), max(size, segmentBytes))
		if err != nil {
			return extent{}, fmt.Errorf("shared memory of %d bytes: %w", bytes, err)
		}
		s.all = append(s.all, g)
	}
	g := s.all[len(s.all)-1]
	e := extent{segment: g, at: g.used, size: size}
	g.used += size
	return e, nil
}

// give takes extents back. Beyond keptBytes, those that nobody has asked for for the longest time lose their memory.
func (s *segments) give(extents []extent) {
	excess := s.keep(extents)
	var err error
	for i, e := range excess {
		if err = s.punch(e.file, int64(e.at), int64(e.size)); err != nil {
			break
		}
		excess[i].touched = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stays = s.stays || err != nil
	for _, e := range excess {
		if e.touched == 0 {
			s.empty[e.size] = append(s.empty[e.size], e)
			continue
		}
		s.kept += e.touched
		s.free[e.size] = append(s.free[e.size], e)
	}
}

// keep puts extents to those that are free, and takes away the oldest that are too many.
func (s *segments) keep(extents []extent) (excess []extent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range extents {
		s.given++
		e.given = s.given
		s.kept += e.touched
		s.free[e.size] = append(s.free[e.size], e)
	}
	for s.kept > keptBytes && !s.stays {
		var oldest []extent
		for _, of := range s.free {
			if len(of) > 0 && (oldest == nil || of[0].given < oldest[0].given) {
				oldest = of
			}
		}
		e := oldest[0]
		s.free[e.size] = slices.Delete(oldest, 0, 1)
		s.kept -= e.touched
		excess = append(excess, e)
	}
	return excess
}

// close gives back all memory.
func (s *segments) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.all {
		g.close()
	}
	s.all = nil
	clear(s.free)
	clear(s.empty)
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
	g.mem, err = unix.Mmap(int(file.Fd()), 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
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

// arena is the memory of one batch, and of later ones in its place: it only grows.
type arena struct {
	of      *arenas
	extents []extent
	bytes   int // of all
	used    int // of the last
}

// Take returns memory of any values, in a new extent if there is no room in the last one.
func (a *arena) Take(bytes int) ([]byte, error) {
	if n := len(a.extents); n == 0 || a.used+bytes > a.extents[n-1].size {
		e, err := a.of.pool.take(max(bytes, min(a.bytes, maxExtent)))
		if err != nil {
			return nil, err
		}
		a.extents = append(a.extents, e)
		a.bytes, a.used = a.bytes+e.size, 0
	}
	e := &a.extents[len(a.extents)-1]
	out := e.mem[e.at+a.used:][:bytes:bytes]
	a.used = min((a.used+bytes+wire.Alignment-1)&^(wire.Alignment-1), e.size)
	e.touched = max(e.touched, a.used)
	return out, nil
}

// Free gives the memory back.
func (a *arena) Free() {
	a.of.all = slices.DeleteFunc(a.of.all, func(x *arena) bool { return x == a })
	a.of.pool.give(a.extents)
	a.extents = nil
}

// find says where an array lies, if it does here.
func (a *arena) find(b []byte) (g *segment, offset int64, ok bool) {
	if a == nil {
		return nil, 0, false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for _, e := range a.extents {
		begin := uintptr(unsafe.Pointer(unsafe.SliceData(e.mem[e.at:])))
		if at >= begin && at < begin+uintptr(e.size) {
			return e.segment, int64(at-begin) + int64(e.at), true
		}
	}
	return nil, 0, false
}

// arenas are what one session's batches lie in.
type arenas struct {
	pool *segments
	all  []*arena
}

// next is client.Config.Memory.
func (m *arenas) next() client.BatchMemory {
	a := &arena{of: m}
	m.all = append(m.all, a)
	return a
}

// of returns the arena that a batch's arrays lie in.
func (m *arenas) of(arrays [][]byte) *arena {
	for _, array := range arrays {
		if len(array) == 0 {
			continue
		}
		for _, a := range m.all {
			if _, _, ok := a.find(array); ok {
				return a
			}
		}
	}
	return &arena{}
}

// release gives back all memory but that of some.
func (m *arenas) release(but map[*arena]bool) {
	m.all = slices.DeleteFunc(m.all, func(a *arena) bool {
		if !but[a] {
			m.pool.give(a.extents)
		}
		return !but[a]
	})
}
