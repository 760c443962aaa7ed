package cache

import (
	"time"
)

// Stats says what a cache has and did since it was opened.
type Stats struct {
	Bytes, MaxBytes int64
	Entries         int
	Hits, Misses    uint64
	// Spoiled counts values that could not be read, and were removed.
	Spoiled uint64
	// Evicted says how long ago what was evicted had last been wanted.
	Evicted Ages
	// Off: the disk failed, and is not written to for a while.
	Off bool
}

// Stats returns what there is to tell.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Bytes: c.bytes + c.reserved, MaxBytes: c.max, Entries: len(c.index.of),
		Hits: c.hits.Load(), Misses: c.misses.Load(),
		Spoiled: c.spoiled, Evicted: c.evicted, Off: time.Now().Before(c.trouble.until),
	}
}

// Memory is what the cache's entries may take of memory.
func (c *Cache) Memory() int64 { return min(int64(c.most), c.max/page) * entryMemory }

// AgeBounds are the upper ends of the ages that are counted together; more is counted with the last Counts.
func AgeBounds() [9]time.Duration {
	const day = 24 * time.Hour
	return [...]time.Duration{
		time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, day, 3 * day, 7 * day,
	}
}

// lately is how far back Min reaches, and up to twice as far.
const lately = 5 * time.Minute

// Ages counts ages. Young ones say that a cache is too small: what it evicts would soon have been wanted again.
type Ages struct {
	Counts [10]uint64 // by AgeBounds
	Sum    time.Duration
	spans  [2]span // this one's and the one's before
}

// span is a piece of time of the length lately.
type span struct {
	number int64
	min    time.Duration
}

// Total is how many ages there are.
func (a *Ages) Total() (n uint64) {
	for _, count := range a.Counts {
		n += count
	}
	return n
}

// Min is the least age of late; false if nothing was evicted.
func (a *Ages) Min() (time.Duration, bool) {
	return a.minAt(time.Now())
}

func (a *Ages) minAt(now time.Time) (least time.Duration, ok bool) {
	for _, s := range a.spans {
		if s.number >= spanOf(now)-1 && (!ok || s.min < least) {
			least, ok = s.min, true
		}
	}
	return least, ok
}

func spanOf(now time.Time) int64 { return now.UnixNano() / int64(lately) }

// add counts what was last wanted at a time in Unix nanoseconds.
func (a *Ages) add(now time.Time, wanted int64) {
	age := max(time.Duration(now.UnixNano()-wanted), 0)
	at := 0
	for _, bound := range AgeBounds() {
		if age > bound {
			at++
		}
	}
	a.Counts[at]++
	a.Sum += age
	if number := spanOf(now); a.spans[0].number != number {
		a.spans[0], a.spans[1] = span{number, age}, a.spans[0]
	}
	a.spans[0].min = min(a.spans[0].min, age)
}
