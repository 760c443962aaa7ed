package formats

import (
	"context"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/lru"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Cache keeps the descriptions of files read lately, up to a number of bytes. A file is known by URI and ETag, so a
// changed one is never mistaken for the old. It may be used by many goroutines at once.
type Cache struct {
	kept *lru.Cache[cacheKey, format.File]
}

type cacheKey struct{ profile, uri, etag string }

// NewCache returns an empty cache of at most limit bytes, or one description.
func NewCache(limit int64) *Cache { return &Cache{lru.New[cacheKey, format.File](limit)} }

// Load is the function of that name, but for files that are in memory.
func (c *Cache) Load(
	ctx context.Context, st storage.Storage, profile string, f *pb.File, take func(int64) error,
) (format.File, error) {
	key := cacheKey{profile, f.GetUri(), f.GetEtag()}
	if found, ok := c.kept.Get(key); ok {
		return found, nil
	}
	loaded, err := Load(ctx, st, profile, f, take)
	if err != nil {
		return nil, err
	}
	return c.kept.Add(key, loaded, loaded.Size()), nil
}

// Has reports whether the description of a file is in memory.
func (c *Cache) Has(profile string, f *pb.File) bool {
	_, ok := c.kept.Get(cacheKey{profile, f.GetUri(), f.GetEtag()})
	return ok
}

// Size is the memory that the descriptions take.
func (c *Cache) Size() int64 { return c.kept.Size() }

// Shrink forgets descriptions until n bytes are free, or none are left.
func (c *Cache) Shrink(n int64) { c.kept.Shrink(n) }
