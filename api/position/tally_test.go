package position

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

// A tally from outside is in order, has each epoch once, and counts that can be added; a proper one comes as it went.
func TestTallyFromProto(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{0, 3, 3 * maxTally}).Draw(t, "entries")
		epochs := rapid.Uint32Range(0, uint32(n))
		var m []*pb.EpochRows
		most := map[uint32]uint64{}
		for range n {
			rows := rapid.SampledFrom([]uint64{0, 1, 7, math.MaxUint64}).Draw(t, "rows")
			m = append(m, &pb.EpochRows{Epoch: epochs.Draw(t, "epoch"), Rows: rows})
			if e := m[len(m)-1].GetEpoch(); rows > 0 {
				most[e] = max(most[e], min(rows, maxCount))
			}
		}
		got := TallyFromProto(m)
		if len(got) != min(len(most), maxTally) {
			t.Fatalf("%d epochs of %d", len(got), len(most))
		}
		for i, c := range got {
			if i > 0 && got[i-1].Epoch >= c.Epoch || c.N != most[c.Epoch] {
				t.Fatalf("%v, want %v", got, most)
			}
		}
		if len(got) > 0 && len(got) < len(most) {
			for e := range most {
				if _, has := got.find(e); !has && e > got[0].Epoch {
					t.Fatalf("epoch %d is not there, and %d is", e, got[0].Epoch)
				}
			}
		}
		if again := TallyFromProto(got.Proto()); !slices.Equal(again, got) {
			t.Fatalf("%v, then %v", got, again)
		}
	})
}
