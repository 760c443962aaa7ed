package pipeline

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// checkTicket finds what in a ticket does not fit the file, before anything is read by it.
func checkTicket(f format.File, t *pb.Ticket) error {
	uri, extents := t.GetFile().GetUri(), f.Extents()
	_, byTicket := f.(format.Scanned)
	if byTicket && len(t.GetFile().GetExcluded()) > 0 {
		return fmt.Errorf("%s: its table has deleted rows of it, and a file of %s does not say which rows it has: %w",
			uri, f.Format(), ErrProgram)
	}
	for _, g := range t.GetExtents() {
		if g.GetWindowRows() <= 0 || min(g.GetWindowRows(), g.GetRows()) > math.MaxInt32 {
			return fmt.Errorf("%s %s: the ticket has windows of %d rows; want 1 to %d: %w",
				uri, format.Name(f, int(g.GetIndex())), g.GetWindowRows(), math.MaxInt32, ErrProgram)
		}
		if byTicket {
			continue
		}
		if g.GetOffset() != 0 || g.GetLength() != 0 || g.GetSkip() != 0 || g.GetBytes() != 0 ||
			g.GetShared() != 0 || g.GetOver() != 0 || g.GetRestart() != nil || g.GetNext() != nil {
			return fmt.Errorf("%s: the ticket has places of extents, which the file has itself: %w", uri, ErrProgram)
		}
		if g.GetBeside() != 0 && g.GetBeside() != format.BesideOf(f) {
			return fmt.Errorf("%s: the file beside it that says where its documents begin was changed since the "+
				"session was planned: %w", uri, storage.ErrChanged)
		}
		name := format.Name(f, int(g.GetIndex()))
		if int(g.GetIndex()) >= len(extents) {
			return fmt.Errorf("%s has no %s, which the ticket names: %w", uri, name, storage.ErrChanged)
		}
		have := extents[g.GetIndex()]
		if have.Rows != g.GetRows() || have.FirstRow != g.GetFirstRow() {
			return fmt.Errorf("%s %s has %d rows from %d on, the ticket says %d from %d on: %w",
				uri, name, have.Rows, have.FirstRow, g.GetRows(), g.GetFirstRow(), storage.ErrChanged)
		}
	}
	return nil
}

// placed is a file with the extents of a ticket, where the file itself does not say where they lie.
func placed(f format.File, t *pb.Ticket) (format.File, error) {
	of, ok := f.(format.Scanned)
	if !ok {
		return f, nil
	}
	places := make([]format.Place, len(t.GetExtents()))
	for i, g := range t.GetExtents() {
		places[i] = format.PlaceOf(g)
	}
	f, err := of.At(places)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.GetFile().GetUri(), err)
	}
	return f, nil
}
