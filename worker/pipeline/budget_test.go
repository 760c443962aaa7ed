package pipeline

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

	"github.com/penstock-ml/penstock/worker/columns"
)

func mustGrow(t *testing.T, a *account, n int64) {
	t.Helper()
	if err := a.grow(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// Who came first is served first, so that one that needs much is not passed over for ever; but those that hold something come before
// those that hold nothing.
func TestBudgetServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 0)
		first := b.open()
		mustGrow(t, first, 60)
		much, little, holder := b.open(), b.open(), b.open()
		mustGrow(t, holder, 10)
		var order []string
		wait := func(name string, a *account, n int64) {
			go func() {
				if err := a.grow(t.Context(), n); err != nil {
					t.Error(err)
				}
				order = append(order, name)
				a.close()
			}()
			synctest.Wait()
		}
		wait("much", much, 100)
		wait("little", little, 10)
		wait("holder", holder, 40)
		if len(order) != 0 || little.try(1) {
			t.Errorf("%v went first", order)
		}
		first.close()
		synctest.Wait()
		if want := []string{"holder", "much", "little"}; !slices.Equal(order, want) || b.inUse() != 0 || b.holders != 0 {
			t.Errorf("order %v, want %v; %d bytes left in use by %d", order, want, b.inUse(), b.holders)
		}
	})
}

// What trainers have mapped is nobody's, and not there for others until they return it.
func TestBudgetOfWhatTrainersHaveMapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 0)
		b.addMapped(60)
		a := b.open()
		if a.try(50) || b.inUse() != 60 {
			t.Errorf("of 100, %d are in use, and 50 were given", b.inUse())
		}
		mustGrow(t, a, 40)
		if err := a.grow(t.Context(), 10); !errors.Is(err, ErrBusy) {
			t.Errorf("what there is no room for now: %v", err)
		}
		a.close()
		got := false
		go func() {
			mustGrow(t, a, 50)
			got = true
		}()
		synctest.Wait()
		if got {
			t.Error("it has what a trainer has mapped")
		}
		b.addMapped(-60)
		synctest.Wait()
		if a.close(); !got || b.inUse() != 0 {
			t.Errorf("it was given what came back: %v; %d bytes are left in use", got, b.inUse())
		}
	})
}

func TestBudgetGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 0)
		first := b.open()
		mustGrow(t, first, 60)
		short, cancel := context.WithTimeoutCause(t.Context(), time.Second, ErrBusy)
		defer cancel()
		behind := b.open()
		go func() {
			time.Sleep(time.Millisecond) // in the bubble: it comes second
			_ = behind.grow(t.Context(), 40)
		}()
		if err := b.open().grow(short, 41); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		synctest.Wait()
		if b.inUse() != 100 { // what stood behind fits, now that nobody is before it
			t.Errorf("%d bytes are in use", b.inUse())
		}
		if err := first.grow(t.Context(), 41); !errors.Is(err, columns.ErrMemory) || !strings.Contains(err.Error(), "--memory 1MiB") {
			t.Errorf("101 of 100: %v; want how much is needed, and the flag", err)
		}
	})
}

// Where one account needs more than the total alone, the total grows, once, and those that wait get what there is more.
func TestBudgetGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 300)
		var grown []int64
		b.grown = func(bytes int64) { grown = append(grown, bytes) }
		first, second := b.open(), b.open()
		mustGrow(t, first, 60)
		go func() {
			if err := second.grow(t.Context(), 60); err != nil { // waits: it would fit if it were alone
				t.Error(err)
			}
		}()
		synctest.Wait()
		if b.inUse() != 60 || b.limit() != 100 || len(grown) != 0 {
			t.Errorf("%d of %d bytes are in use, and it grew by %v", b.inUse(), b.limit(), grown)
		}
		mustGrow(t, first, 140)
		synctest.Wait()
		if b.inUse() != 260 || b.limit() != 300 || !slices.Equal(grown, []int64{200}) {
			t.Errorf("%d of %d bytes are in use, and it grew by %v", b.inUse(), b.limit(), grown)
		}
		if err := first.grow(t.Context(), 101); !errors.Is(err, columns.ErrMemory) {
			t.Errorf("301 of 300: %v", err)
		}
		first.close()
		second.close()
	})
}

// A stream that is under way and needs little goes on while one waits that is older, holds its footer alone and needs most of the memory.
func TestBudgetPassesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100, 0)
		older, under := b.open(), b.open()
		mustGrow(t, older, 1)
		mustGrow(t, under, 60)
		go func() {
			if err := older.grow(t.Context(), 50); err != nil {
				t.Errorf("the older: %v", err)
			}
			older.close()
		}()
		synctest.Wait()
		if mustGrow(t, under, 5); older.holds() != 1 {
			t.Errorf("the older holds %d of 100, of which 65 are taken", older.holds())
		}
		under.close()
		synctest.Wait()
		if b.inUse() != 0 || b.holders != 0 {
			t.Errorf("%d bytes left in use by %d", b.inUse(), b.holders)
		}
	})
}

// Of streams that all hold something and need more, the oldest comes to its end, and so on to the last: none waits for ever, and what
// is in use is never more than there is.
func TestStreamsDoNotWaitForEachOther(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const total = 100
		needs := rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(1, 40), 1, 5), 1, 8).Draw(rt, "what streams take, step by step")
		keeps := rapid.Int64Range(0, total).Draw(rt, "what is kept because there is room")
		synctest.Test(t, func(t *testing.T) {
			b := newBudget(total, 0)
			kept := keeps
			b.kept, b.drop = func() int64 { return kept }, func(n int64) { kept = max(0, kept-n) }
			var mu sync.Mutex
			ended := map[string]int{}
			check := func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				used, kept := b.used-b.idle, kept+b.kits.bytes
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
			if b.inUse() != 0 || b.idle != 0 || b.holders != 0 || len(b.waiting) != 0 {
				t.Errorf("%d bytes are left in use by %d, %d of them idle; %d wait", b.inUse(), b.holders, b.idle, len(b.waiting))
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

func runSteps(ctx context.Context, b *budget, steps []int64, check func()) string {
	a := b.open()
	defer check()
	defer a.close()
	a.reserve()
	for i, n := range steps {
		err := a.grow(ctx, n)
		check()
		if err == nil && i == 0 {
			time.Sleep(time.Millisecond)
			a.begin(func(k *kits, _ int64) (more, has int64) {
				left := k.take("")
				if left == nil || left.bytes() > n {
					return 0, 0
				}
				return 0, left.bytes()
			})
			a.leaves = &kit{holds: holding{pages: n}}
			check()
		}
		switch {
		case errors.Is(err, ErrBusy):
			return "busy"
		case errors.Is(err, columns.ErrMemory):
			return "too much"
		case err != nil:
			return err.Error()
		}
		if a.try(3) { // to read ahead, for a while
			time.Sleep(time.Duration(i) * time.Millisecond)
			check()
			a.give(3)
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
