package pipeline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestBudgetServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		first, err := b.take(t.Context(), 60)
		if err != nil || first != 60 {
			t.Fatal(first, err)
		}
		var order []string
		wait := func(name string, n int64) {
			go func() {
				got, err := b.take(t.Context(), n)
				if err != nil {
					t.Error(err)
				}
				order = append(order, name)
				b.give(got)
			}()
			synctest.Wait()
		}
		wait("all", 1000) // counts as 100
		wait("little", 10)
		if len(order) != 0 {
			t.Errorf("%v went first: who needs much would never be served", order)
		}
		b.give(first)
		synctest.Wait()
		if len(order) != 2 || order[0] != "all" || b.inUse() != 0 {
			t.Errorf("order %v, %d bytes left in use", order, b.inUse())
		}
	})
}

func TestBudgetGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100)
		held, err := b.take(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		b.more(50)
		short, cancel := context.WithTimeoutCause(t.Context(), time.Second, ErrBusy)
		defer cancel()
		behind := make(chan int64)
		go func() {
			time.Sleep(time.Millisecond) // in the bubble: it comes second
			n, _ := b.take(t.Context(), 40)
			behind <- n
		}()
		if _, err := b.take(short, 41); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v, want ErrBusy", err)
		}
		b.give(<-behind) // it fits, now that nobody is before it
		b.give(held + 50)
		if b.inUse() != 0 {
			t.Errorf("%d bytes left in use", b.inUse())
		}
	})
}

// Whatever streams take, add and give up, nothing is lost and the bound holds for what was taken.
func TestBudgetKeepsCount(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBudget(100)
		var held []int64
		var sum int64
		rt.Repeat(map[string]func(*rapid.T){
			"take": func(rt *rapid.T) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				want := rapid.Int64Range(0, 150).Draw(rt, "n")
				n, err := b.take(ctx, want)
				if fits := sum+min(want, 100) <= 100; fits != (err == nil) {
					rt.Fatalf("%d of %d in use, %d wanted: %v", sum, 100, want, err)
				}
				if err == nil {
					held, sum = append(held, n), sum+n
				}
			},
			"more": func(rt *rapid.T) {
				if len(held) > 0 {
					b.more(7)
					held[0], sum = held[0]+7, sum+7
				}
			},
			"give": func(rt *rapid.T) {
				if n := len(held); n > 0 {
					b.give(held[n-1])
					sum -= held[n-1]
					held = held[:n-1]
				}
			},
			"": func(rt *rapid.T) {
				if b.inUse() != sum || len(b.waiting) != 0 {
					rt.Fatalf("%d in use, want %d; %d wait", b.inUse(), sum, len(b.waiting))
				}
			},
		})
	})
}
