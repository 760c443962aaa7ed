package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Workers leave rows out that are bad by their own bytes, and the rank that hands over what surrounds them reports how
// many, by epoch: all of them beside all that it consumed, in one Sync. So they are counted as what was consumed is:
// they lie in the rank's key, and move to base with it. The spec's on_error says how many an epoch may have; one more
// fails the session.

const (
	// maxNamedRows bounds how many bad rows are named of a session: others are counted.
	maxNamedRows = 16
	// maxPastSkips bounds of how many epochs it is known how many rows they lacked. The newest are.
	maxPastSkips = 64
)

// BadRow is a row that was left out.
type BadRow struct {
	Epoch uint32
	File  string // its URI
	Row   int64
	Words string
}

// badRows are those that were left out.
type badRows struct {
	base  position.Tally // beside State.base
	past  position.Tally // of closed epochs
	named []BadRow       // a few
}

// BadRows are how many rows were left out of each epoch, and a few of them.
func (s *State) BadRows() (position.Tally, []BadRow) {
	return s.badRows.past.Plus(s.openBadRows()), s.badRows.named
}

// openBadRows counts those of epochs that are not closed.
func (s *State) openBadRows() position.Tally {
	sum := s.badRows.base
	for _, k := range s.ranks {
		if k != nil {
			sum = sum.Plus(k.skips)
		}
	}
	return sum.From(s.closed)
}

// closeBadRows keeps how many rows the open epoch lacks, which is about to be closed.
func (s *State) closeBadRows() {
	past := s.badRows.past.Plus(s.openBadRows().Before(s.closed + 1))
	s.badRows.past = past[max(0, len(past)-maxPastSkips):]
}

// leaveOut takes up what a rank reports.
func (s *State) leaveOut(c Sync, k *rank, ch *Changes) {
	for _, r := range c.BadRows { // as they are received: they count once what surrounds them is handed over
		s.nameBadRow(r, ch)
	}
	news := k.skips.Max(c.Skips.From(s.closed))
	if news.Equal(k.skips) {
		return
	}
	k.skips = news
	ch.rank(c.Rank)
	for _, of := range s.openBadRows() {
		if of.N > uint64(s.id.SkipRows) && s.failure == "" {
			s.failure, s.badData = s.tooManyBadRows(of), true
			ch.Head = true
		}
	}
}

func (s *State) nameBadRow(r BadRow, ch *Changes) {
	r.Words = short(r.Words, maxWords)
	known := slices.ContainsFunc(s.badRows.named, func(n BadRow) bool {
		return n.Epoch == r.Epoch && n.File == r.File && n.Row == r.Row
	})
	if !known && len(s.badRows.named) < maxNamedRows {
		s.badRows.named = append(slices.Clip(s.badRows.named), r)
		ch.Head = true
	}
}

func (s *State) tooManyBadRows(of position.Count) string {
	var names []string
	for _, r := range s.badRows.named {
		if r.Epoch == of.Epoch && len(names) < 3 {
			names = append(names, fmt.Sprintf("%s row %d: %s", r.File, r.Row, r.Words))
		}
	}
	return fmt.Sprintf("epoch %d has %d bad rows or more, and on_error lets %d of an epoch be left out; some of them: "+
		"%s; mend the files, or the function that fails, or restore the newest checkpoint in a session whose spec "+
		"says on_error: {skip_rows: N} with a greater N", of.Epoch+1, of.N, s.id.SkipRows, strings.Join(names, "; "))
}

// forgetBadRows forgets of epochs what states tell no more.
func (s *State) forgetBadRows(before uint32) {
	s.badRows.base = s.badRows.base.From(before)
	for _, k := range s.ranks {
		if k != nil {
			k.skips = k.skips.From(before)
		}
	}
}

// rewindBadRows goes on from what the states of a restore say.
func (s *State) rewindBadRows(m merged) {
	if m.session != s.id.Session {
		s.badRows.past = nil
	}
	s.badRows.past, s.badRows.base = s.badRows.past.Before(m.closed), m.skips.From(m.closed)
	s.badRows.named = slices.DeleteFunc(slices.Clone(s.badRows.named), func(r BadRow) bool {
		return m.session != s.id.Session || r.Epoch >= m.closed && m.skips.Of(r.Epoch) == 0
	})
}

// BadRowsProto returns rows as they cross the wire.
func BadRowsProto(rows []BadRow) []*pb.NamedRow {
	var out []*pb.NamedRow
	for _, r := range rows {
		out = append(out, &pb.NamedRow{Epoch: r.Epoch, File: r.File, Row: r.Row, Cause: r.Words})
	}
	return out
}

// BadRowsFromProto reads them.
func BadRowsFromProto(ms []*pb.NamedRow) []BadRow {
	var out []BadRow
	for _, m := range ms[:min(len(ms), maxNamedRows)] {
		out = append(out, BadRow{
			Epoch: m.GetEpoch(), File: short(m.GetFile(), maxReason), Row: m.GetRow(), Words: m.GetCause(),
		})
	}
	return out
}
