package footer

import (
	"container/list"
	"context"
	"sync"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Cache keeps the footers of files read lately, up to a number of bytes. A file is known by URI and ETag, so a
// changed one is never mistaken for the old. It may be used by many goroutines at once.
type Cache struct {
	limit int64

	mu    sync.Mutex
	size  int64
	byKey map[cacheKey]*list.Element
	used  *list.List // of *cached, the latest used in front
}

type cacheKey struct{ profile, uri, etag string }

type cached struct {
	key    cacheKey
	footer *Footer
}

// NewCache returns an empty cache of at most limit bytes, or one footer.
func NewCache(limit int64) *Cache {
	return &Cache{limit: limit, byKey: map[cacheKey]*list.Element{}, used: list.New()}
}

// Load returns the footer of a file, from memory if it is there.
func (c *Cache) Load(ctx context.Context, st storage.Storage, profile string, f *pb.File) (*Footer, error) {
	return c.LoadWithin(ctx, st, profile, f, nil)
}

// LoadWithin is Load where memory is bounded: see the function of that name.
func (c *Cache) LoadWithin(ctx context.Context, st storage.Storage, profile string, f *pb.File, take func(int64) error) (*Footer, error) {
	key := cacheKey{profile, f.GetUri(), f.GetEtag()}
	if found := c.find(key); found != nil {
		return found, nil
	}
	loaded, err := LoadWithin(ctx, st, profile, f, take)
	if err != nil {
		return nil, err
	}
	c.add(key, loaded)
	return loaded, nil
}

func (c *Cache) find(key cacheKey) *Footer {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil
	}
	c.used.MoveToFront(e)
	return e.Value.(*cached).footer
}

func (c *Cache) add(key cacheKey, f *Footer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKey[key]; ok {
		return
	}
	c.byKey[key] = c.used.PushFront(&cached{key, f})
	c.size += f.Size
	for c.size > c.limit && c.used.Len() > 1 {
		c.dropOldest()
	}
}

// Has reports whether the footer of a file is in memory.
func (c *Cache) Has(profile string, f *pb.File) bool {
	return c.find(cacheKey{profile, f.GetUri(), f.GetEtag()}) != nil
}

// Size is the memory that the footers take.
func (c *Cache) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// Shrink forgets footers until n bytes are free, or none are left.
func (c *Cache) Shrink(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for until := c.size - n; c.size > until && c.used.Len() > 0; {
		c.dropOldest()
	}
}

func (c *Cache) dropOldest() {
	oldest := c.used.Remove(c.used.Back()).(*cached)
	delete(c.byKey, oldest.key)
	c.size -= oldest.footer.Size
}
