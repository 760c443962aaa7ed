package cache

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
)

// walkers is how many folders are walked at once: it is the disk that takes the time.
const walkers = 8

// load walks all folders, each once. Who wants a key before its folder was walked walks it. Nothing is written before
// all were: else there could be more than MaxBytes.
func (c *Cache) load() {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.walks = cancel, &errgroup.Group{}
	c.walks.Go(func() error {
		defer close(c.loaded)
		var group errgroup.Group
		group.SetLimit(walkers)
		for n := range c.folders {
			group.Go(func() error {
				if ctx.Err() == nil {
					c.walk(n)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil || ctx.Err() != nil {
			return err
		}
		c.rank()
		return c.reserve(0) // there may have been room for more before
	})
}

// Loaded is closed when all that the folder has was found: the cache can be written to from then on.
func (c *Cache) Loaded() <-chan struct{} { return c.loaded }

// walk finds what a folder has, once.
func (c *Cache) walk(n int) {
	f := &c.folders[n]
	f.walked.Do(func() {
		files, err := os.ReadDir(c.folderDir(n))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the first value makes it
			_ = c.trip(err) // which logs it
		}
		found := make([]entry, 0, len(files))
		for _, file := range files {
			if e, ok := c.inspect(n, file); ok {
				found = append(found, e)
			}
		}
		for _, e := range found {
			c.add(e)
		}
	})
}

// inspect returns the entry of a file, if it is one of ours. Others stay what they are. One of no size that a value's
// file has is removed.
func (c *Cache) inspect(n int, file fs.DirEntry) (e entry, ok bool) {
	if !e.key.parse(file.Name()) || int(e.key[0]) != n || !file.Type().IsRegular() {
		return e, false
	}
	info, err := file.Info()
	if err != nil {
		return e, false // it went
	}
	if _, ok := valueSize(info.Size()); !ok {
		_ = os.Remove(filepath.Join(c.folderDir(n), file.Name())) // the next start tries again
		return e, false
	}
	e.size, e.wanted = info.Size(), info.ModTime().UnixNano()
	return e, true
}

// parse reads the name of a file. It reports whether it is one's.
func (k *Key) parse(name string) bool {
	if len(name) != hex.EncodedLen(len(k)) {
		return false
	}
	_, err := hex.Decode(k[:], []byte(name))
	return err == nil && k.String() == name
}

// rank tells the policy of all entries, from the one that was wanted least lately. It sorts unlocked, since values are
// served.
func (c *Cache) rank() {
	all := c.all()
	slices.SortFunc(all, func(a, b use) int { return cmp.Compare(a.wanted, b.wanted) })
	c.mu.Lock()
	defer c.mu.Unlock()
	var again []use
	for _, u := range all {
		e := c.index.entries[u.n]
		if e.stamp != u.stamp {
			continue // removed
		}
		c.policy.Added(u.n, e.key)
		if e.wanted != u.wanted {
			again = append(again, u)
		}
	}
	for _, u := range again {
		c.policy.Wanted(u.n)
	}
	c.ranked = true
}

// use is when an entry was wanted.
type use struct {
	n, stamp uint32
	wanted   int64
}

func (c *Cache) all() []use {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]use, 0, len(c.index.of))
	for n, e := range c.index.entries {
		if e.stamp != 0 {
			all = append(all, use{uint32(n), e.stamp, e.wanted})
		}
	}
	return all
}
