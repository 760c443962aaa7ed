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
	key := cacheKey{profile, f.GetUri(), f.GetEtag()}
	if found := c.find(key); found != nil {
		return found, nil
	}
	loaded, err := Load(ctx, st, profile, f)
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
		oldest := c.used.Remove(c.used.Back()).(*cached)
		delete(c.byKey, oldest.key)
		c.size -= oldest.footer.Size
	}
}
