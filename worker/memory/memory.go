// Package memory shares a number of bytes among the streams of a worker, before they allocate them. It stands below
// formats and pipeline, which ask, and knows no stream: an Account is what one holds of a Budget, Buffers are what of
// it is read into, and a Pool keeps what closed accounts leave for the next ones. A Budget and its accounts may be used
// by any number of goroutines.
package memory

import (
	"errors"
	"sync"
	"sync/atomic"
)

// ErrBusy says that other accounts have the memory.
var ErrBusy = errors.New("busy: the memory is taken by other streams; ask the next worker")

// ErrLimit says that more is needed than there is in all. A worker that has more may do.
var ErrLimit = errors.New("more memory is needed than this worker has")

// Config says what a budget shares. All fields but Limit may be zero.
type Config struct {
	// Limit is the number of bytes. It becomes Max, if that is more, once an account alone needs more than Limit;
	// Grown is told then by how much it grew.
	Limit, Max int64
	Grown      func(bytes int64)
	// Cache is in use only because there is room.
	Cache Cache
}

// Cache is memory that can be given up at any time.
type Cache interface {
	Size() int64
	// Shrink gives up n bytes, or all.
	Shrink(n int64)
}

// Budget shares a number of bytes among accounts, and never gives more than it has. What there is no room for waits:
// accounts that hold something before those that are to begin, and the older before the younger, so that nobody is
// passed over for ever. If all that hold something wait, nothing would ever come back: then one that needs little
// enough goes on out of its turn, and comes to its end; if there is none, the youngest is refused, with ErrBusy, and by
// what it gives back the others go on. So the oldest always comes to its end, unless what is mapped is in its way.
type Budget struct {
	max   int64
	grown func(bytes int64)
	cache Cache
	// mapped is what other processes have mapped still of what accounts gave up: in use, though of no account, but of
	// one that is about to close.
	mapped atomic.Int64

	mu      sync.Mutex
	limit   int64
	used    int64
	opened  int64 // accounts so far
	idle    int64 // of used: reserved, and not in use yet
	holders int   // accounts that hold something
	waiting []*Account
	pool    Pool
}

// New returns a budget of which nothing is in use.
func New(cfg Config) *Budget {
	b := &Budget{limit: cfg.Limit, max: max(cfg.Limit, cfg.Max), grown: cfg.Grown, cache: cfg.Cache}
	if b.grown == nil {
		b.grown = func(int64) {}
	}
	if b.cache == nil {
		b.cache = none{}
	}
	return b
}

// none is no cache.
type none struct{}

func (none) Size() int64  { return 0 }
func (none) Shrink(int64) {}

// Open returns an account that holds nothing yet. Close it.
func (b *Budget) Open() *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	return &Account{budget: b, age: b.opened}
}

// Pressed reports whether somebody waits for memory.
func (b *Budget) Pressed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) > 0
}

// InUse is what accounts hold, and what is mapped.
func (b *Budget) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken()
}

// Limit is what all accounts may hold together.
func (b *Budget) Limit() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit
}

// Max is what Limit may become.
func (b *Budget) Max() int64 { return b.max }

// Mapped is what AddMapped was told of in all.
func (b *Budget) Mapped() int64 { return b.mapped.Load() }

// AddMapped says that other processes have n bytes more mapped of what accounts gave up, or fewer. Where it is more, it
// may be called by what a Pool drops.
func (b *Budget) AddMapped(n int64) {
	b.mapped.Add(n)
	if n >= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.admit()
}

// Pool calls f with what closed accounts left. Until it returns no account changes, and f must not ask for one.
func (b *Budget) Pool(f func(*Pool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.pool)
}
