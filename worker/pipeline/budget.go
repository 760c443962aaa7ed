package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-ml/penstock/worker/columns"
	"github.com/penstock-ml/penstock/worker/garbage"
)

// budget shares a number of bytes among accounts, and never gives more than it has. What there is no room for waits: accounts that
// hold something before those that are to begin, and the older before the younger, so that nobody is passed over for ever. If all
// that hold something wait, nothing would ever come back: then one that needs little enough goes on out of its turn, and comes to its
// end; if there is none, the youngest is refused, with ErrBusy, and by what it gives back the others go on. So the oldest always comes to
// its end, unless what trainers have mapped is in its way.
type budget struct {
	// most is what total becomes once an account needs more than that alone; grown is told then by how much it grew.
	most  int64
	grown func(bytes int64)
	// kept is how much else is in use only because there was room, and drop gives up n bytes of it, or all.
	kept func() int64
	drop func(n int64)
	// mapped is what trainers have mapped still of what streams gave up: in use, though of no account, but of a stream's that is about to close.
	mapped atomic.Int64

	mu      sync.Mutex
	total   int64
	used    int64
	opened  int64 // accounts so far
	idle    int64 // of used: reserved, and not in use yet
	holders int   // accounts that hold something
	waiting []*account
	kits    kits // in use only because there was room
}

// account is what one stream holds of a budget. It may be used by several goroutines, of which one may be in grow.
type account struct {
	budget *budget
	age    int64
	enough func() int64 // of a budget for this account alone, as far as is known
	leaves *kit         // when it is closed, unless it is nil
	// later says that what it takes is reserved, from reserve to begin. Only who opens the stream has the account until then, and writes it.
	later bool

	// Under budget.mu:
	held   int64
	idle   int64 // of held: reserved, and not in use yet
	wants  int64
	answer chan error
}

func newBudget(total, most int64) *budget {
	return &budget{
		total: total, most: max(total, most), grown: func(int64) {},
		kept: func() int64 { return 0 }, drop: func(int64) {},
	}
}

// open returns an account that holds nothing yet. Close it.
func (b *budget) open() *account {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	return &account{budget: b, age: b.opened, enough: func() int64 { return 0 }}
}

// try takes n bytes if there is room for them, and nobody waits.
func (a *account) try(n int64) bool {
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

// reserve has what it takes until begin be reserved only: what is kept may stay for so long.
func (a *account) reserve() { a.later = true }

// begin has what was reserved be in use. Before that, take may take a kit, for which there are so many bytes more: it returns how many
// of them it takes, and how many bytes the kit has.
func (a *account) begin(take func(k *kits, room int64) (more, has int64)) {
	b := a.budget
	b.mu.Lock()
	room := b.total - b.taken()
	if len(b.waiting) > 0 {
		room = 0
	}
	more, has := take(&b.kits, room)
	fresh := a.idle + more - has
	b.settle(a)
	b.hold(a, more)
	b.mu.Unlock()
	garbage.MakeRoom(fresh)
}

// expire lets go of kits that nobody took since a time.
func (b *budget) expire(before time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kits.expire(before)
}

// forget lets go of all kits.
func (b *budget) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kits.drop(math.MaxInt64)
}

// makeRoom is called where n bytes were taken.
func (a *account) makeRoom(n int64) {
	if !a.later {
		garbage.MakeRoom(n)
	}
}

// grow takes n bytes. It waits for them until ctx ends, and fails at once with columns.ErrMemory if there can never be as many, or
// with ErrBusy if this account must give way.
func (a *account) grow(ctx context.Context, n int64) error {
	if err := a.await(ctx, n); err != nil {
		return err
	}
	a.makeRoom(n)
	return nil
}

func (a *account) await(ctx context.Context, n int64) error {
	b := a.budget
	b.mu.Lock()
	var grew int64
	if a.held+n > b.total && a.held+n <= b.most {
		grew = b.most - b.total
		b.total = b.most
	}
	if a.held+n > b.total {
		held := a.held
		b.mu.Unlock() // what is enough takes a while to find out
		return tooMuch(held, n, b.most, a.enough())
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
	b.waiting = slices.DeleteFunc(b.waiting, func(x *account) bool { return x == a })
	b.admit() // those behind may need less
	return context.Cause(ctx)
}

// tooMuch is the error where an account cannot have n bytes more.
func tooMuch(held, n, most, enough int64) error {
	const mib = 1 << 20
	advice := fmt.Sprintf("give workers --memory %dMiB or more", enough/mib+1)
	if held+n > enough {
		advice = fmt.Sprintf("give workers --memory %dMiB at least, as far as it is known before more is read", (held+n)*8/7/mib+1)
	}
	return fmt.Errorf("%w: the stream holds %.1f MiB and needs %.1f MiB more, of %.1f MiB in all: %s, or leave columns out",
		columns.ErrMemory, float64(held)/mib, float64(n)/mib, float64(most)/mib, advice)
}

// give gives n bytes back.
func (a *account) give(n int64) {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold(a, -n)
	b.admit()
}

// close gives everything back.
func (a *account) close() {
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.leaves != nil {
		b.kits.put(a.leaves)
	}
	b.settle(a)
	b.hold(a, -a.held)
	b.admit()
}

// holds is how much it holds.
func (a *account) holds() int64 {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	return a.held
}

// pressed reports whether somebody waits for memory.
func (b *budget) pressed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) > 0
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken()
}

// limit is what all accounts may hold together.
func (b *budget) limit() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// fits reports whether there is room for n bytes more.
func (b *budget) fits(n int64) bool { return b.taken()+n <= b.total }

// taken is what is in use and may not be dropped.
func (b *budget) taken() int64 { return b.used + b.mapped.Load() }

// addMapped says that trainers have n bytes more mapped of what streams gave up, or fewer. Where it is more, b.mu may be held: kits are dropped so.
func (b *budget) addMapped(n int64) {
	b.mapped.Add(n)
	if n >= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.admit()
}

// hold gives n bytes to an account, and drops what is kept where they will be.
func (b *budget) hold(a *account, n int64) {
	before := a.held > 0
	a.held += n
	b.used += n
	if a.later {
		a.idle += n
		b.idle += n
	}
	if over := b.taken() - b.idle + b.kits.bytes + b.kept() - b.total; over > 0 {
		b.drop(b.kits.drop(over))
	}
	switch after := a.held > 0; {
	case after && !before:
		b.holders++
	case before && !after:
		b.holders--
	}
}

// settle has nothing of an account be idle.
func (b *budget) settle(a *account) {
	b.idle -= a.idle
	a.idle, a.later = 0, false
}

// admit gives to those that wait, in their order, what there is room for.
func (b *budget) admit() {
	slices.SortFunc(b.waiting, func(x, y *account) int {
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
	if i := slices.IndexFunc(b.waiting[:stuck], func(a *account) bool { return b.fits(a.wants) }); i >= 0 {
		b.grant(i)
		return
	}
	youngest := b.waiting[stuck-1]
	b.waiting = slices.Delete(b.waiting, stuck-1, stuck)
	youngest.answer <- fmt.Errorf("%w: it holds %d bytes and needs %d more", ErrBusy, youngest.held, youngest.wants)
}

// grant gives to one that waits what it waits for.
func (b *budget) grant(i int) {
	a := b.waiting[i]
	b.waiting = slices.Delete(b.waiting, i, i+1)
	b.hold(a, a.wants)
	a.answer <- nil
}
