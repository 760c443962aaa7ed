package command

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/penstock-ml/penstock/internal/cache"
	"github.com/penstock-ml/penstock/internal/cache/reads"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/process"
)

// CacheFlags say where a worker keeps what it read of files.
type CacheFlags struct {
	dir   string
	bytes cli.Bytes
}

// Register adds the flags to a command.
func (f *CacheFlags) Register(flags *pflag.FlagSet) {
	f.bytes = 16 << 30
	flags.StringVar(&f.dir, "cache-dir", "",
		"directory on a local disk where each worker keeps what it reads from object storage (default: none)")
	flags.Var(&f.bytes, "cache-bytes", "bytes that each worker may keep in --cache-dir")
}

// Args are the flags as they were given, for another worker.
func (f *CacheFlags) Args() []string {
	if f.dir == "" {
		return nil
	}
	return []string{"--cache-dir=" + f.dir, fmt.Sprint("--cache-bytes=", int64(f.bytes))}
}

// leastMean is what values have on average where all of --cache-bytes can be used: it bounds their number, since each
// takes memory.
const leastMean = 64 << 10

// memoryOf is what a cache takes of memory, nothing if it is nil.
func memoryOf(c *cache.Cache) int64 {
	if c == nil {
		return 0
	}
	return reads.MaxWaiting + c.Memory()
}

// maxCaches bounds the workers of a machine that share a directory.
const maxCaches = 256

// Open opens the first cache below the directory that no other worker has, so that a worker that is started again finds
// one; nil: there is to be none.
func (f *CacheFlags) Open(logger *slog.Logger) (*cache.Cache, error) {
	if f.dir == "" {
		return nil, nil
	}
	if f.bytes <= 0 {
		return nil, fmt.Errorf("--cache-bytes: want more than 0, found %v", &f.bytes)
	}
	for i := range maxCaches {
		dir := filepath.Join(f.dir, strconv.Itoa(i))
		c, err := cache.Open(cache.Config{
			Dir: dir, MaxBytes: int64(f.bytes), MaxEntries: 1 + int(f.bytes/leastMean), Logger: logger,
		})
		if errors.Is(err, process.ErrLocked) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("--cache-dir: %w", err)
		}
		return c, nil
	}
	return nil, fmt.Errorf("--cache-dir: %d workers have caches in %s: name another directory", maxCaches, f.dir)
}
