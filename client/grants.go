package client

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// grant is a run of positions that the master says this rank holds.
type grant struct {
	position.Interval
	raw     []byte
	ticket  *pb.SignedTicket
	workers []*pb.Worker
	file    string

	// Where outputs are counted: how many there are, in which lane, after how many.
	rows  uint64
	lane  uint32
	first uint64
}

func parseGrant(m *pb.Grant) (grant, error) {
	g := grant{Interval: position.IntervalFromProto(m.GetInterval()), raw: m.GetTicket(), ticket: new(pb.SignedTicket)}
	if err := proto.Unmarshal(m.GetTicket(), g.ticket); err != nil {
		return g, fmt.Errorf("grant %v: ticket: %w", g.Interval, err)
	}
	var t pb.Ticket
	if err := proto.Unmarshal(g.ticket.GetTicket(), &t); err != nil {
		return g, fmt.Errorf("grant %v: ticket: %w", g.Interval, err)
	}
	g.workers, g.file = t.GetWorkers(), t.GetFile().GetUri()
	return g, nil
}

// grant replaces what is held. Tickets that did not change are not parsed again.
func (h *holdings) grant(ms []*pb.Grant) error {
	known := make(map[position.Position]grant, len(h.grants))
	for _, g := range h.grants {
		known[g.From.ShardStart()] = g
	}
	grants := make([]grant, 0, len(ms))
	for _, m := range ms {
		iv := position.IntervalFromProto(m.GetInterval())
		g, ok := known[iv.From.ShardStart()]
		switch raw := m.GetTicket(); {
		case ok && (bytes.Equal(g.raw, raw) || sameShard(grants, iv) && len(raw) == 0):
			g.Interval = iv
		default:
			var err error
			if g, err = parseGrant(m); err != nil {
				return err
			}
			known[iv.From.ShardStart()] = g
		}
		g.rows, g.lane, g.first = m.GetRows(), m.GetLane(), m.GetFirst()
		grants = append(grants, g)
	}
	h.grants = grants
	return nil
}

// sameShard reports whether an interval is of the shard of the last grant, whose ticket it shares then.
func sameShard(grants []grant, iv position.Interval) bool {
	return len(grants) > 0 && grants[len(grants)-1].From.ShardStart() == iv.From.ShardStart()
}

// release gives back what the master asked for, as far as the pacing does. making is the number of rows in the batch in
// the making.
func (l *ledger) release(asked position.Set, making int) {
	l.released = l.pacing.gives(asked, making)
	if len(l.released) == 0 {
		return
	}
	grants := make([]grant, 0, len(l.grants))
	for _, g := range l.grants {
		for _, iv := range (position.Set{g.Interval}).Subtract(l.released) {
			g.Interval = iv
			grants = append(grants, g)
		}
	}
	l.grants = grants
}
