package master

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

// maxRefused bounds what one Sync reports; the rest comes with the next.
const maxRefused = 64

// refusals says of streams that every worker refuses in which row groups they stand. Those of blocks of which nothing
// is in flight any more are left out: they are not the reporting rank's.
func (o *ticketOffice) refusals(streams []*pb.RefusedStream) []session.Refusal {
	var out []session.Refusal
	for _, m := range streams[:min(len(streams), maxRefused)] {
		at := position.FromProto(m.GetAt())
		shards := o.blocks[store.BlockID{Epoch: at.Epoch, Index: at.Block}].GetShards()
		if int64(at.Shard) >= int64(len(shards)) || m.GetCause() == pb.RefusalCause_REFUSAL_CAUSE_UNSPECIFIED {
			continue
		}
		if r, ok := refusalIn(shards[at.Shard], at); ok {
			r.Changed, r.Words = m.GetCause() == pb.RefusalCause_CHANGED, m.GetWords()
			if r.Changed && shards[at.Shard].GetFile().GetOfTable() {
				r.Words += " (files of a table vanish when it is vacuumed, or when its versions expire)"
			}
			out = append(out, r)
		}
	}
	return out
}

// refusalIn finds the row group of a shard that a cursor is in.
func refusalIn(shard *pb.Shard, at position.Position) (session.Refusal, bool) {
	r := session.Refusal{At: at, File: shard.GetFile().GetUri(), Index: shard.GetFile().GetIndex()}
	before := int64(0) // windows
	for i, g := range shard.GetExtents() {
		windows := (g.GetRows() + g.GetWindowRows() - 1) / g.GetWindowRows()
		inside := int64(at.Window) - before
		before += windows
		if inside >= windows {
			continue
		}
		r.RowGroup = g.GetIndex()
		r.FirstRow, r.Rows = g.GetFirstRow()+inside*g.GetWindowRows(), g.GetRows()-inside*g.GetWindowRows()
		r.End = at.ShardStart()
		r.End.Window = uint32(before)
		if i+1 == len(shard.GetExtents()) {
			r.End.Window, r.End.Shard = 0, at.Shard+1
		}
		return r, true
	}
	return session.Refusal{}, false
}
