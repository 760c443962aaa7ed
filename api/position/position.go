// Package position gives places in a session's rows an order and an algebra: a Position names a place, an
// Interval a run, and a Set any part of a session. Trainers report what they consumed as sets, and the master
// partitions epochs with them. Everything is a value; nothing here is shared.
package position

import (
	"cmp"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
)

// Position is a place between two output rows of a session, before output row K of a window. The place after
// a shard's last row is written as the start of what follows it (see Grant.interval), so that neighbours meet.
type Position struct {
	Epoch, Block, Shard, Window uint32
	K                           uint64
}

// Compare orders positions as a session reads them.
func (p Position) Compare(q Position) int {
	switch {
	case p.Epoch != q.Epoch:
		return cmp.Compare(p.Epoch, q.Epoch)
	case p.Block != q.Block:
		return cmp.Compare(p.Block, q.Block)
	case p.Shard != q.Shard:
		return cmp.Compare(p.Shard, q.Shard)
	case p.Window != q.Window:
		return cmp.Compare(p.Window, q.Window)
	}
	return cmp.Compare(p.K, q.K)
}

// Less reports whether p comes before q.
func (p Position) Less(q Position) bool { return p.Compare(q) < 0 }

// ShardStart is the first position of p's shard.
func (p Position) ShardStart() Position {
	return Position{Epoch: p.Epoch, Block: p.Block, Shard: p.Shard}
}

// String writes a position as epoch/block/shard/window+k.
func (p Position) String() string {
	return fmt.Sprintf("%d/%d/%d/%d+%d", p.Epoch, p.Block, p.Shard, p.Window, p.K)
}

// Proto returns p as it crosses the wire.
func (p Position) Proto() *pb.Position {
	return &pb.Position{Epoch: p.Epoch, Block: p.Block, Shard: p.Shard, Window: p.Window, K: p.K}
}

// FromProto reads a position; nil is the first position of all.
func FromProto(m *pb.Position) Position {
	return Position{Epoch: m.GetEpoch(), Block: m.GetBlock(), Shard: m.GetShard(), Window: m.GetWindow(), K: m.GetK()}
}

// Interval is the run of positions [From, To).
type Interval struct{ From, To Position }

// Empty reports whether the interval holds no position.
func (i Interval) Empty() bool { return !i.From.Less(i.To) }

// String writes an interval as [from, to).
func (i Interval) String() string { return fmt.Sprintf("[%v, %v)", i.From, i.To) }

// Proto returns i as it crosses the wire.
func (i Interval) Proto() *pb.Interval {
	return &pb.Interval{From: i.From.Proto(), To: i.To.Proto()}
}

// IntervalFromProto reads an interval.
func IntervalFromProto(m *pb.Interval) Interval {
	return Interval{From: FromProto(m.GetFrom()), To: FromProto(m.GetTo())}
}
