package formats

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/beside"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/lru"
	"github.com/penstock-ml/penstock/internal/storage"
)

// atOnce bounds what calls without a budget of their own hold of footers at once, in bytes, or one does.
const atOnce = 128 << 20

const (
	// lookAgain is how long what a file beside another one says is believed to be current.
	lookAgain = time.Minute
	// lookedBytes bounds what is remembered of that, and lookedCost is what one takes beside its URI.
	lookedBytes, lookedCost = 8 << 20, 128
)

// Cache keeps the descriptions of files read lately, up to a number of bytes. A file is known by URI and ETag, so a
// changed one is never mistaken for the old; one whose ETag is weak is not kept. It may be used by many goroutines at
// once.
type Cache struct {
	kept   *lru.Cache[cacheKey, format.File]
	looked *lru.Cache[cacheKey, time.Time]    // whether they are current
	small  *lru.Cache[cacheKey, *index.Index] // nil: small files are not indexed
	beside *beside.Finder

	mu      sync.Mutex
	loading map[cacheKey]chan struct{} // closed once a file is described
	room    *Room
}

type cacheKey struct {
	profile, uri, etag, how string
	unknown                 bool // what it holds decides whether it is read as the dataset says
}

func keyOf(profile string, f *pb.File, how *pb.Format) cacheKey {
	key := cacheKey{profile: profile, uri: f.GetUri(), etag: f.GetEtag()}
	if how != nil {
		text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(how) // what was unmarshalled can be marshalled
		key.how, key.unknown = string(text), f.GetUnknown()
	}
	return key
}

// NewCache returns an empty cache of at most limit bytes, or one description.
func NewCache(limit int64) *Cache {
	room := NewRoom(atOnce)
	return &Cache{
		kept: lru.New[cacheKey, format.File](limit), loading: map[cacheKey]chan struct{}{},
		room: room, beside: beside.New(room.Enter), looked: lru.New[cacheKey, time.Time](lookedBytes),
	}
}

// Beside finds the index of a file that was made ahead of time; nil: there is none. An error says why one could not be
// used: it is never needed.
func (c *Cache) Beside(
	ctx context.Context, st storage.Storage, profile string, f *pb.File, want index.Of,
) (*index.Index, error) {
	return c.beside.Find(ctx, st, profile, f, want)
}

// Indexed is a file with the extents of the index beside it; nil: there is none that can be used: a scan is as good.
func (c *Cache) Indexed(ctx context.Context, in *format.Input, of format.Scanned) format.File {
	return found(ctx, in, of, c.beside)
}

// Load is the function of that name, but for files that are in memory, without a scan (see Whole), read as the dataset
// says how, and for no more than some sources, which the description then knows, beside those of earlier calls. Without
// sources it is not known yet what is read. Of calls for one file at once, one reads it, and the others wait. Calls
// without a take wait for each other's memory.
func (c *Cache) Load(
	ctx context.Context, st storage.Storage, profile string, f *pb.File, how *pb.Format, sources []*pb.Source,
	take func(int64) error,
) (format.File, error) {
	key := keyOf(profile, f, how)
	if storage.IsWeak(f) {
		return c.describe(ctx, &format.Input{
			Storage: st, Profile: profile, File: f, How: how, Sources: sources, Take: take,
		})
	}
	for {
		found, ok := c.kept.Get(key)
		if ok && found.Knows(sources) {
			in := &format.Input{Storage: st, Profile: profile, File: f, How: how}
			current, err := c.isCurrent(ctx, key, found, in)
			switch {
			case err != nil:
				return nil, err
			case current:
				return found, nil
			}
			found = nil
		}
		others, begun := c.begin(key)
		if begun {
			defer c.end(key)
			return c.load(ctx, key, &format.Input{
				Storage: st, Profile: profile, File: f, How: how, Sources: sources, Before: found, Take: take,
			})
		}
		select {
		case <-others:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Whole is Load, and of a file that says nothing about where its rows are, its index: one beside the data, or a scan.
func (c *Cache) Whole(
	ctx context.Context, st storage.Storage, profile string, f *pb.File, how *pb.Format, sources []*pb.Source,
) (format.File, error) {
	described, err := c.Load(ctx, st, profile, f, how, sources, nil)
	of, ok := described.(format.Scanned)
	if !ok {
		return described, err
	}
	return indexed(ctx, &format.Input{Storage: st, Profile: profile, File: f, How: how}, of, c.beside)
}

// isCurrent reports whether what is known of a file is so still. Its ETag says so, but for that which another file says
// of it: that is looked at now and then. Where the storage does not answer, what is known is believed until the next
// look.
func (c *Cache) isCurrent(ctx context.Context, key cacheKey, f format.File, in *format.Input) (bool, error) {
	of, ok := f.(format.Beside)
	if !ok {
		return true, nil
	}
	if when, ok := c.looked.Get(key); ok && time.Since(when) < lookAgain {
		return true, nil
	}
	current, err := of.IsCurrent(ctx, in)
	if storage.IsTransient(err) && ctx.Err() == nil {
		current, err = true, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", key.uri, err)
	}
	if current {
		c.looked.Put(key, time.Now(), int64(len(key.uri))+lookedCost)
	}
	return current, nil
}

func (c *Cache) load(ctx context.Context, key cacheKey, in *format.Input) (format.File, error) {
	loaded, err := c.describe(ctx, in)
	if err != nil {
		return nil, err
	}
	if _, ok := loaded.(format.Beside); ok {
		c.looked.Put(key, time.Now(), int64(len(key.uri))+lookedCost)
	}
	c.indexSmall(ctx, key, in, loaded)
	c.kept.Put(key, loaded, loaded.Size())
	return loaded, nil
}

// describe reads a description.
func (c *Cache) describe(ctx context.Context, in *format.Input) (format.File, error) {
	if in.Take == nil {
		take, leave := c.room.Enter(ctx)
		defer leave()
		in.Take = take
	}
	return load(ctx, in)
}

// begin notes that a file is being described, unless it is so already: then others is closed at the end of that.
func (c *Cache) begin(key cacheKey) (others <-chan struct{}, begun bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if others, ok := c.loading[key]; ok {
		return others, false
	}
	c.loading[key] = make(chan struct{})
	return nil, true
}

func (c *Cache) end(key cacheKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.loading[key])
	delete(c.loading, key)
}

// Has reports whether what is known of a file's sources is in memory.
func (c *Cache) Has(profile string, f *pb.File, how *pb.Format, sources []*pb.Source) bool {
	found, ok := c.kept.Get(keyOf(profile, f, how))
	return ok && found.Knows(sources)
}

// Size is the memory that the descriptions take.
func (c *Cache) Size() int64 { return c.kept.Size() }

// Shrink forgets descriptions until n bytes are free, or none are left.
func (c *Cache) Shrink(n int64) { c.kept.Shrink(n) }
