package cache

// Policy says what is evicted next. Its methods are called one at a time. Entries have small numbers, which are used
// again.
type Policy interface {
	// Added says that there is an entry more, which is wanted at this moment.
	Added(n uint32, key Key)
	// Wanted says that an entry is read.
	Wanted(n uint32)
	// Removed says that an entry is gone, whatever the reason.
	Removed(n uint32)
	// Next returns the entry to go, if there is any. It stays until Removed.
	Next() (n uint32, ok bool)
}

// lru evicts what was wanted least lately. The entries are a ring, whose head is number 0: entry n is link n+1.
type lru struct{ links []link }

type link struct{ older, newer uint32 }

// NewLRU returns the policy that evicts what was wanted least lately.
func NewLRU() Policy { return &lru{links: make([]link, 1)} }

func (l *lru) Added(n uint32, _ Key) {
	for uint32(len(l.links)) <= n+1 {
		l.links = append(l.links, link{})
	}
	l.push(n + 1)
}

func (l *lru) Wanted(n uint32) {
	l.Removed(n)
	l.push(n + 1)
}

func (l *lru) Removed(n uint32) {
	at := l.links[n+1]
	l.links[at.older].newer, l.links[at.newer].older = at.newer, at.older
}

func (l *lru) Next() (uint32, bool) {
	oldest := l.links[0].newer
	return oldest - 1, oldest != 0
}

// push makes i the newest. The head's newer is the oldest of all, and its older the newest.
func (l *lru) push(i uint32) {
	newest := l.links[0].older
	l.links[i] = link{older: newest}
	l.links[newest].newer, l.links[0].older = i, i
}
