package formats

import (
	"context"
	"errors"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/lru"
)

const (
	// smallPacked bounds a compressed file that is indexed with its front: what it holds is a thousand times as much at
	// most.
	smallPacked = 16 << 10
	// smallTaken bounds the memory for which the scan of a small file asks.
	smallTaken = 16 << 20
)

// IndexSmall has files be indexed that are read whole for their front, so that nobody need read them again: it takes
// less than to ask for it. Their indexes take so many bytes at most. It is called before the cache is used.
func (c *Cache) IndexSmall(limit int64) *Cache {
	c.small = lru.New[cacheKey, *index.Index](limit)
	return c
}

// Small is the index of a file that was read whole for its front; nil: it was not, or cannot be indexed, or that was
// long ago.
func (c *Cache) Small(profile string, f *pb.File, how *pb.Format) *index.Index {
	if c.small == nil {
		return nil
	}
	x, _ := c.small.Get(keyOf(profile, f, how))
	return x
}

// indexSmall indexes a file that was just described, if it was read whole. What is wrong with it, who needs its index
// finds out.
func (c *Cache) indexSmall(ctx context.Context, key cacheKey, in *format.Input, described format.File) {
	of, ok := described.(format.Scanned)
	if c.small == nil || !ok || !in.Whole() || !cheap(in, of) {
		return
	}
	one, left := *in, int64(smallTaken)
	one.Take = func(n int64) error {
		if left -= n; left < 0 {
			return errors.New("it is not small")
		}
		return nil
	}
	if x, err := index.Scan(ctx, &one, of); err == nil {
		c.small.Put(key, x, int64(len(x.Bytes()))+256)
	}
}

// cheap reports whether a file holds little, decompressed.
func cheap(in *format.Input, of format.File) bool {
	packed, ok := of.(interface{ Compression() string })
	_, raised := in.How.GetOptions()["max_ratio"]
	return ok && (packed.Compression() == "" || in.File.GetSize() <= smallPacked && !raised)
}
