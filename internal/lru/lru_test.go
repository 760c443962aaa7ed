package lru

import (
	"math/rand/v2"
	"testing"
)

// TestBounded uses values of random sizes: what is kept is within the limit, counted, and what was used last is there.
func TestBounded(t *testing.T) {
	const limit = 100
	c := New[int, int](limit)
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		key := r.IntN(20)
		switch r.IntN(5) {
		case 0:
			c.Resize(key, r.Int64N(limit/2))
		case 1:
			c.Shrink(r.Int64N(10))
		case 2:
			value := r.Int()
			c.Put(key, value, r.Int64N(limit/2))
			if got, ok := c.Get(key); !ok || got != value {
				t.Fatalf("key %d: %d is there: %v, %d was put", key, got, ok, value)
			}
		default:
			before, there := c.Get(key)
			value := r.Int()
			if got := c.Add(key, value, r.Int64N(limit/2)); there && got != before || !there && got != value {
				t.Fatalf("key %d: %d is kept, %d was there: %v, %d is new", key, got, before, there, value)
			}
			if _, ok := c.Get(key); !ok {
				t.Fatalf("key %d, which was used last, is not there", key)
			}
		}
		var sum int64
		for e := c.used.Front(); e != nil; e = e.Next() {
			sum += entryOf[int, int](e).size
		}
		if sum != c.Size() || sum > limit || len(c.byKey) != c.used.Len() {
			t.Fatalf("%d bytes of %d, counted as %d; %d values of %d", sum, limit, c.Size(), len(c.byKey), c.used.Len())
		}
	}
}

// TestOrder: what was used least lately goes first, and one value stays however large it is.
func TestOrder(t *testing.T) {
	c := New[string, int](2)
	c.Add("a", 1, 1)
	c.Add("b", 2, 1)
	c.Get("a")
	c.Add("c", 3, 1)
	_, a := c.Get("a")
	_, b := c.Get("b")
	if _, ok := c.Get("c"); !ok || !a || b {
		t.Errorf("a is there: %v, b: %v, c: %v", a, b, ok)
	}
	c.Add("huge", 4, 1000)
	if _, ok := c.Get("huge"); !ok || c.Size() != 1000 {
		t.Errorf("a value that is larger than all is there: %v, of %d bytes", ok, c.Size())
	}
	if c.Shrink(1); c.Size() != 0 {
		t.Errorf("%d bytes are left", c.Size())
	}
}
