package client

import (
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/internal/wire"
)

// fast is the order in which rows are taken as they come.
type fast struct{ ledger *ledger }

// reconcile makes pieces of all that is granted and not gone: it trims or drops the pieces that there are, renews
// their tickets, and adds what is missing.
func (o fast) reconcile() {
	l := o.ledger
	o.checkPending()
	gone := l.gone()
	left := make(map[position.Position]position.Set) // by shard
	byShard := make(map[position.Position]grant)
	for _, g := range l.grants {
		if shard := g.From.ShardStart(); shard.Epoch >= l.current() {
			byShard[shard] = g
			left[shard] = left[shard].Union(position.Set{g.Interval}.Subtract(gone))
		}
	}
	for _, p := range slices.Clone(l.pieces) {
		from := p.taken
		if i := slices.IndexFunc(left[p.shard], func(iv position.Interval) bool {
			return !from.Less(iv.From) && from.Less(iv.To)
		}); i >= 0 {
			l.trim(p, left[p.shard][i].To)
			left[p.shard] = left[p.shard].Subtract(position.Set{{From: from, To: p.to}})
			p.renew(byShard[p.shard])
			continue
		}
		l.drop(p)
		l.remove(p)
	}
	for shard, set := range left {
		for _, iv := range set {
			l.pieces = append(l.pieces, newPiece(iv, byShard[shard]))
		}
	}
	slices.SortFunc(l.pieces, func(a, b *piece) int { return a.taken.Compare(b.taken) })
}

// checkPending throws the batch in the making away if some of its rows are not held any more: the lease had ended,
// and the master gave them to others. What is still held is read again.
func (o fast) checkPending() {
	l := o.ledger
	var held position.Set
	for _, g := range l.grants {
		held = append(held, g.Interval)
	}
	if !from(position.NewSet(held...), l.current()).Covers(position.NewSet(l.pending...)) {
		l.pending, l.skips.pending, l.discard = nil, nil, true
	}
}

// startable returns the next piece to open, or nil. A piece of the open epoch that came late takes the place of
// the last piece of a later epoch, whose rows wait for it anyway.
func (o fast) startable() *piece {
	l := o.ledger
	var first, last *piece
	open := 0
	for _, p := range l.pieces {
		if p.open {
			open++
			if p.refused == nil {
				last = p
			}
		} else if first == nil {
			first = p
		}
	}
	if first == nil || open < l.streams {
		return first
	}
	if first.taken.Epoch == l.current() && last != nil && !o.openInEpoch() {
		o.park(last)
		return first
	}
	return nil
}

func (o fast) openInEpoch() bool {
	l := o.ledger
	return slices.ContainsFunc(l.pieces, func(p *piece) bool { return p.open && p.taken.Epoch == l.current() })
}

// park replaces an open piece by one that has not begun.
func (o fast) park(p *piece) {
	l := o.ledger
	l.drop(p)
	l.pieces[slices.Index(l.pieces, p)] = newPiece(position.Interval{From: p.taken, To: p.to},
		grant{ticket: p.ticket, workers: p.workers, file: p.file})
}

// take moves up to n rows of the open epoch into the batch in the making, in order of arrival. It returns the piece
// they came from, or nil if there are none.
func (o fast) take(n int) (chunk, *piece) {
	l := o.ledger
	var from *piece
	current := l.current()
	for _, p := range l.pieces {
		if p.taken.Epoch == current && len(p.queue) > 0 && (from == nil || p.queue[0].seq < from.queue[0].seq) {
			from = p
		}
	}
	if from == nil {
		return chunk{}, nil
	}
	return l.takeFrom(from, n), from
}

// pass notes positions that have no rows: like rows they are consumed with the next hand-over, under the lease.
func (o fast) pass(iv position.Interval) {
	if !iv.Empty() {
		o.ledger.pending = append(o.ledger.pending, iv)
	}
}

// waitsForLent reports whether so much of what a piece has is lent memory, and so many rows wait, that its stream waits
// for some to be used.
func (o fast) waitsForLent(p *piece) bool {
	l := o.ledger
	return p.lent() >= wire.Kept && l.rows() >= readAhead*l.batch
}

func (o fast) received(*piece, int, position.Position) error { return nil }
func (o fast) filled(have int) bool                          { return have == o.ledger.batch }
func (o fast) forget(*piece)                                 {}
func (o fast) begin()                                        {}
func (o fast) learn([]*pb.LaneStart)                         {}
func (o fast) places() int                                   { return o.ledger.streams }
func (o fast) shares() int                                   { return o.ledger.streams }
func (o fast) snapshot(*snapshot)                            {}
func (o fast) turns() bool                                   { return false }
