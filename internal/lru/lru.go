// Package lru keeps what was used lately, up to a number of bytes.
package lru

import (
	"container/list"
	"sync"
)

// Cache keeps values by key, up to a number of bytes, or one value. What was used least lately goes first. It may be
// used by many goroutines at once.
type Cache[K comparable, V any] struct {
	limit int64

	mu    sync.Mutex
	size  int64
	byKey map[K]*list.Element
	used  *list.List // of *entry, the latest used in front
}

type entry[K comparable, V any] struct {
	key   K
	value V
	size  int64
}

// New returns an empty cache of at most limit bytes, or one value.
func New[K comparable, V any](limit int64) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, byKey: map[K]*list.Element{}, used: list.New()}
}

// Get returns the value of a key, if it is there, which is the latest used then.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get(key)
}

func (c *Cache[K, V]) get(key K) (value V, ok bool) {
	e, ok := c.byKey[key]
	if !ok {
		return value, false
	}
	c.used.MoveToFront(e)
	return entryOf[K, V](e).value, true
}

// Add keeps a value of so many bytes, unless there is one of the key; it returns the one that there is then.
func (c *Cache[K, V]) Add(key K, value V, size int64) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if there, ok := c.get(key); ok {
		return there
	}
	c.add(key, value, size)
	return value
}

// add keeps the value of a key that has none. mu must be held.
func (c *Cache[K, V]) add(key K, value V, size int64) {
	c.byKey[key] = c.used.PushFront(&entry[K, V]{key, value, size})
	c.size += size
	c.bound()
}

// Put keeps a value of so many bytes, in place of the one that there may be of the key.
func (c *Cache[K, V]) Put(key K, value V, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.drop(e)
	}
	c.add(key, value, size)
}

// Resize says how many bytes the value of a key has, if it is there.
func (c *Cache[K, V]) Resize(key K, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.size += size - entryOf[K, V](e).size
		entryOf[K, V](e).size = size
		c.bound()
	}
}

// Size is how many bytes the values have.
func (c *Cache[K, V]) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// Shrink drops values until n bytes are free, or none are left.
func (c *Cache[K, V]) Shrink(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for until := c.size - n; c.size > until && c.used.Len() > 0; {
		c.drop(c.used.Back())
	}
}

// bound drops what is too much. mu must be held.
func (c *Cache[K, V]) bound() {
	for c.size > c.limit && c.used.Len() > 1 {
		c.drop(c.used.Back())
	}
}

func (c *Cache[K, V]) drop(e *list.Element) {
	c.used.Remove(e)
	delete(c.byKey, entryOf[K, V](e).key)
	c.size -= entryOf[K, V](e).size
}

func entryOf[K comparable, V any](e *list.Element) *entry[K, V] {
	return e.Value.(*entry[K, V]) //nolint:forcetypeassert // the list has nothing else
}
