package observe

import "github.com/penstock-ml/penstock/api/pb"

// Shares is how evenly the ranks of a session got its rows.
type Shares struct {
	MinRows, MaxRows int64   // rows of a rank
	Padding          float64 // part of the rows of batches, 0 to 1
}

// SharesOf compares ranks, and reports whether there is anything to compare. Where last batches are padded, all batches
// have paddedBatch rows; else it is 0.
func SharesOf(p *pb.Progress, paddedBatch int64) (s Shares, ok bool) {
	ranks := p.GetRanks()
	if len(ranks) == 0 || p.GetRowsDelivered() == 0 {
		return Shares{}, false
	}
	s.MinRows = ranks[0].GetCounters().GetRows()
	room := int64(0)
	for _, r := range ranks {
		rows := r.GetCounters().GetRows()
		s.MinRows, s.MaxRows = min(s.MinRows, rows), max(s.MaxRows, rows)
		room += r.GetCounters().GetBatches() * paddedBatch
	}
	if room > 0 {
		s.Padding = float64(max(0, room-p.GetRowsDelivered())) / float64(room)
	}
	return s, true
}

// PaddedBatch is how many rows a session's batches have on each rank, if last batches are padded; else 0.
func PaddedBatch(s *pb.Session) int64 {
	if s.GetSpec().GetLastBatch() != pb.LastBatch_PAD {
		return 0
	}
	return s.GetBatchSize()
}
