// Package cache keeps values by key as files on a local disk, within a number of bytes.
//
//	DIR/lock        one process at a time has the folder
//	DIR/v1/new/     values that are being written
//	DIR/v1/XX/KEY   values, by their keys' hexadecimal digits and the first two of these
//
// A file is the value and a trailer of checksums (trailer.go). Nothing is synced: the trailer tells what a crash of the
// machine spoilt. What there is stands in memory (index.go). It is found by walking the folders at the start, while
// values are served already (walk.go). When a value was last wanted is not kept on the disk. A Policy says what is
// evicted to make room.
//
// A cache never fails its callers' reads: what cannot be read is a miss, and is removed. A full disk evicts. A disk
// that fails else is not written to for a while (trouble.go). A Cache and its Values may be used by many goroutines at
// once.
package cache

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/internal/process"
)

// Errors of writing. None of them is a reason for its caller to fail.
var (
	ErrLoading = errors.New("the cache is still finding out what it has; write to it after Loaded")
	ErrFull    = errors.New("the cache has no room: what is being written takes it all; give it more bytes")
	ErrOff     = errors.New("the cache's disk failed, and is not written to for a while; the log says why")
	ErrClosed  = errors.New("the cache is closed")
	ErrExists  = errors.New("the key has a value")
)

// Key is the digest of what names a value. One key has one value for ever.
type Key [32]byte

func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Config says what a Cache is. Dir and MaxBytes are needed.
type Config struct {
	// Dir is a folder for this cache alone, on a local disk. It is made.
	Dir string
	// MaxBytes bounds the files, each in whole pages of 4 KiB.
	MaxBytes int64
	// MaxEntries bounds the values, which take 160 bytes of memory each; 0: it does not. Writers at once may go beyond
	// it by one each.
	MaxEntries int
	// Policy is this cache's alone; nil is least recently used first.
	Policy Policy
	// Logger is slog.Default if nil.
	Logger *slog.Logger
}

// Cache keeps values by key. Close it.
type Cache struct {
	dir    string // DIR/v1
	max    int64
	most   int // entries
	log    *slog.Logger
	lock   *os.File
	write  func(*os.File, []byte) (int, error) // (*os.File).Write, but for tests
	walks  *errgroup.Group
	cancel context.CancelFunc
	loaded chan struct{}

	folders      [256]folder
	hits, misses atomic.Uint64

	mu       sync.Mutex
	index    index
	policy   Policy // of all entries, once ranked
	ranked   bool
	closed   bool
	bytes    int64 // of files
	reserved int64 // for values that are being written
	trouble  trouble
	evicted  Ages
	spoiled  uint64
}

// folder is the values whose keys begin with one byte.
type folder struct {
	walked sync.Once
	mu     sync.Mutex // held while a file here gets or loses its name. It is locked before Cache.mu
}

// Open opens the cache of a folder, which no other process may have open. Reads are served at once.
func Open(cfg Config) (*Cache, error) {
	if cfg.Dir == "" || cfg.MaxBytes <= 0 {
		return nil, fmt.Errorf("cache: folder %q of %d bytes; name a folder and more than 0 bytes", cfg.Dir,
			cfg.MaxBytes)
	}
	c := &Cache{
		dir: filepath.Join(cfg.Dir, "v1"), max: cfg.MaxBytes, most: cfg.MaxEntries, policy: cfg.Policy,
		log: cfg.Logger, write: (*os.File).Write, loaded: make(chan struct{}), index: newIndex(),
	}
	if c.most <= 0 {
		c.most = math.MaxInt
	}
	if c.policy == nil {
		c.policy = NewLRU()
	}
	if c.log == nil {
		c.log = slog.Default()
	}
	if err := os.MkdirAll(c.newDir(), 0o700); err != nil {
		return nil, fmt.Errorf("cache: make its folder: %w; name a folder that can be written to", err)
	}
	var err error
	if c.lock, err = lock(cfg.Dir); err != nil {
		return nil, err
	}
	if err := c.sweep(); err != nil {
		c.lock.Close()
		return nil, err
	}
	c.load()
	return c, nil
}

func lock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cache: %w; name a folder that can be written to", err)
	}
	if err := process.Lock(file); err != nil {
		file.Close()
		if errors.Is(err, process.ErrLocked) {
			return nil, fmt.Errorf("cache: another process has %s open; give each process a folder of its own: %w", dir,
				err)
		}
		return nil, fmt.Errorf("cache: %w", err)
	}
	return file, nil
}

// sweep removes what an earlier process was writing.
func (c *Cache) sweep() error {
	left, err := os.ReadDir(c.newDir())
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	for _, file := range left {
		if !strings.HasPrefix(file.Name(), newPrefix) {
			continue
		}
		if err := os.Remove(filepath.Join(c.newDir(), file.Name())); err != nil {
			return fmt.Errorf("cache: remove what was half written: %w; name a folder that can be written to", err)
		}
	}
	return nil
}

// Close ends the cache. Values that are open can be read on; what is being written is lost.
func (c *Cache) Close() error {
	c.mu.Lock()
	was := c.closed
	c.closed = true
	c.mu.Unlock()
	if was {
		return nil
	}
	c.cancel()
	_ = c.walks.Wait() // a walk says what failed where it fails
	return c.lock.Close()
}

// Get returns the value of a key, if it is there. Close it. A value stays readable when it is evicted.
func (c *Cache) Get(key Key) (*Value, bool) {
	v, ok := c.Peek(key)
	if ok {
		c.hits.Add(1)
	} else {
		c.misses.Add(1)
	}
	return v, ok
}

// Peek is Get, but counted as neither a hit nor a miss.
func (c *Cache) Peek(key Key) (*Value, bool) {
	e, ok := c.want(key)
	if !ok {
		return nil, false
	}
	v, err := c.open(key, e)
	if err != nil {
		c.spoil(key, e.stamp, err)
		return nil, false
	}
	return v, true
}

// want returns an entry, which is wanted at this moment.
func (c *Cache) want(key Key) (entry, bool) {
	c.walk(int(key[0]))
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.index.of[key]
	if !ok || c.closed {
		return entry{}, false
	}
	e := &c.index.entries[n]
	e.wanted = time.Now().UnixNano()
	if c.ranked {
		c.policy.Wanted(n)
	}
	return *e, true
}

// Delete removes the value of a key, if there is one. It fails if the file stays, which the next Open finds again.
func (c *Cache) Delete(key Key) error {
	c.walk(int(key[0]))
	c.mu.Lock()
	n, ok := c.index.of[key]
	stamp := uint32(0)
	if ok {
		stamp = c.index.entries[n].stamp
	}
	c.mu.Unlock()
	if !ok {
		return nil
	}
	return c.remove(key, stamp, nil)
}

// remove removes an entry and its file. told, if any, hears of it with Cache.mu held.
func (c *Cache) remove(key Key, stamp uint32, told func(entry)) error {
	f := &c.folders[key[0]]
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := c.drop(key, stamp, told)
	if !ok {
		return nil
	}
	err := os.Remove(c.path(key))
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.leave(key, e, err)
		return fmt.Errorf("cache: %w", err)
	}
	c.bytes -= e.cost()
	return nil
}

// drop takes an entry from the index. Its file's bytes count on.
func (c *Cache) drop(key Key, stamp uint32, told func(entry)) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.index.of[key]
	if !ok || c.index.entries[n].stamp != stamp {
		return entry{}, false
	}
	e := c.index.entries[n]
	c.index.remove(n)
	if c.ranked {
		c.policy.Removed(n)
	}
	if told != nil {
		told(e)
	}
	return e, true
}

// spoil removes an entry that cannot be read.
func (c *Cache) spoil(key Key, stamp uint32, why error) {
	tell := c.log.Warn
	if errors.Is(why, fs.ErrNotExist) {
		tell = c.log.Debug // evicted just before it was opened; or somebody removed it
	}
	err := c.remove(key, stamp, func(entry) { c.spoiled++ })
	tell("the cache drops a value that cannot be read", "file", c.path(key), "error", errors.Join(why, err))
}

// evict removes what goes next. It reports whether there was something.
func (c *Cache) evict() (bool, error) {
	c.mu.Lock()
	n, ok := c.next()
	var e entry
	if ok {
		e = c.index.entries[n]
	}
	c.mu.Unlock()
	if !ok {
		return false, nil
	}
	return true, c.remove(e.key, e.stamp, func(e entry) { c.evicted.add(time.Now(), e.wanted) })
}

func (c *Cache) next() (uint32, bool) {
	if !c.ranked {
		return 0, false
	}
	return c.policy.Next()
}

// reserve evicts until n bytes more fit, and sets them aside.
func (c *Cache) reserve(n int64) error {
	for !c.setAside(n) {
		switch some, err := c.evict(); {
		case err != nil:
			return ErrOff
		case !some:
			return ErrFull
		}
	}
	return nil
}

func (c *Cache) setAside(n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries := len(c.index.of)
	if n > 0 {
		entries++
	}
	if c.bytes+c.reserved+n > c.max || entries > c.most {
		return false
	}
	c.reserved += n
	return true
}

func (c *Cache) newDir() string { return filepath.Join(c.dir, "new") }
func (c *Cache) folderDir(n int) string {
	return filepath.Join(c.dir, hex.EncodeToString([]byte{byte(n)}))
}

func (c *Cache) path(key Key) string { return filepath.Join(c.folderDir(int(key[0])), key.String()) }
