// Package tables loads side tables into a worker's memory, each once for all streams that look values up in it. It
// stands beside pipeline, which asks for the tables of a program, and above package lookup, which they are for. A Store
// may be used by any number of goroutines; it owns those that load, until Close.
package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/lookup"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/rescue"
)

// ErrUnusable says that nothing can be joined with what a table holds.
var ErrUnusable = errors.New("the table cannot be used")

// Config says what a store works with. All fields are needed.
type Config struct {
	Storage storage.Storage
	Files   *formats.Cache
	// Patience is how long a table waits for memory. Behind it loading fails with memory.ErrBusy.
	Patience time.Duration
}

// Store has the tables that streams use, and, where there is room, those that they used before.
type Store struct {
	cfg    Config
	budget *memory.Budget  // of Use
	ctx    context.Context //nolint:containedctx // of the goroutines that load
	cancel context.CancelFunc
	loads  sync.WaitGroup

	mu     sync.Mutex // nothing of the budget is called with it, which calls Shrink with its own
	known  map[string]*entry
	unused []*entry // that nobody holds, the longest since first
	size   int64    // of these
}

// entry is a table, or one that is being loaded.
type entry struct {
	key     string
	about   *pb.Table
	users   int
	ready   chan struct{} // closed when it can be used, or err says why not
	err     error
	table   *lookup.Table
	bytes   int64
	account *memory.Account // nil: nobody uses it
}

// New returns a store without tables. Use comes before anything else.
func New(cfg Config) *Store {
	s := &Store{cfg: cfg, known: map[string]*entry{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Use has the tables' memory be a budget's, of which the store is a cache.
func (s *Store) Use(b *memory.Budget) { s.budget = b }

// Close stops what is being loaded.
func (s *Store) Close() {
	s.cancel()
	s.loads.Wait()
}

// Held is a table that is in memory until Release.
type Held struct {
	*lookup.Table
	Bytes int64

	store *Store
	entry *entry
}

// Release says that the table is not used any more.
func (h *Held) Release() { h.store.release(h.entry) }

// Hold returns a session's table, after it has been loaded if nobody did that before. It is loaded to its end even if
// nobody waits any more. One whose file has a weak ETag is no other session's, and not kept. Release what is returned.
func (s *Store) Hold(ctx context.Context, session string, t *pb.Table) (*Held, error) {
	key, err := proto.MarshalOptions{Deterministic: true}.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", t.GetFile().GetUri(), err)
	}
	if storage.IsWeak(t.GetFile()) {
		key = append(key, session...)
	}
	e := s.enter(string(key), t) //nolint:contextcheck // what loads is for all that wait
	select {
	case <-e.ready:
	case <-ctx.Done():
		s.release(e)
		return nil, context.Cause(ctx)
	}
	if e.err != nil {
		s.release(e)
		return nil, e.err
	}
	return &Held{e.table, e.bytes, s, e}, nil
}

// enter counts a user of a table, and has it be loaded if it is not there.
func (s *Store) enter(key string, t *pb.Table) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.known[key]
	switch {
	case e == nil:
		e = &entry{key: key, about: t}
		s.known[key] = e
	case e.users == 0 && e.table != nil: // its memory is counted no more
		s.unused = slices.DeleteFunc(s.unused, func(x *entry) bool { return x == e })
		s.size -= e.bytes
	default:
		e.users++
		return e
	}
	e.users += 2 // of which one loads it
	ready := make(chan struct{})
	e.ready = ready
	s.loads.Go(func() {
		e.err = rescue.Call(rescue.Worker, func() error { return s.prepare(e) })
		if e.err != nil {
			e.err = s.failed(e)
		}
		s.release(e) // first: who waits may be the last user at once
		close(ready)
	})
	return e
}

// prepare counts a table's memory, and loads it if it is not there.
func (s *Store) prepare(e *entry) error {
	m := &room{patience: s.cfg.Patience, Account: s.budget.Open()}
	m.What = "the table"
	err := m.take(s.ctx, e.bytes)
	if err == nil && e.table == nil {
		e.table, err = s.load(s.ctx, e.about, m)
	}
	if err != nil {
		m.Close(nil)
		return err
	}
	e.bytes, e.account = m.Held(), m.Account
	e.account.Rest()
	return nil
}

// failed forgets a table that cannot be used: another try may fare better. It returns why.
func (s *Store) failed(e *entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, e.key)
	e.table = nil
	err := fmt.Errorf("table %s: %w", e.about.GetFile().GetUri(), e.err)
	for _, others := range []error{memory.ErrBusy, memory.ErrLimit, storage.ErrChanged, context.Canceled} {
		if errors.Is(err, others) {
			return err
		}
	}
	if storage.IsTransient(err) || storage.IsOurs(err) || isGone(err) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnusable, err)
}

// release counts one user less. What nobody uses stays as long as there is room.
func (s *Store) release(e *entry) {
	s.mu.Lock()
	if e.users--; e.users > 0 || e.table == nil {
		s.mu.Unlock()
		return
	}
	account := e.account
	e.account = nil
	if storage.IsWeak(e.about.GetFile()) {
		delete(s.known, e.key)
		e.table = nil
	} else {
		s.unused = append(s.unused, e)
		s.size += e.bytes
	}
	s.mu.Unlock()
	account.Close(nil)
}

// Size is the memory of tables that nobody uses.
func (s *Store) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// Shrink gives n bytes of that up, or all.
func (s *Store) Shrink(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n > 0 && len(s.unused) > 0 {
		e := s.unused[0]
		s.unused = s.unused[1:]
		s.size -= e.bytes
		n -= e.bytes
		delete(s.known, e.key)
	}
}
