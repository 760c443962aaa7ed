package session

import "github.com/penstock-ml/penstock/api/pb"

// Unrecorded is how many rows a rank handed over by its own account, since what is recorded of its present start.
func (s *State) Unrecorded(rank uint32, c Counters) int64 {
	if k := s.rank(rank); k != nil {
		return c.Rows - k.counters.Rows
	}
	return 0
}

// Progress says how far the session is. After a restore, delivered rows count from there.
func (s *State) Progress() *pb.Progress {
	p := &pb.Progress{Epoch: s.closed, AbandonedEpochs: s.abandonedEpochs, AbandonedShards: s.abandonedShards}
	if e := s.blocks.epoch(s.closed); e != nil {
		p.Blocks, p.BlocksPlanned, p.RowsPlanned = e.blocks, e.planned, e.rows
		p.StripDone, p.StripHeld = s.strip()
	}
	for i, k := range s.ranks {
		if k == nil {
			continue
		}
		total := k.total()
		p.RowsDelivered += total.Rows
		p.Ranks = append(p.Ranks, &pb.RankProgress{
			Rank: uint32(i), Incarnation: k.incarnation, Present: k.present(), Counters: total.Proto(),
			MayRepeat: k.mayRepeat + k.atRisk,
		})
	}
	return p
}
