package command

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/observe"
)

// shares says how evenly the ranks of a session got its rows, and how much of their batches is padding. It is empty
// where there is nothing to compare.
func shares(s *pb.Session) string {
	n, ok := observe.SharesOf(s.GetProgress(), observe.PaddedBatch(s))
	if !ok {
		return ""
	}
	out := fmt.Sprintf("%s to %s rows a rank", humanize.Comma(n.MinRows), humanize.Comma(n.MaxRows))
	if n.MinRows == n.MaxRows {
		out = humanize.Comma(n.MaxRows) + " rows a rank"
	}
	if observe.PaddedBatch(s) > 0 {
		out += fmt.Sprintf("; %.1f%% of the rows of batches are padding", 100*n.Padding)
	}
	return out
}
