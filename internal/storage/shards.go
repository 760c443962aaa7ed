package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	// shardIndex names the shards of a folder of MDS, and of those below it. Shards do not need it to be read; what it
	// tells is whether all of them are there.
	shardIndex = "index.json"
	// maxShardIndex bounds such a file, maxShardIndexes how many of a listing are looked at, and shardIndexesAtOnce how
	// many are at once.
	maxShardIndex      = 64 << 20
	maxShardIndexes    = 10_000
	shardIndexesAtOnce = 4
)

// checkShards fails if shards are missing, or have another size, that an index of a folder names.
func (s *Store) checkShards(
	ctx context.Context, may May, profile string, files, indexes []*pb.File,
) error {
	sizes, folders := map[string]int64{}, map[string]bool{}
	for _, f := range files {
		if FormatOf(f.GetUri()) != "MDS" {
			continue
		}
		sizes[f.GetUri()] = f.GetSize()
		for dir := path.Dir(f.GetUri()); len(dir) > 1 && !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(shardIndexesAtOnce)
	for _, index := range indexes {
		if !folders[path.Dir(index.GetUri())] {
			continue
		}
		group.Go(func() error {
			if err := s.checkShardsOf(ctx, may, profile, index, sizes); err != nil {
				dir := strings.TrimSuffix(index.GetUri(), shardIndex)
				return fmt.Errorf("%s: %w; or name the shards themselves, as %s*.mds, to read those that are there",
					index.GetUri(), err, dir)
			}
			return nil
		})
	}
	return group.Wait()
}

// shardFile is a file of a shard: as it is, or compressed.
type shardFile struct {
	Name  string `json:"basename"`
	Bytes int64  `json:"bytes"`
}

// shards are what an index tells of them.
type shards struct {
	Shards []struct {
		Format string     `json:"format"`
		Raw    *shardFile `json:"raw_data"`
		Zip    *shardFile `json:"zip_data"`
	} `json:"shards"`
}

func (s *Store) checkShardsOf(
	ctx context.Context, may May, profile string, index *pb.File, sizes map[string]int64,
) error {
	if index.GetSize() > maxShardIndex {
		return fmt.Errorf("it has %s, and %s may be: divide the shards into more folders",
			humanize.IBytes(uint64(index.GetSize())), humanize.IBytes(maxShardIndex))
	}
	data := make([]byte, index.GetSize())
	if err := s.readIf(ctx, may, profile, index, data); err != nil {
		return err
	}
	var of shards
	if json.Unmarshal(data, &of) != nil {
		return errors.New("it is no index of shards of MDS, or was cut off: write it again")
	}
	dir := strings.TrimSuffix(index.GetUri(), shardIndex)
	for _, shard := range of.Shards {
		if shard.Format != "mds" {
			continue
		}
		if err := checkShard(dir, sizes, shard.Raw, shard.Zip); err != nil {
			return err
		}
	}
	return nil
}

// checkShard fails unless one of a shard's files is there, and those that are have the size that the index says.
func checkShard(dir string, sizes map[string]int64, of ...*shardFile) error {
	of = slices.DeleteFunc(of, func(f *shardFile) bool { return f == nil })
	found := false
	for _, f := range of {
		if strings.HasPrefix(f.Name, "/") || slices.Contains(strings.Split(f.Name, "/"), "..") {
			return fmt.Errorf("it names shard %q, which is not below its folder: write it again", f.Name)
		}
		size, ok := sizes[dir+f.Name]
		if ok && size != f.Bytes {
			return fmt.Errorf("shard %s has %d bytes, and %d by this index: write one of them again", f.Name, size,
				f.Bytes)
		}
		found = found || ok
	}
	if !found && len(of) > 0 {
		return fmt.Errorf("shard %s, which it names, is missing: bring it back, or write the index again",
			of[len(of)-1].Name)
	}
	return nil
}
