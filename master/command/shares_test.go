package command

import (
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestShares(t *testing.T) {
	for want, s := range map[string]*pb.Session{
		"":                               {Spec: &pb.Spec{}, Progress: &pb.Progress{}},
		"100,000 to 250,000 rows a rank": ranksWith(pb.LastBatch_UNEVEN, 250_000, 100_000),
		"1,000 rows a rank; 50.0% of the rows of batches are padding":        ranksWith(pb.LastBatch_PAD, 1000, 1000),
		"500 to 1,000 rows a rank; 62.5% of the rows of batches are padding": ranksWith(pb.LastBatch_PAD, 1000, 500),
	} {
		if got := shares(s); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

// ranksWith is a session whose ranks have so many rows in 20 batches of 100 each.
func ranksWith(last pb.LastBatch, rows ...int64) *pb.Session {
	s := &pb.Session{BatchSize: 100, Spec: &pb.Spec{LastBatch: last}, Progress: &pb.Progress{}}
	for i, n := range rows {
		s.Progress.RowsDelivered += n
		s.Progress.Ranks = append(s.Progress.Ranks,
			&pb.RankProgress{Rank: uint32(i), Counters: &pb.Counters{Rows: n, Batches: 20}})
	}
	return s
}
