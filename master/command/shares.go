package command

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/penstock-ml/penstock/api/pb"
)

// shares says how evenly the ranks of a session got its rows, and how much of their batches is padding. It is empty where there is nothing
// to compare.
func shares(s *pb.Session) string {
	ranks := s.GetProgress().GetRanks()
	if len(ranks) == 0 || s.GetProgress().GetRowsDelivered() == 0 {
		return ""
	}
	least, most, room := ranks[0].GetCounters().GetRows(), int64(0), int64(0)
	for _, r := range ranks {
		rows := r.GetCounters().GetRows()
		least, most = min(least, rows), max(most, rows)
		room += r.GetCounters().GetBatches() * s.GetBatchSize()
	}
	out := fmt.Sprintf("%s to %s rows a rank", humanize.Comma(least), humanize.Comma(most))
	if least == most {
		out = humanize.Comma(most) + " rows a rank"
	}
	if s.GetSpec().GetLastBatch() == pb.LastBatch_PAD && room > 0 {
		padding := max(0, room-s.GetProgress().GetRowsDelivered())
		out += fmt.Sprintf("; %.1f%% of the rows of batches are padding", 100*float64(padding)/float64(room))
	}
	return out
}
