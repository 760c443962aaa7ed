package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/position"
)

// BenchmarkSync measures one trainer's Sync in a session of a million shards and a thousand ranks. Each reports part of
// what it holds, with gaps, as several open streams leave them. The time of Apply alone is ns/Sync, and ns/block that
// of planning; the rest is the simulated trainer. With padding each counts steps, too, of which the state machine takes
// the most of all ranks. Small blocks are many.
func BenchmarkSync(b *testing.B) {
	b.Run("uneven", func(b *testing.B) { benchmarkSync(b, false, 1000) })
	b.Run("pad", func(b *testing.B) { benchmarkSync(b, true, 1000) })
	b.Run("small blocks", func(b *testing.B) { benchmarkSync(b, false, 16) })
}

func benchmarkSync(b *testing.B, pad bool, shards uint32) {
	const world = 1000
	blocks := 1_000_000 / shards
	id := testID
	id.LastBatch = ending(pad)
	id.Epochs, id.FirstWorldSize = 1000, world
	s, err := New(id)
	if err != nil {
		b.Fatal(err)
	}
	must := func(c Command) Reply {
		r, _, err := s.Apply(c)
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	planned, planning := 0, time.Duration(0)
	plan := func() {
		start := time.Now()
		for epoch, index, ok := s.NeedsPlan(); ok; epoch, index, ok = s.NeedsPlan() {
			must(Planned{Epoch: epoch, Block: index, Blocks: blocks, Shards: shards, Rows: int64(shards)})
			planned++
		}
		planning += time.Since(start)
	}
	revision, handed := make([]uint64, world), make([]uint64, world)
	consumed := make([]position.Set, world)
	for r := range uint32(world) {
		must(Join{Rank: r, World: world, Nonce: fmt.Sprint(r)})
	}
	plan()
	var spent time.Duration
	for i := 0; b.Loop(); i++ {
		r := uint32(i % world)
		report := append([]position.Interval(nil), consumed[r]...)
		for j, g := range s.Held(r) {
			if j%2 == 0 || j < 100 {
				report = append(report, g)
			}
		}
		consumed[r] = position.NewSet(report...)
		steps := &Steps{Epoch: s.closed}
		if pad {
			handed[r]++
			steps = &Steps{Epoch: s.closed, Handed: handed[r], Ready: handed[r]}
		}
		start := time.Now()
		reply := must(Sync{
			Rank: r, Generation: 1, Incarnation: 1, Nonce: fmt.Sprint(r), Consumed: consumed[r], Revision: revision[r],
			BaseVersion: s.baseVersion, WantsMore: i%4 == 0, Steps: steps,
		})
		spent += time.Since(start)
		revision[r] = reply.Revision
		consumed[r] = from(consumed[r], position.Position{Epoch: reply.Closed})
		plan()
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/Sync")
	b.ReportMetric(float64(planning.Nanoseconds())/float64(planned), "ns/block")
}
