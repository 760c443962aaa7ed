package memory

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func mustGrow(t *testing.T, a *Account, n int64) {
	t.Helper()
	if err := a.Grow(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// Who came first is served first, so that one that needs much is not passed over for ever; but those that hold
// something come before those that hold nothing.
func TestBudgetServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Limit: 100})
		first := b.Open()
		mustGrow(t, first, 60)
		much, little, holder := b.Open(), b.Open(), b.Open()
		mustGrow(t, holder, 10)
		var order []string
		wait := func(name string, a *Account, n int64) {
			go func() {
				if err := a.Grow(t.Context(), n); err != nil {
					t.Error(err)
				}
				order = append(order, name)
				a.Close(nil)
			}()
			synctest.Wait()
		}
		wait("much", much, 100)
		wait("little", little, 10)
		wait("holder", holder, 40)
		if len(order) != 0 || little.Try(1) {
			t.Errorf("%v went first", order)
		}
		first.Close(nil)
		synctest.Wait()
		want := []string{"holder", "much", "little"}
		if !slices.Equal(order, want) || b.InUse() != 0 || b.holders != 0 {
			t.Errorf("order %v, want %v; %d bytes left in use by %d", order, want, b.InUse(), b.holders)
		}
	})
}

// What trainers have mapped is nobody's, and not there for others until they return it.
func TestBudgetOfWhatTrainersHaveMapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Limit: 100})
		b.AddMapped(60)
		a := b.Open()
		if a.Try(50) || b.InUse() != 60 {
			t.Errorf("of 100, %d are in use, and 50 were given", b.InUse())
		}
		mustGrow(t, a, 40)
		if err := a.Grow(t.Context(), 10); !errors.Is(err, ErrBusy) {
			t.Errorf("what there is no room for now: %v", err)
		}
		a.Close(nil)
		got := false
		go func() {
			mustGrow(t, a, 50)
			got = true
		}()
		synctest.Wait()
		if got {
			t.Error("it has what a trainer has mapped")
		}
		b.AddMapped(-60)
		synctest.Wait()
		if a.Close(nil); !got || b.InUse() != 0 {
			t.Errorf("it was given what came back: %v; %d bytes are left in use", got, b.InUse())
		}
	})
}

func TestBudgetGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Limit: 100})
		first := b.Open()
		mustGrow(t, first, 60)
		short, cancel := context.WithTimeoutCause(t.Context(), time.Second, ErrBusy)
		defer cancel()
		behind := b.Open()
		go func() {
			time.Sleep(time.Millisecond) // in the bubble: it comes second
			_ = behind.Grow(t.Context(), 40)
		}()
		if err := b.Open().Grow(short, 41); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		synctest.Wait()
		if b.InUse() != 100 { // what stood behind fits, now that nobody is before it
			t.Errorf("%d bytes are in use", b.InUse())
		}
		err := first.Grow(t.Context(), 41)
		if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "--memory 1MiB") {
			t.Errorf("101 of 100: %v; want how much is needed, and the flag", err)
		}
	})
}

// Where one account needs more than the total alone, the total grows, once, and those that wait get what there is more.
func TestBudgetGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var grown []int64
		b := New(Config{Limit: 100, Max: 300, Grown: func(bytes int64) { grown = append(grown, bytes) }})
		first, second := b.Open(), b.Open()
		mustGrow(t, first, 60)
		go func() {
			if err := second.Grow(t.Context(), 60); err != nil { // waits: it would fit if it were alone
				t.Error(err)
			}
		}()
		synctest.Wait()
		if b.InUse() != 60 || b.Limit() != 100 || len(grown) != 0 {
			t.Errorf("%d of %d bytes are in use, and it grew by %v", b.InUse(), b.Limit(), grown)
		}
		mustGrow(t, first, 140)
		synctest.Wait()
		if b.InUse() != 260 || b.Limit() != 300 || !slices.Equal(grown, []int64{200}) {
			t.Errorf("%d of %d bytes are in use, and it grew by %v", b.InUse(), b.Limit(), grown)
		}
		if err := first.Grow(t.Context(), 101); !errors.Is(err, ErrLimit) {
			t.Errorf("301 of 300: %v", err)
		}
		first.Close(nil)
		second.Close(nil)
	})
}

// A stream that is under way and needs little goes on while one waits that is older, holds its footer alone and needs
// most of the memory.
func TestBudgetPassesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Limit: 100})
		older, under := b.Open(), b.Open()
		mustGrow(t, older, 1)
		mustGrow(t, under, 60)
		go func() {
			if err := older.Grow(t.Context(), 50); err != nil {
				t.Errorf("the older: %v", err)
			}
			older.Close(nil)
		}()
		synctest.Wait()
		if mustGrow(t, under, 5); older.Held() != 1 {
			t.Errorf("the older holds %d of 100, of which 65 are taken", older.Held())
		}
		under.Close(nil)
		synctest.Wait()
		if b.InUse() != 0 || b.holders != 0 {
			t.Errorf("%d bytes left in use by %d", b.InUse(), b.holders)
		}
	})
}

// Of streams that all hold something and need more, the oldest comes to its end, and so on to the last: none waits for
// ever, and what is in use is never more than there is.
func TestStreamsDoNotWaitForEachOther(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const total = 100
		needs := rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(1, 40), 1, 5), 1, 8).Draw(rt,
			"what streams take, step by step")
		keeps := rapid.Int64Range(0, total).Draw(rt, "what is kept because there is room")
		synctest.Test(t, func(t *testing.T) {
			kept := cached(keeps)
			b := New(Config{Limit: total, Cache: &kept})
			var mu sync.Mutex
			ended := map[string]int{}
			check := func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				used, kept := b.used-b.idle, kept.Size()+b.pool.Size()
				if used+kept > max(total, keeps) || b.used > total || used > 0 && used+kept > total {
					t.Errorf("%d bytes are in use and %d kept, of %d", used, kept, total)
				}
			}
			var group sync.WaitGroup
			for _, steps := range needs {
				group.Go(func() {
					for { // as a trainer that comes again
						how := runSteps(t.Context(), b, steps, check)
						mu.Lock()
						ended[how]++
						mu.Unlock()
						if how != "busy" {
							return
						}
						time.Sleep(time.Second)
					}
				})
			}
			group.Wait() // synctest fails if all wait for ever
			if b.InUse() != 0 || b.idle != 0 || b.holders != 0 || len(b.waiting) != 0 {
				t.Errorf("%d bytes are left in use by %d, %d of them idle; %d wait",
					b.InUse(), b.holders, b.idle, len(b.waiting))
			}
			tooMuch := 0
			for _, steps := range needs {
				if sum(steps) > total {
					tooMuch++
				}
			}
			if ended["done"] != len(needs)-tooMuch || ended["too much"] != tooMuch {
				t.Errorf("%v; %d of %d need more than there is", ended, tooMuch, len(needs))
			}
		})
	})
}

// cached is a cache of so many bytes.
type cached int64

func (c *cached) Size() int64    { return int64(*c) }
func (c *cached) Shrink(n int64) { *c = max(0, *c-cached(n)) }

// left is what a stream left, of so many bytes.
type left int64

func (left) Key() string   { return "" }
func (l left) Size() int64 { return int64(l) }
func (left) Drop()         {}

func runSteps(ctx context.Context, b *Budget, steps []int64, check func()) string {
	a := b.Open()
	var leave Pooled
	defer check()
	defer func() { a.Close(leave) }()
	a.Reserve()
	for i, n := range steps {
		err := a.Grow(ctx, n)
		check()
		if err == nil && i == 0 {
			time.Sleep(time.Millisecond)
			a.Begin(func(p *Pool, _ int64) (more, has int64) {
				x := p.Take("")
				if x == nil || x.Size() > n {
					return 0, 0
				}
				return 0, x.Size()
			})
			leave = left(n)
			check()
		}
		switch {
		case errors.Is(err, ErrBusy):
			return "busy"
		case errors.Is(err, ErrLimit):
			return "too much"
		case err != nil:
			return err.Error()
		}
		if a.Try(3) { // to read ahead, for a while
			time.Sleep(time.Duration(i) * time.Millisecond)
			check()
			a.Give(3)
		}
	}
	return "done"
}

func sum(steps []int64) (n int64) {
	for _, s := range steps {
		n += s
	}
	return n
}

// What rests holds memory, but nobody waits for it to come back: of accounts that all wait, one is refused all the same.
func TestBudgetOfWhatRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Limit: 100})
		table, first, second := b.Open(), b.Open(), b.Open()
		mustGrow(t, table, 40)
		table.Rest()
		first.Beside, second.Beside = 40, 40
		mustGrow(t, first, 30)
		mustGrow(t, second, 30)
		refused := make(chan error, 1)
		go func() {
			err := second.Grow(t.Context(), 20)
			second.Close(nil)
			refused <- err
		}()
		synctest.Wait()
		mustGrow(t, first, 10) // which waits until the younger one is refused
		if err := <-refused; !errors.Is(err, ErrBusy) {
			t.Errorf("error %v, want ErrBusy", err)
		}
		if err := first.Grow(t.Context(), 21); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "side tables") {
			t.Errorf("error %v, want ErrLimit: the table stays", err)
		}
		first.Close(nil)
		table.Close(nil)
		if b.InUse() != 0 || b.holders != 0 {
			t.Errorf("%d bytes are left of %d", b.InUse(), b.holders)
		}
	})
}
