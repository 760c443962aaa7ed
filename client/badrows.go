package client

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Workers leave rows out that are bad by their own bytes, where the spec's on_error allows it, and say with their
// batches before which row each would stand. So such a row is consumed with the row behind it, or with the end of its
// window, and is counted then: once, whoever hands over what.

// leftOut are a piece's rows that workers left out.
type leftOut struct {
	at []position.Position // received, and not taken yet: where they would stand, ascending
	// Of the window that the piece's received cursor stands in, how many lie before it; known is false where that
	// cannot be said, since the piece began there.
	before uint64
	known  bool
}

// learn takes in what a placed batch says, which moves a piece's received cursor. It reports whether there is news.
// Streams of one shard must agree.
func (o *leftOut) learn(m *pb.BatchMeta, shard, received, after position.Position) (news bool, err error) {
	if !received.Less(after) {
		return false, nil
	}
	before, at := uint64(m.GetSkippedBefore()), shard
	at.Window = m.GetWindow()
	skipped := m.GetSkipped()
	if end := m.GetK() + uint64(m.GetRows()); !slices.IsSorted(skipped) ||
		len(skipped) > 0 && (skipped[0] < m.GetK() || skipped[len(skipped)-1] > end) {
		return false, status.Errorf(codes.InvalidArgument, "says of rows %d to %d of a window that bad ones were left "+
			"out before others than these, or in no order: "+sameRelease, m.GetK(), end)
	}
	for len(skipped) > 0 {
		if at.K = skipped[0]; !at.Less(received) {
			break
		}
		before, skipped = before+1, skipped[1:]
	}
	if m.GetWindow() != received.Window || received.K == 0 {
		o.before, o.known = 0, true
	}
	if o.known && o.before != before {
		return false, status.Errorf(codes.InvalidArgument,
			"left out %d bad rows of the window before %v, and another stream %d: a row that is bad must be so on any "+
				"worker; does a Python function fail at random, or do workers run other releases?",
			before, received, o.before)
	}
	o.before, o.known = before, true
	for _, k := range skipped {
		if at.K = k; at.Less(after) {
			o.at = append(o.at, at)
			o.before, news = o.before+1, true
		}
	}
	return news, nil
}

// take removes those before a cursor, and counts them.
func (o *leftOut) take(to position.Position) position.Tally {
	n := 0
	for n < len(o.at) && o.at[n].Less(to) {
		n++
	}
	if n == 0 {
		return nil
	}
	epoch := o.at[0].Epoch
	o.at = slices.Delete(o.at, 0, n)
	return position.Tally{{Epoch: epoch, N: uint64(n)}}
}

// trim removes those from a cursor on.
func (o *leftOut) trim(to position.Position) {
	o.at = slices.DeleteFunc(o.at, func(at position.Position) bool { return !at.Less(to) })
}

// skips is the ledger's account of rows that were left out.
type skips struct {
	consumed position.Tally // beside what was handed over
	pending  position.Tally // beside what is in the batch in the making
	total    int64          // handed over by this process
	named    []*pb.NamedRow // a few
	sent     int            // of named, in the newest request
	told     int            // of named, to a master
}

// maxNamedRows is how many bad rows a client names.
const maxNamedRows = 16

// name notes a few rows by name.
func (s *skips) name(epoch uint32, file string, rows []*pb.BadRow) {
	for _, r := range rows {
		known := slices.ContainsFunc(s.named, func(n *pb.NamedRow) bool {
			return n.GetEpoch() == epoch && n.GetFile() == file && n.GetRow() == r.GetRow()
		})
		if !known && len(s.named) < maxNamedRows {
			s.named = append(s.named, &pb.NamedRow{Epoch: epoch, File: file, Row: r.GetRow(), Cause: r.GetCause()})
		}
	}
}

// taken notes that a piece's rows are taken up to its cursor.
func (s *skips) taken(p *piece) { s.pending = s.pending.Plus(p.leftOut.take(p.taken)) }

// handOver makes them consumed.
func (s *skips) handOver() {
	s.total += int64(s.pending.Sum())
	s.consumed, s.pending = s.consumed.Plus(s.pending), nil
}

// request fills in what a Sync says.
func (s *skips) request(req *pb.SyncRequest, epoch uint32) {
	req.ConsumedSkips = s.consumed.From(epoch).Proto()
	req.BadRows = s.named[s.told:]
	s.sent = len(s.named)
}

// sayBadRows says which rows a Sync named.
func (c *control) sayBadRows(rows []*pb.NamedRow) {
	for _, r := range rows {
		c.terms.log.Warn("a row is left out: its own bytes make it fail; of more rows, a few are named",
			"event", "bad_row", "epoch", r.GetEpoch(), "file", r.GetFile(), "row", r.GetRow(), "cause", r.GetCause())
	}
}
