package memory

import (
	"slices"
	"time"
)

// Pooled is what an account leaves when it is closed: memory that spares the next one of its key fresh memory, which is
// cleared, brought in page by page, and collected.
type Pooled interface {
	Key() string
	Size() int64
	// Drop gives up what the collector does not.
	Drop()
}

// Pool is what nobody works with, in the order in which it came. It is in use only because there is room.
type Pool struct {
	entries []entry
	size    int64
}

type entry struct {
	Pooled
	since time.Time
}

// Len is how many there are.
func (p *Pool) Len() int { return len(p.entries) }

// Size is how many bytes they hold.
func (p *Pool) Size() int64 { return p.size }

// Put adds one. It must not change until it is taken.
func (p *Pool) Put(x Pooled) {
	p.entries = append(p.entries, entry{x, time.Now()})
	p.size += x.Size()
}

// Take takes the latest of a key, which is the likeliest to be in a cache; nil if there is none.
func (p *Pool) Take(key string) Pooled {
	for i, x := range slices.Backward(p.entries) {
		if x.Key() == key {
			return p.remove(i).Pooled
		}
	}
	return nil
}

// Expire drops what nobody has taken since a time.
func (p *Pool) Expire(before time.Time) {
	for len(p.entries) > 0 && p.entries[0].since.Before(before) {
		p.dropOldest()
	}
}

// Shrink drops n bytes, or all, the oldest first, and returns how many of them there were not.
func (p *Pool) Shrink(n int64) int64 {
	for n > 0 && len(p.entries) > 0 {
		n -= p.dropOldest()
	}
	return max(0, n)
}

// dropOldest returns how many bytes it had.
func (p *Pool) dropOldest() int64 {
	x := p.remove(0)
	x.Drop()
	return x.Size()
}

func (p *Pool) remove(i int) entry {
	x := p.entries[i]
	p.entries = slices.Delete(p.entries, i, i+1)
	p.size -= x.Size()
	return x
}
