package client

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// metaOf is what a worker says of rows k to end of a window of so many rows, with bad ones at places.
func metaOf(places []uint64, k, end, rows uint64) *pb.BatchMeta {
	m := &pb.BatchMeta{K: k, Rows: uint32(end - k), Last: end == rows}
	for _, at := range places {
		switch {
		case at < k:
			m.SkippedBefore++
		case at < end || m.Last && at == end:
			m.Skipped = append(m.Skipped, at)
		}
	}
	return m
}

// However batches are cut, repeat each other, and are taken, each row that was left out is counted once, and never
// before the row behind it; streams that left out others are refused, and leave nothing behind.
func TestLeftOutRowsAreCountedOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.Uint64Range(1, 30).Draw(rt, "rows")
		places := rapid.SliceOfN(rapid.Uint64Range(0, rows), 0, 10).Draw(rt, "places")
		slices.Sort(places)
		shard := position.Position{Epoch: 2, Shard: 1}
		p := newPiece(position.Interval{From: shard, To: position.Position{Epoch: 2, Shard: 2}}, grant{})
		counted := uint64(0)
		for !p.complete() && p.received.Window == 0 {
			k := rapid.Uint64Range(0, p.received.K).Draw(rt, "k")
			end := rapid.Uint64Range(max(k, p.received.K), rows).Draw(rt, "end")
			m := metaOf(places, k, end, rows)
			other := metaOf(places, k, end, rows)
			other.SkippedBefore++
			before := len(p.at)
			_, _, after, err := p.place(m)
			if err != nil {
				rt.Fatal(err)
			}
			if p.received.Less(after) {
				if _, err := p.learn(other, p.shard, p.received, after); err == nil ||
					!strings.Contains(err.Error(), "bad rows") || len(p.at) != before {
					rt.Fatalf("another stream's: %v, and %d of %d rows", err, len(p.at), before)
				}
			}
			if _, err := p.learn(m, p.shard, p.received, after); err != nil {
				rt.Fatal(err)
			}
			p.received = after
			if after.Window == 0 && after.K > 0 && rapid.Bool().Draw(rt, "less") {
				after.K--
			}
			if p.taken.Less(after) {
				p.taken = after
			}
			counted += p.leftOut.take(p.taken).Of(2)
			want := uint64(0)
			for _, at := range places {
				if (position.Position{Epoch: 2, Shard: 1, K: at}).Less(p.taken) {
					want++
				}
			}
			if counted != want {
				rt.Fatalf("%d rows are counted up to %v, want %d of %v", counted, p.taken, want, places)
			}
		}
	})
}
