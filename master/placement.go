package master

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
)

// candidates is how many workers a ticket names.
const candidates = 4

// placement says which workers to ask for a shard. It may be used by many goroutines at once.
type placement struct{ now atomic.Pointer[places] }

// places is the fleet's workers at a time.
type places struct {
	version uint64
	all     *fleet.Maglev
	zones   map[string]*fleet.Maglev // of the workers that name their zone
	workers int
	slots   int
	// outdated is closed when there are newer ones.
	outdated chan struct{}
}

// update takes the present workers; those that drain take no new streams. One goroutine calls it.
func (p *placement) update(workers []fleet.Member) {
	last := p.get()
	next := &places{version: last.version + 1, outdated: make(chan struct{})}
	var able []fleet.Member
	zones := map[string][]fleet.Member{}
	for _, w := range workers {
		if w.Draining {
			continue
		}
		able = append(able, w)
		next.slots += w.Slots
		if w.Zone != "" {
			zones[w.Zone] = append(zones[w.Zone], w)
		}
	}
	next.workers = len(able)
	next.all = fleet.NewMaglev(able)
	next.zones = make(map[string]*fleet.Maglev, len(zones))
	for zone, members := range zones {
		next.zones[zone] = fleet.NewMaglev(members)
	}
	p.now.Store(next)
	close(last.outdated)
}

func (p *placement) get() *places {
	if now := p.now.Load(); now != nil {
		return now
	}
	// Another master's versions should not look like this one's.
	p.now.CompareAndSwap(nil, &places{version: rand.Uint64(), all: fleet.NewMaglev(nil), outdated: make(chan struct{})})
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

// workersFor orders candidates by where the shard's row groups were read before, so that caches stay warm: those of
// the trainer's zone first, but at least one of any, since a zone may fail as a whole.
func (p *places) workersFor(s *pb.Shard, zone string) []*pb.Worker {
	key := fmt.Sprintf("%s#%d", s.GetFile().GetUri(), s.GetRowGroups()[0].GetIndex())
	var found []fleet.Member
	if near, ok := p.zones[zone]; ok {
		found = near.Candidates(key, candidates-1)
	}
	for _, m := range p.all.Candidates(key, candidates) {
		if len(found) < candidates && !slices.Contains(found, m) {
			found = append(found, m)
		}
	}
	out := make([]*pb.Worker, len(found))
	for i, m := range found {
		out[i] = &pb.Worker{Name: m.Name, Address: m.Address}
	}
	return out
}

// streamsFor is how many streams each of n trainers should keep open: enough to keep the fleet busy, with some slots
// left over since placement is not even.
func (p *places) streamsFor(n int) uint32 {
	const most = 16
	return uint32(min(most, max(1, p.slots*3/4/max(1, n))))
}
