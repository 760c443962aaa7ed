package master

import (
	"context"
	"sync"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/lru"
)

const (
	// listingBytes bounds the listings kept in memory: two of a million files.
	listingBytes = 512 << 20
	// fileBytes is what a listed file takes besides its URI and ETag, and maxFileBytes what it is thought to take
	// before it is read.
	fileBytes, maxFileBytes = 128, 256
)

// listings are those of the datasets that were planned lately, one for all sessions that read the same files, up to a
// number of bytes or one listing. It may be used by many goroutines at once.
type listings struct {
	kept *lru.Cache[string, *listing] // by the dataset's digest
}

// listing is one dataset's, which is read once by who asks first.
type listing struct {
	mu    sync.Mutex
	files []*pb.File
}

func newListings(limit int64) *listings { return &listings{lru.New[string, *listing](limit)} }

// get returns the listing of a dataset of so many files, which is read if it is not in memory. There is room made for
// it before.
func (l *listings) get(
	ctx context.Context, digest string, files int64, read func(context.Context) ([]*pb.File, error),
) ([]*pb.File, error) {
	one := l.kept.Add(digest, new(listing), files*maxFileBytes)
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.files == nil {
		found, err := read(ctx)
		if err != nil {
			return nil, err
		}
		one.files = found
		bytes := int64(0)
		for _, f := range found {
			bytes += fileBytes + int64(len(f.GetUri())+len(f.GetEtag()))
		}
		l.kept.Resize(digest, bytes)
	}
	return one.files, nil
}
