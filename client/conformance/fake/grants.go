package fake

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

func (m *Master) consume(r *Member, consumed position.Set) {
	news := consumed.Subtract(r.Consumed).Subtract(position.Set{{To: position.Position{Epoch: m.Closed}}})
	if foreign := news.Subtract(r.Held); len(foreign) > 0 {
		m.problems = append(m.problems, "consumed but not held: "+foreign[0].String())
	}
	r.Consumed, r.Held = r.Consumed.Union(news), r.Held.Subtract(news)
}

func (m *Master) close() {
	pads := m.Spec.GetLastBatch() == pb.LastBatch_PAD
	// where all make equally many steps, each must have joined
	if (pads || m.counted()) && len(m.Ranks) < int(m.World) {
		return
	}
	if m.counted() {
		m.closeCounted()
		return
	}
	for m.Closed < m.Data.Epochs {
		if m.leftByAll() {
			m.pass()
		}
		open := position.Set{{To: position.Position{Epoch: m.Closed + 1}}}
		if m.Next < int(m.Closed+1)*len(m.Data.Shards) || len(m.Returned.Intersect(open)) > 0 {
			return
		}
		for _, r := range m.Ranks {
			if len(r.Held.Intersect(open)) > 0 {
				return
			}
		}
		m.Closed++
		m.version++
	}
}

// grant gives returned positions first, then a run of shards not further than one epoch ahead.
func (m *Master) grant(r *Member) bool {
	if m.Frozen {
		return false
	}
	if from := max(m.Closed, r.from); len(m.Returned.Subtract(before(from))) > 0 {
		got := m.returnedRun(from)
		if m.drops() {
			got = drop{m}.capped(r, got)
		}
		r.Held, m.Returned = r.Held.Union(got), m.Returned.Subtract(got)
		return len(got) > 0
	}
	n := 0
	for ; n < m.Run; n++ {
		epoch, i := m.Next/len(m.Data.Shards), m.Next%len(m.Data.Shards)
		if epoch >= int(m.Data.Epochs) || epoch > int(m.Closed)+1 || epoch < int(r.from) {
			break
		}
		iv := position.Interval{From: m.Data.Start(uint32(epoch), i), To: m.Data.Start(uint32(epoch), i+1)}
		r.Held = r.Held.Union(position.Set{iv})
		m.Next++
	}
	return n > 0
}

// returnedRun is what was returned of up to Run shards, from an epoch on.
func (m *Master) returnedRun(from uint32) (got position.Set) {
	n := 0
	for epoch := from; epoch < min(m.Closed+2, m.Data.Epochs); epoch++ {
		for i := 0; i < len(m.Data.Shards) && n < m.Run; i++ {
			shard := position.Set{{From: m.Data.Start(epoch, i), To: m.Data.Start(epoch, i+1)}}
			if part := m.Returned.Intersect(shard); len(part) > 0 {
				got = got.Union(part)
				n++
			}
		}
	}
	return got
}

func (m *Master) reply(req *pb.SyncRequest, r *Member) *pb.SyncReply {
	end := position.Set{{To: position.Position{Epoch: m.Closed + 1}}}
	reply := &pb.SyncReply{
		Revision: r.revision, Unchanged: r.revision == req.GetRevision(), Streams: m.Streams, ClosedEpochs: m.Closed,
		Finished: m.Closed == m.Data.Epochs, BaseVersion: m.version, Release: m.Release.Intersect(r.Held).Proto(),
		Drained: m.Next >= int(m.Closed+1)*len(m.Data.Shards) && len(m.Returned.Intersect(end)) == 0,
	}
	reply.Steps, reply.Checkpoint = m.stepsKnown(req.GetSteps()), m.orderFor(req.GetRank())
	if req.GetBaseVersion() != m.version {
		reply.Base, reply.Members, reply.Departed, reply.DepartedRows = m.told()
		reply.Skipped, reply.SkippedRowGroups = m.skipped, uint32(len(m.skipped))
	}
	if reply.Unchanged {
		return reply
	}
	if m.inLanes() {
		reply.Grants, reply.Starts = lanes{m}.grants(req.GetRank(), r), lanes{m}.starts(r.steps)
		return reply
	}
	for epoch := range m.Data.Epochs {
		for i := range m.Data.Shards {
			shard := position.Set{{From: m.Data.Start(epoch, i), To: m.Data.Start(epoch, i+1)}}
			for _, iv := range r.Held.Intersect(shard) {
				reply.Grants = append(reply.Grants, &pb.Grant{Interval: iv.Proto(), Ticket: m.ticket(shard[0].From)})
			}
		}
	}
	return reply
}

// told is what goes into states of those who are not there any more, and of who is.
func (m *Master) told() (base []*pb.Interval, members, departed []uint32, rows []int64) {
	consumed := m.base
	for _, rank := range slices.Sorted(maps.Keys(m.Ranks)) {
		members = append(members, rank)
		if r := m.Ranks[rank]; r.Left {
			consumed = consumed.Union(r.Consumed)
			departed, rows = append(departed, rank), append(rows, r.earlier+r.Counters.GetRows())
		}
	}
	start := position.Position{Epoch: m.Closed}
	if m.lagging() {
		start.Epoch--
	}
	return consumed.Subtract(position.Set{{To: start}}).Proto(), members, departed, rows
}

// lagging reports whether a training loop may be in the newest closed epoch, where states tell of that row by
// row.
func (m *Master) lagging() bool {
	if m.counted() {
		return false
	}
	for _, r := range m.Ranks {
		if !r.Left && r.steps.GetEpoch() < m.Closed {
			return true
		}
	}
	return false
}

// stepsKnown is what a rank is told of steps.
func (m *Master) stepsKnown(at *pb.RankSteps) (told []*pb.EpochSteps) {
	for epoch := at.GetEpoch(); at != nil && epoch < m.Data.Epochs && epoch <= m.Closed+1; epoch++ {
		e := &pb.EpochSteps{Epoch: epoch, Steps: m.steps[epoch]}
		if m.counted() {
			e.Steps, e.Final = m.countedSteps(epoch)
		}
		if m.drops() && e.Final {
			e.Dropped = m.dropped(epoch)
		}
		if e.Steps > 0 || e.Final {
			told = append(told, e)
		}
	}
	return told
}

func (m *Master) ticket(p position.Position) []byte {
	t, err := proto.Marshal(&pb.Ticket{
		Epoch: p.Epoch, Block: p.Block, Shard: p.Shard, File: &pb.File{Uri: "mem://part"}, Workers: m.Workers,
		Code: m.Code,
	})
	if err != nil {
		panic(err)
	}
	signed, err := proto.Marshal(&pb.SignedTicket{Ticket: t})
	if err != nil {
		panic(err)
	}
	return signed
}
