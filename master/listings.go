package master

import (
	"container/list"
	"context"
	"sync"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	// listingBytes bounds the listings kept in memory: two of a million files.
	listingBytes = 512 << 20
	// fileBytes is what a listed file takes besides its URI and ETag, and mostFileBytes what it is thought to take before it is read.
	fileBytes, mostFileBytes = 128, 256
)

// listings are those of the datasets that were planned lately, one for all sessions that read the same files, up to a number of bytes or
// one listing. It may be used by many goroutines at once.
type listings struct {
	limit int64

	mu       sync.Mutex
	size     int64
	byDigest map[string]*list.Element
	used     *list.List // of *listing, the latest used in front
}

// listing is one dataset's, which is read once by who asks first.
type listing struct {
	digest string
	bytes  int64 // listings.mu guards it

	mu    sync.Mutex
	files []*pb.File
}

func newListings(limit int64) *listings {
	return &listings{limit: limit, byDigest: map[string]*list.Element{}, used: list.New()}
}

// get returns the listing of a dataset of so many files, which is read if it is not in memory.
func (l *listings) get(ctx context.Context, digest string, files int64, read func(context.Context) ([]*pb.File, error)) ([]*pb.File, error) {
	one := l.find(digest, files)
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
		l.resize(one, bytes)
	}
	return one.files, nil
}

// find returns the place of a listing, and makes room for what is not read yet.
func (l *listings) find(digest string, files int64) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.byDigest[digest]; ok {
		l.used.MoveToFront(e)
		return e.Value.(*listing) //nolint:forcetypeassert // the list has nothing else
	}
	one := &listing{digest: digest, bytes: files * mostFileBytes}
	l.byDigest[digest] = l.used.PushFront(one)
	l.size += one.bytes
	l.shrink()
	return one
}

// resize says what a listing takes, unless it was dropped meanwhile.
func (l *listings) resize(one *listing, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.byDigest[one.digest]; !ok || e.Value != any(one) {
		return
	}
	l.size += bytes - one.bytes
	one.bytes = bytes
	l.shrink()
}

// shrink drops the listings that were used least lately. mu must be held.
func (l *listings) shrink() {
	for l.size > l.limit && l.used.Len() > 1 {
		oldest := l.used.Remove(l.used.Back()).(*listing) //nolint:forcetypeassert // the list has nothing else
		delete(l.byDigest, oldest.digest)
		l.size -= oldest.bytes
	}
}
