// Package place says which workers are asked for a shard, and how many streams a trainer keeps open. The leader puts
// the workers' names into tickets (package master), so that a trainer that fails over needs no master. Places are made
// of the fleet's members (internal/fleet) and never change: they may be used by many goroutines at once.
package place

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
)

// Candidates is how many workers a ticket names.
const Candidates = 4

// Places is where shards may be read.
type Places struct {
	Workers, Slots int // of those that do not drain
	all            *fleet.Maglev
	zones          map[string]*fleet.Maglev // of the workers that name their zone
}

// New places shards on workers; those that drain take no new streams.
func New(workers []fleet.Member) *Places {
	p := &Places{zones: map[string]*fleet.Maglev{}}
	var able []fleet.Member
	zones := map[string][]fleet.Member{}
	for _, w := range workers {
		if w.Draining {
			continue
		}
		able = append(able, w)
		p.Slots += w.Slots
		if w.Zone != "" {
			zones[w.Zone] = append(zones[w.Zone], w)
		}
	}
	p.Workers = len(able)
	p.all = fleet.NewMaglev(able)
	for zone, members := range zones {
		p.zones[zone] = fleet.NewMaglev(members)
	}
	return p
}

// For orders candidates by where the shard's row groups were read before, so that caches stay warm: those of
// the trainer's zone first, but at least one of any, since a zone may fail as a whole.
func (p *Places) For(s *pb.Shard, zone string) []*pb.Worker {
	key := fmt.Sprintf("%s#%d", s.GetFile().GetUri(), s.GetExtents()[0].GetIndex())
	var found []fleet.Member
	if near, ok := p.zones[zone]; ok {
		found = near.Candidates(key, Candidates-1)
	}
	for _, m := range p.all.Candidates(key, Candidates) {
		if len(found) < Candidates && !slices.Contains(found, m) {
			found = append(found, m)
		}
	}
	out := make([]*pb.Worker, len(found))
	for i, m := range found {
		out[i] = &pb.Worker{Name: m.Name, Address: m.Address}
	}
	return out
}

// Streams is how many streams each of n trainers should keep open: enough to keep the fleet busy, with some slots left
// over since placement is not even; and two if there are slots for them, since a trainer with one is as slow as the
// worker that it happens to read from.
func (p *Places) Streams(n int) uint32 {
	return uint32(min(MaxStreams, max(1, min(2, p.Slots/max(1, n)), p.Slots*3/4/max(1, n))))
}
