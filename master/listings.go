package master

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

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

// listings are those of the datasets that were planned lately, one for all sessions that read the same files by the
// same URIs, up to a number of bytes or one listing. It may be used by many goroutines at once.
type listings struct {
	kept *lru.Cache[string, *listing] // by listingKey
}

// listing is one dataset's, which is read once by who asks first.
type listing struct {
	mu    sync.Mutex
	files []*pb.File
}

func newListings(limit int64) *listings { return &listings{lru.New[string, *listing](limit)} }

// listingKey tells listings apart. The dataset's digest names its files; where keys of partitions begin in their URIs,
// and which are unknown, follows from the dataset's URIs and format.
func listingKey(s *pb.Session) (string, error) {
	d := s.GetSpec().GetDataset()
	how, err := proto.MarshalOptions{Deterministic: true}.Marshal(&pb.Dataset{
		Uri: d.GetUri(), Format: d.GetFormat(), Split: d.GetSplit(), Subset: d.GetSubset(),
	})
	if err != nil {
		return "", fmt.Errorf("master: session %s: dataset: %w", s.GetId(), err)
	}
	hash := sha256.Sum256(how)
	return string(s.GetDatasetDigest()) + string(hash[:]), nil
}

// get returns the listing of so many files that a key tells, which is read if it is not in memory. There is room made
// for it before.
func (l *listings) get(
	ctx context.Context, key string, files int64, read func(context.Context) ([]*pb.File, error),
) ([]*pb.File, error) {
	one := l.kept.Add(key, new(listing), files*maxFileBytes)
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
		l.kept.Resize(key, bytes)
	}
	return one.files, nil
}
