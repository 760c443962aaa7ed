package scale

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// streams is how many shards a trainer reads at a time.
const streams = 4

// trainer consumes without reading: its shards advance side by side, so that what it reports has as many gaps as a real
// one's.
type trainer struct {
	master pb.MasterClient
	rank   uint32
	world  uint32
	joined *pb.JoinReply
	last   *pb.SyncReply

	consumed position.Set
	held     []position.Interval
	epoch    uint32
	steps    *pb.RankSteps
	counters *pb.Counters
}

func (r *trainer) join(ctx context.Context) (err error) {
	r.joined, err = r.master.Join(ctx, &pb.JoinRequest{
		Session: session, Rank: r.rank, WorldSize: r.world,
		Nonce: fmt.Sprint(r.rank),
	})
	r.epoch, r.counters = r.joined.GetClosedEpochs(), &pb.Counters{}
	if r.joined.GetSession().GetSpec().GetLastBatch() == pb.LastBatch_PAD {
		r.steps = &pb.RankSteps{}
	}
	return err
}

// work hands over a share of each shard that is open, and ends the first.
func (r *trainer) work() { r.advance(true) }

// advance hands over some rows of each shard that is open, and the rest of the first if that ends it.
func (r *trainer) advance(ends bool) {
	if r.epoch < r.last.GetClosedEpochs() {
		return
	}
	for i := range min(streams, len(r.held)) {
		iv := &r.held[i]
		to := iv.From
		to.K += 10
		if i == 0 && ends {
			to = iv.To
		}
		r.consumed = r.consumed.Union(position.Set{{From: iv.From, To: to}})
		iv.From = to
		r.counters.Rows += 10
		r.counters.Batches++
	}
	if r.steps != nil {
		r.steps.Handed++
		r.steps.Ready = r.steps.Handed + streams
	}
	if ends && len(r.held) > 0 {
		r.held = r.held[1:]
	}
}

// sync is one exchange.
func (r *trainer) sync(ctx context.Context) error {
	req := &pb.SyncRequest{
		Session: session, Rank: r.rank, Nonce: fmt.Sprint(r.rank), Generation: r.joined.GetGeneration(),
		Incarnation: r.joined.GetIncarnation(),
		Consumed:    r.consumed.Proto(), Revision: r.last.GetRevision(), BaseVersion: r.last.GetBaseVersion(),
		WantsMore: len(r.held) <= streams,
		Counters:  proto.CloneOf(r.counters), Steps: r.steps,
	}
	reply, err := r.master.Sync(ctx, req)
	if err != nil {
		return err
	}
	if !reply.GetUnchanged() {
		r.held = r.held[:0]
		for _, g := range reply.GetGrants() {
			for _, iv := range (position.Set{position.IntervalFromProto(g.GetInterval())}).Subtract(r.consumed) {
				r.held = append(r.held, iv)
			}
		}
	}
	r.last = reply
	return nil
}
