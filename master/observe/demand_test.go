package observe

import (
	"math"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// What no trainer can take is no demand, whatever one says: it would be shared out to all sessions.
func TestDemandThatCannotBe(t *testing.T) {
	s := &session{trainers: map[uint32]*trainer{}}
	for rank, rows := range []float64{100, math.Inf(1), math.NaN(), 1e300, -1} {
		s.trainers[uint32(rank)] = &trainer{pace: &pb.Pace{Steps: 1, StepNs: 1e9, Rows: rows}}
	}
	if got := s.demand(); got != 500 { // all of them like the one that is known
		t.Errorf("it is %v rows/s", got)
	}
}
