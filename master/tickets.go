package master

import (
	"fmt"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

// ticketLife is how long a ticket opens streams. It is authorisation only; who may hand over what is decided by grants.
const ticketLife = 6 * time.Hour

// ticketOffice signs tickets for a session's grants. It belongs to the session's goroutine.
type ticketOffice struct {
	master  *Master
	session *pb.Session
	program *pb.Program
	digest  []byte // of the program as it is written, which the session's is not where functions have limits
	code    *pb.StoredCode
	blocks  map[store.BlockID]*pb.Block // all that lie in etcd
}

func newTicketOffice(m *Master, stored *store.Session, program *pb.Program) *ticketOffice {
	o := &ticketOffice{
		master: m, session: stored.Meta.GetSession(), program: program, code: codeOf(stored.Meta.GetSession()),
		digest: []byte(ticket.Digest(stored.Meta.GetSession().GetProgram())), blocks: map[store.BlockID]*pb.Block{},
	}
	for _, b := range stored.Blocks {
		o.blocks[store.BlockID{Epoch: b.GetEpoch(), Index: b.GetIndex()}] = b
	}
	return o
}

// codeOf is what tickets say of the code of a session's functions; nil: it has none. Of functions by name there are no
// bytes.
func codeOf(s *pb.Session) *pb.StoredCode {
	if spec.ByName(s.GetSpec()) {
		return &pb.StoredCode{Identity: s.GetSpec().GetCode()}
	}
	return s.GetCode()
}

// grants returns intervals, each within one shard, with tickets for a trainer of a zone. Of intervals of one shard that
// follow each other the first has the ticket, for all of them.
func (o *ticketOffice) grants(generation uint64, intervals []position.Interval, zone string) ([]*pb.Grant, error) {
	places := o.master.places.get()
	out := make([]*pb.Grant, len(intervals))
	for i, iv := range intervals {
		out[i] = &pb.Grant{Interval: iv.Proto()}
		if i > 0 && iv.From.ShardStart() == intervals[i-1].From.ShardStart() {
			continue
		}
		var err error
		if out[i].Ticket, err = o.ticket(generation, iv.From, places, zone); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pieces returns the same for pieces of lanes.
func (o *ticketOffice) pieces(generation uint64, pieces []session.Piece, zone string) ([]*pb.Grant, error) {
	intervals := make([]position.Interval, len(pieces))
	for i, p := range pieces {
		intervals[i] = p.Interval
	}
	out, err := o.grants(generation, intervals, zone)
	for i, g := range out {
		g.Lane, g.First, g.Rows = pieces[i].Lane, pieces[i].First, pieces[i].Rows
	}
	return out, err
}

func (o *ticketOffice) ticket(generation uint64, p position.Position, places *places, zone string) ([]byte, error) {
	block := o.blocks[store.BlockID{Epoch: p.Epoch, Index: p.Block}]
	if int(p.Shard) >= len(block.GetShards()) {
		return nil, fmt.Errorf("master: position %v lies after the %d shards of its block", p, len(block.GetShards()))
	}
	shard := block.GetShards()[p.Shard]
	return o.master.signer.Sign(&pb.Ticket{
		Session: o.session.GetId(), Namespace: o.session.GetNamespace(), Generation: generation, Epoch: p.Epoch,
		Block: p.Block, Shard: p.Shard,
		File: shard.GetFile(), Extents: shard.GetExtents(), ProgramDigest: o.digest,
		Workers: places.For(shard, zone), ExpiresUnix: time.Now().Add(ticketLife).Unix(), Zone: zone,
		Weight: o.session.GetShare().GetWeight(), Code: o.code, Environment: o.session.GetSpec().GetPython(),
		SkipRows: o.session.GetSpec().GetOnError().GetSkipRows(),
	})
}

// rows bounds the output rows of intervals that each lie within one shard.
func (o *ticketOffice) rows(intervals []position.Interval) (n int64) {
	for _, iv := range intervals {
		block := o.blocks[store.BlockID{Epoch: iv.From.Epoch, Index: iv.From.Block}]
		if int(iv.From.Shard) >= len(block.GetShards()) {
			continue
		}
		within := iv.To.Shard == iv.From.Shard && iv.To.Block == iv.From.Block && iv.To.Epoch == iv.From.Epoch
		at := uint32(0)
		for _, g := range block.GetShards()[iv.From.Shard].GetExtents() {
			for _, outputs := range session.MostOutputs(g, o.program) {
				of, window := int64(outputs), at
				at++
				if window < iv.From.Window || within && window > iv.To.Window {
					continue
				}
				if within && window == iv.To.Window {
					of = min(of, int64(iv.To.K))
				}
				if window == iv.From.Window {
					of = max(0, of-int64(iv.From.K))
				}
				n += of
			}
		}
	}
	return n
}

// dropsAtOnce bounds the blocks that one transaction drops.
const dropsAtOnce = 16

// idle lists blocks that the state needs no longer.
func (o *ticketOffice) idle(s *session.State) []store.BlockID {
	var out []store.BlockID
	for id := range o.blocks {
		if !s.InFlight(id.Epoch, id.Index) && len(out) < dropsAtOnce {
			out = append(out, id)
		}
	}
	return out
}

// update follows what was written.
func (o *ticketOffice) update(w store.Writes) {
	for _, b := range w.Blocks {
		o.blocks[store.BlockID{Epoch: b.GetEpoch(), Index: b.GetIndex()}] = b
	}
	for _, id := range w.Drop {
		delete(o.blocks, id)
	}
}
