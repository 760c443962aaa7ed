package master

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/telemetry"
)

// How evenly ranks got rows, and how much of their batches is padding, has series of each session in which ranks got
// any.
func TestSharesHaveSeries(t *testing.T) {
	t.Parallel()
	rank := func(rows, batches int64) *pb.RankProgress {
		return &pb.RankProgress{Counters: &pb.Counters{Rows: rows, Batches: batches}}
	}
	got := map[string]map[string]float64{}
	registry := prometheus.NewRegistry()
	registry.MustRegister(telemetry.Func(func(ch chan<- prometheus.Metric) {
		newMetrics().write(ch, &pb.Observation{Sessions: []*pb.SessionLoad{
			{
				Session: "padded", PaddedBatch: 50,
				Progress: &pb.Progress{RowsDelivered: 320, Ranks: []*pb.RankProgress{rank(200, 4), rank(120, 4)}},
			},
			{Session: "uneven", Progress: &pb.Progress{
				RowsDelivered: 30,
				Ranks:         []*pb.RankProgress{rank(20, 1), rank(10, 1)},
			}},
			{Session: "new", PaddedBatch: 50, Progress: &pb.Progress{Ranks: []*pb.RankProgress{rank(0, 0)}}},
		}})
	}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "session" && got[l.GetValue()] == nil {
					got[l.GetValue()] = map[string]float64{}
				}
				if l.GetName() == "session" {
					got[l.GetValue()][f.GetName()] = m.GetGauge().GetValue()
				}
			}
		}
	}
	const imbalance, padding = "penstock_session_rank_imbalance_ratio", "penstock_session_padding_ratio"
	for session, want := range map[string]map[string]float64{
		"padded": {imbalance: 0.4, padding: 0.2},
		"uneven": {imbalance: 0.5}, "new": {},
	} {
		for _, name := range []string{imbalance, padding} {
			value, there := got[session][name]
			if wanted, wants := want[name]; there != wants || value != wanted {
				t.Errorf("%s of %s: got %v (%v), want %v (%v)", name, session, value, there, wanted, wants)
			}
		}
	}
}
