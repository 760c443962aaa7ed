// Package reads keeps what a process read of files: a decorator of storage. It keeps units, the ranges that readers ask
// for (column chunks, ranges of pages, extents), and never what lies between them, so that other readers find them
// whatever else these want. A small file that was read as a whole is a unit, and has the parts of it that are wanted
// later. A unit is known by profile, URI, ETag and range: it is exact and never stale. What has no strong ETag, or lies
// on this machine's disk, is not kept.
//
// A Reads may be used by many goroutines at once. Of readers of a unit at once one reads it, and the others wait for it
// a little. Run writes what is to be kept.
package reads

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/cache"
	"github.com/penstock-ml/penstock/internal/storage"
)

const (
	// minUnit is what a unit must have to be worth a file, which takes whole pages of the disk.
	minUnit = 4 << 10
	// maxWhole is up to what size a file is looked for as a whole, too: readers read small files so at first, to find
	// out what they hold.
	maxWhole = 1 << 20
	// patience is how long a reader waits for another one that reads the same.
	patience = time.Second
)

// MaxWaiting bounds the bytes that wait to be written. What is beyond it is not kept.
const MaxWaiting = 64 << 20

// Reads is a Storage that keeps units of files while Run runs.
type Reads struct {
	storage.Storage
	units *cache.Cache

	hits, hitBytes, misses, missBytes, waits, dropped atomic.Uint64

	mu      sync.Mutex
	reading map[cache.Key]chan struct{} // closed once it was read, or could not be
	queued  map[cache.Key][]byte        // to be written
	waiting int                         // bytes that wait to be written, or for a place in queued
	queue   chan cache.Key
}

// New returns st with the units of a cache, which stays the caller's.
func New(st storage.Storage, units *cache.Cache) *Reads {
	return &Reads{
		Storage: st, units: units, reading: map[cache.Key]chan struct{}{}, queued: map[cache.Key][]byte{},
		queue: make(chan cache.Key, MaxWaiting/minUnit),
	}
}

// keyOf names a unit.
func keyOf(profile string, f *pb.File, of storage.Range) cache.Key {
	var b []byte
	for _, part := range []string{storage.ProfileName(profile), f.GetUri(), f.GetEtag()} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	b = binary.AppendUvarint(b, uint64(f.GetSize()))
	b = binary.AppendUvarint(b, uint64(of.Offset))
	b = binary.AppendUvarint(b, uint64(of.Length))
	return sha256.Sum256(b)
}

// Fill is that of storage.Keeper.
func (r *Reads) Fill(
	ctx context.Context, profile string, f *pb.File, ranges []storage.Range, into [][]byte,
	read func(wanted []bool) error,
) error {
	c := call{r: r, ranges: ranges, into: into, keys: make([]cache.Key, len(ranges)), wanted: make([]bool, len(ranges))}
	kept := f.GetEtag() != "" && !storage.IsWeak(f) && !storage.IsLocal(f)
	if size := f.GetSize(); kept && size <= maxWhole {
		c.whole, c.size = keyOf(profile, f, storage.Range{Length: size}), size
	}
	var theirs []claimed
	for i, of := range ranges {
		if of.Length == 0 {
			continue
		}
		if kept && of.Length >= minUnit {
			c.keys[i] = keyOf(profile, f, of)
		}
		if c.hit(i) {
			continue
		}
		if c.keys[i] == (cache.Key{}) {
			c.wanted[i] = true
		} else if others := c.claim(i); others != nil {
			theirs = append(theirs, claimed{i, others})
		}
	}
	if err := c.read(read); err != nil {
		return err
	}
	if len(theirs) == 0 {
		return nil
	}
	if err := c.await(ctx, theirs); err != nil {
		return err
	}
	return c.read(read)
}

// claimed is a range that another call reads.
type claimed struct {
	i    int
	done <-chan struct{}
}

// call is one of Fill.
type call struct {
	r      *Reads
	ranges []storage.Range
	into   [][]byte
	keys   []cache.Key // zero: not kept
	whole  cache.Key   // of the file, if it is small, and of so many bytes; or zero
	size   int64
	wanted []bool // to be read
	mine   []int  // of these those that others wait for
}

// hit fills a range with what is kept of it, and reports whether it could.
func (c *call) hit(i int) bool {
	of, into := c.ranges[i], c.into[i]
	if !c.r.read(c.keys[i], of.Length, into, 0) && !c.r.read(c.whole, c.size, into, of.Offset) {
		return false
	}
	c.r.hits.Add(1)
	c.r.hitBytes.Add(uint64(len(into)))
	return true
}

// read reads a part of a unit of size bytes, if it is kept.
func (r *Reads) read(key cache.Key, size int64, into []byte, from int64) bool {
	if key == (cache.Key{}) {
		return false
	}
	r.mu.Lock()
	data, ok := r.queued[key]
	r.mu.Unlock()
	if ok {
		copy(into, data[from:])
		return true
	}
	v, ok := r.units.Get(key)
	if !ok {
		return false
	}
	defer v.Close() //nolint:errcheck // it was read
	if v.Size() != size {
		return false
	}
	_, err := v.ReadAt(into, from)
	return err == nil
}

// claim has the range read by this call, unless another one does.
func (c *call) claim(i int) <-chan struct{} {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if others, ok := c.r.reading[c.keys[i]]; ok {
		return others
	}
	c.r.reading[c.keys[i]] = make(chan struct{})
	c.wanted[i], c.mine = true, append(c.mine, i)
	return nil
}

// read reads what is wanted, and keeps it.
func (c *call) read(read func(wanted []bool) error) error {
	if !slices.Contains(c.wanted, true) {
		return nil
	}
	ok := false
	defer func() { c.release(ok) }() // read may panic
	err := read(c.wanted)
	ok = err == nil
	return err
}

// release lets the others go on who wait for what this call has read, and keeps that if it could be read.
func (c *call) release(ok bool) {
	for i, wanted := range c.wanted {
		if ok && wanted {
			c.r.misses.Add(1)
			c.r.missBytes.Add(uint64(len(c.into[i])))
			if c.keys[i] != (cache.Key{}) {
				c.r.keep(c.keys[i], c.into[i])
			}
		}
		c.wanted[i] = false
	}
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	for _, i := range c.mine {
		close(c.r.reading[c.keys[i]])
		delete(c.r.reading, c.keys[i])
	}
	c.mine = nil
}

// await waits for what other calls read, and wants what is not there then.
func (c *call) await(ctx context.Context, theirs []claimed) error {
	enough := time.NewTimer(patience)
	defer enough.Stop()
	c.r.waits.Add(uint64(len(theirs)))
	late := false
	for _, of := range theirs {
		if !late {
			select {
			case <-of.done:
			case <-enough.C:
				late = true
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		c.wanted[of.i] = !c.hit(of.i)
	}
	return nil
}

// keep has a unit written, if there is room for it until then. Data stays the caller's.
func (r *Reads) keep(key cache.Key, data []byte) {
	if !r.reserve(len(data)) {
		r.dropped.Add(1)
		return
	}
	data = bytes.Clone(data)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.queued[key]; ok || len(r.queue) == cap(r.queue) {
		r.waiting -= len(data)
		return
	}
	r.queued[key] = data
	r.queue <- key
}

func (r *Reads) reserve(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting+n > MaxWaiting {
		return false
	}
	r.waiting += n
	return true
}
