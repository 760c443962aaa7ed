package cache

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// rest is for how long a disk that failed is not written to.
const rest = time.Minute

// trouble is what a disk that failed leaves.
type trouble struct {
	until time.Time
	left  []leftover
}

// leftover is a file that could not be removed. Its bytes count on.
type leftover struct {
	key  Key
	cost int64
}

// persist does something to the disk, and evicts for as long as there is no room for it.
func (c *Cache) persist(do func() error) error {
	for {
		err := do()
		if err == nil || errors.Is(err, ErrExists) || errors.Is(err, ErrClosed) {
			return err
		}
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			return c.trip(err)
		}
		if some, evicting := c.evict(); !some || evicting != nil {
			return c.trip(errors.Join(err, evicting))
		}
	}
}

// trip says that the disk failed.
func (c *Cache) trip(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tripped(err)
	return fmt.Errorf("%w: %w", ErrOff, err)
}

// tripped is trip with c.mu held.
func (c *Cache) tripped(err error) {
	if now := time.Now(); !now.Before(c.trouble.until) {
		c.trouble.until = now.Add(rest)
		c.log.Warn("the cache's disk fails and is not written to for a while", "folder", c.dir,
			"for", rest, "error", err)
	}
}

// leave remembers a file that cannot be removed. c.mu must be held.
func (c *Cache) leave(key Key, e entry, err error) {
	c.trouble.left = append(c.trouble.left, leftover{key, e.cost()})
	c.tripped(err)
}

// ready says why the cache is not to be written to. What could not be removed is tried first.
func (c *Cache) ready() error {
	left, err := c.takeLeft()
	if err != nil {
		return err
	}
	for i, l := range left {
		if err := c.settle(l); err != nil {
			c.putLeft(left[i:])
			return c.trip(err)
		}
	}
	return nil
}

func (c *Cache) takeLeft() ([]leftover, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, ErrClosed
	case time.Now().Before(c.trouble.until):
		return nil, ErrOff
	}
	left := c.trouble.left
	c.trouble.left = nil
	return left, nil
}

func (c *Cache) putLeft(left []leftover) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble.left = slices.Concat(c.trouble.left, left)
}

// settle removes a leftover, unless its key has a value anew, which took its place.
func (c *Cache) settle(l leftover) error {
	f := &c.folders[l.key[0]]
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.vacant(l.key) == nil {
		if err := os.Remove(c.path(l.key)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= l.cost
	return nil
}
