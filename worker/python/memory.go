package python

import (
	"fmt"
	"time"
)

// allow sets what a process may take, which is what its function that takes the most may, and how much of what it has
// mapped is its segments'; keeps is set once it has kept one.
func (p *Pool) allow(q *process, memory, segments int64, keeps bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q.share = share{segments, max(q.share.limit, memory), q.share.keeps || keeps}
}

// watch ends processes that take too much memory, or have had no work for long.
func (p *Pool) watch(stop chan struct{}) {
	tick := time.NewTicker(p.times.watch)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			p.look(now)
		case <-stop:
			return
		}
	}
}

// look looks at all processes once.
func (p *Pool) look(now time.Time) {
	all := map[*process]share{}
	p.mu.Lock()
	for len(p.idle) > 0 && now.Sub(p.idle[0].since) > p.times.idle {
		p.end(p.idle[0])
	}
	for q := range p.processes {
		if q.share.limit > 0 {
			all[q] = q.share
		}
	}
	p.mu.Unlock()
	for q, s := range all {
		has := q.child.memory(s)
		if has > s.limit {
			bound := "its op allows %d by memory="
			if q.key.lists() {
				bound = "--python-memory allows %d for all"
			}
			q.kill(fmt.Sprintf("took %d MiB of memory, where "+bound, has>>20, s.limit>>20))
		}
		p.mu.Lock()
		if !q.had {
			q.has = has
		}
		p.mu.Unlock()
	}
	p.surplus(0)
}

// needs is what a process of a function's may take: one that is there may be one of other functions, too.
func (p *Pool) needs(f *function) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := f.memory
	for q := range p.processes {
		if q.key == f.key {
			most = max(most, q.share.limit)
		}
	}
	return most
}

// counts is what a process counts by: what it may take while it is at work, or what it has. While one lists functions
// it comes on top. mu must be held.
func (q *process) counts() int64 {
	if !q.key.lists() && (q.had || q.has == 0) {
		return q.share.limit
	}
	return q.has
}

// room waits until idle processes have ended of which a process at work, or one that is to take so many bytes more,
// needs the memory.
func (p *Pool) room(w *waiter, more int64) error {
	for _, q := range p.surplus(more) {
		if _, _, err := await(w, q.dead, nil); err != nil {
			return err
		}
	}
	return nil
}

// surplus has processes end that are idle, those for longest first, until all have no more than they may, and so many
// bytes less.
func (p *Pool) surplus(more int64) (ending []*process) {
	if p.cfg.Budget == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	over := more - p.cfg.Budget
	for q := range p.processes {
		over += q.counts()
	}
	for over > 0 && len(p.idle) > 0 {
		q := p.idle[0]
		over -= q.counts()
		p.end(q)
		ending = append(ending, q)
	}
	return ending
}
