package master

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/master/place"
)

// placement says which workers to ask for a shard. It may be used by many goroutines at once.
type placement struct{ now atomic.Pointer[places] }

// places is where shards may be read, as of a version of the fleet.
type places struct {
	*place.Places
	version uint64
	// outdated is closed when there are newer ones.
	outdated chan struct{}
}

// update takes the present workers. One goroutine calls it.
func (p *placement) update(workers []fleet.Member) {
	last := p.get()
	p.now.Store(&places{Places: place.New(workers), version: last.version + 1, outdated: make(chan struct{})})
	close(last.outdated)
}

func (p *placement) get() *places {
	if now := p.now.Load(); now != nil {
		return now
	}
	// Another master's versions should not look like this one's.
	p.now.CompareAndSwap(nil, &places{Places: place.New(nil), version: rand.Uint64(), outdated: make(chan struct{})})
	return p.now.Load()
}

// A reply's revision tells a trainer both which grants and which fleet its tickets are from: the session's revision,
// and in the low bits the fleet's version.
const versionBits = 20

func (p *places) join(revision uint64) uint64 {
	return revision<<versionBits | p.version&(1<<versionBits-1)
}

// split is the inverse of join; same says whether the fleet is still that one.
func (p *places) split(joined uint64) (revision uint64, same bool) {
	revision = joined >> versionBits
	return revision, p.join(revision) == joined
}
