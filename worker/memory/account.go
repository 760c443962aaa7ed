package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/worker/garbage"
)

// Account is what one stream holds of a budget. It may be used by several goroutines, of which one may be in Grow.
type Account struct {
	// Enough, unless it is nil, tells of how many bytes a budget has to be for this account alone, as far as is known.
	// Errors say it.
	Enough func() int64
	// What says whose it is, in errors; "" is "the stream".
	What string
	// Beside is how many bytes others hold that this account's owner cannot be without: see Rest. It does not change
	// once the account holds something.
	Beside int64

	budget *Budget
	age    int64
	// later says that what it takes is reserved, from Reserve to Begin. Only who opens the stream has the account until
	// then, and writes it.
	later bool

	// rests says that it asks for nothing more, and gives nothing back as long as others need what it holds.
	rests bool

	// Under budget.mu:
	held   int64
	idle   int64 // of held: reserved, and not in use yet
	wants  int64
	answer chan error
}

// Held is how much it holds.
func (a *Account) Held() int64 {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.held
}

// Try takes n bytes if there is room for them, and nobody waits.
func (a *Account) Try(n int64) bool {
	b := a.budget
	b.mu.Lock()
	free := len(b.waiting) == 0 && b.fits(n)
	if free {
		b.hold(a, n)
	}
	b.mu.Unlock()
	if free {
		a.makeRoom(n)
	}
	return free
}

// Reserve has what it takes until Begin be reserved only: what is in use because there is room may stay for so long.
func (a *Account) Reserve() { a.later = true }

// Begin has what was reserved be in use. Before that, take may take something of the pool, for which there are so many
// bytes more: it returns how many of them it takes, and how many bytes it has from the pool.
func (a *Account) Begin(take func(p *Pool, room int64) (more, has int64)) {
	b := a.budget
	b.mu.Lock()
	room := b.limit - b.taken()
	if len(b.waiting) > 0 {
		room = 0
	}
	more, has := take(&b.pool, room)
	fresh := a.idle + more - has
	b.settle(a)
	b.hold(a, more)
	b.mu.Unlock()
	garbage.MakeRoom(fresh)
}

// makeRoom is called where n bytes were taken.
func (a *Account) makeRoom(n int64) {
	if !a.later {
		garbage.MakeRoom(n)
	}
}

// Grow takes n bytes. It waits for them until ctx ends, and fails at once with ErrLimit if there can never be as many,
// or with ErrBusy if this account must give way.
func (a *Account) Grow(ctx context.Context, n int64) error {
	if err := a.await(ctx, n); err != nil {
		return err
	}
	a.makeRoom(n)
	return nil
}

func (a *Account) await(ctx context.Context, n int64) error {
	b := a.budget
	b.mu.Lock()
	var grew int64
	needs := a.held + a.Beside + n
	if needs > b.limit && needs <= b.max {
		grew = b.max - b.limit
		b.limit = b.max
	}
	if needs > b.limit {
		held := a.held
		b.mu.Unlock() // what is enough takes a while to find out
		return a.tooMuch(held, n)
	}
	a.wants, a.answer = n, make(chan error, 1)
	b.waiting = append(b.waiting, a)
	b.admit()
	b.mu.Unlock()
	if grew > 0 {
		b.grown(grew)
	}
	select {
	case err := <-a.answer:
		return err
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case err := <-a.answer: // meanwhile
		return err
	default:
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(x *Account) bool { return x == a })
	b.admit() // those behind may need less
	return context.Cause(ctx)
}

// tooMuch is the error where an account that holds some bytes cannot have n more.
func (a *Account) tooMuch(held, n int64) error {
	const mib = 1 << 20
	enough := int64(0)
	if a.Enough != nil {
		enough = a.Enough()
	}
	advice := fmt.Sprintf("give workers --memory %dMiB or more", enough/mib+1)
	if enough += a.Beside; held+a.Beside+n > enough {
		advice = fmt.Sprintf("give workers --memory %dMiB at least, as far as it is known before more is read",
			(held+a.Beside+n)*8/7/mib+1)
	}
	tables := ""
	if a.Beside > 0 {
		tables = fmt.Sprintf(" beside %.1f MiB of side tables", float64(a.Beside)/mib)
	}
	return fmt.Errorf("%w: %s holds %.1f MiB%s and needs %.1f MiB more, of %.1f MiB in all: "+
		"%s, or leave columns out", ErrLimit, cmp.Or(a.What, "the stream"), float64(held)/mib, tables, float64(n)/mib,
		float64(a.budget.max)/mib, advice)
}

// Rest says that the account asks for nothing more, and keeps what it holds for others, which work with it: nothing
// comes back of it by waiting.
func (a *Account) Rest() {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.held > 0 && !a.rests {
		b.holders--
	}
	a.rests = true
	b.admit()
}

// Give gives n bytes back.
func (a *Account) Give(n int64) {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold(a, -n)
	b.admit()
}

// Close gives everything back, and leaves something to the next account, unless it is nil.
func (a *Account) Close(leave Pooled) {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if leave != nil {
		b.pool.Put(leave)
	}
	b.settle(a)
	b.hold(a, -a.held)
	b.admit()
}

// fits reports whether there is room for n bytes more.
func (b *Budget) fits(n int64) bool { return b.taken()+n <= b.limit }

// taken is what is in use and may not be dropped.
func (b *Budget) taken() int64 { return b.used + b.mapped.Load() }

// hold gives n bytes to an account, and drops what is pooled and cached where they will be.
func (b *Budget) hold(a *Account, n int64) {
	before := a.held > 0
	a.held += n
	b.used += n
	if a.later {
		a.idle += n
		b.idle += n
	}
	if over := b.taken() - b.idle + b.pool.size + b.cache.Size() - b.limit; over > 0 {
		b.cache.Shrink(b.pool.Shrink(over))
	}
	switch after := a.held > 0; {
	case a.rests:
	case after && !before:
		b.holders++
	case before && !after:
		b.holders--
	}
}

// settle has nothing of an account be idle.
func (b *Budget) settle(a *Account) {
	b.idle -= a.idle
	a.idle, a.later = 0, false
}

// admit gives to those that wait, in their order, what there is room for.
func (b *Budget) admit() {
	slices.SortFunc(b.waiting, func(x, y *Account) int {
		return cmp.Or(cmp.Compare(min(y.held, 1), min(x.held, 1)), cmp.Compare(x.age, y.age))
	})
	for len(b.waiting) > 0 && b.fits(b.waiting[0].wants) {
		b.grant(0)
	}
	stuck := 0
	for stuck < len(b.waiting) && b.waiting[stuck].held > 0 {
		stuck++
	}
	if stuck == 0 || stuck < b.holders {
		return
	}
	if i := slices.IndexFunc(b.waiting[:stuck], func(a *Account) bool { return b.fits(a.wants) }); i >= 0 {
		b.grant(i)
		return
	}
	youngest := b.waiting[stuck-1]
	b.waiting = slices.Delete(b.waiting, stuck-1, stuck)
	youngest.answer <- fmt.Errorf("%w: it holds %d bytes and needs %d more", ErrBusy, youngest.held, youngest.wants)
}

// grant gives to one that waits what it waits for.
func (b *Budget) grant(i int) {
	a := b.waiting[i]
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.hold(a, a.wants)
	a.answer <- nil
}
