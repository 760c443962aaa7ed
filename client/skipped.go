package client

import "github.com/penstock-ml/penstock/api/pb"

// Skipped tells that rows were left out: no worker can read them, and the spec's on_error allows it.
type Skipped struct {
	Epoch uint32
	// File is the URI. Of its row group, Rows source rows from FirstRow of the file on are left out.
	File     string
	RowGroup uint32
	FirstRow int64
	Rows     int64
	// Cause is a worker's word for it: it names the column and the page.
	Cause string
}

func skippedOf(m *pb.SkippedRows) Skipped {
	return Skipped{
		Epoch: m.GetEpoch(), File: m.GetFile(), RowGroup: m.GetRowGroup(),
		FirstRow: m.GetFirstRow(), Rows: m.GetRows(), Cause: m.GetCause(),
	}
}

// saySkipped says what was left out since it said so last.
func (c *control) saySkipped(list []*pb.SkippedRows) {
	for _, m := range list {
		k := skippedOf(m)
		if c.knownSkipped[k] {
			continue
		}
		c.knownSkipped[k] = true
		c.terms.log.Warn("rows are left out: no worker can read them", "event", "rows_skipped", "epoch", k.Epoch,
			"file", k.File, "row_group", k.RowGroup, "first_row", k.FirstRow, "rows", k.Rows, "cause", k.Cause)
		if skip := c.terms.cfg.OnSkip; skip != nil {
			skip(k)
		}
	}
}
