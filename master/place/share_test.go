package place

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/internal/fleet"
)

func TestDivide(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		pool   float64
		claims []Claim
		want   []float64
	}{
		"nobody":                   {3, nil, nil},
		"one alone has all":        {4, []Claim{{1, 1, 0, inf}}, []float64{4}},
		"as much as it may":        {4, []Claim{{1, inf, 0, 3}}, []float64{3}},
		"by weight":                {4, []Claim{{1, inf, 0, inf}, {3, inf, 0, inf}}, []float64{1, 3}},
		"a light one has its need": {4, []Claim{{1, inf, 0, inf}, {1, 0.5, 0, inf}}, []float64{3.5, 0.5}},
		"the rest by weight":       {8, []Claim{{1, 1, 0, inf}, {1, 3, 0, inf}}, []float64{4, 4}},
		"a minimum":                {4, []Claim{{1, inf, 0, inf}, {1, 0, 3, inf}}, []float64{1, 3}},
		"too few for minimums":     {3, []Claim{{1, inf, 4, inf}, {2, inf, 4, inf}}, []float64{1, 2}},
		"no workers":               {0, []Claim{{1, inf, 1, inf}}, []float64{0}},
	} {
		got := Divide(c.pool, c.claims)
		if !slices.EqualFunc(got, c.want, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestDivideIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Float64Range(0, 1000)
		claims := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Claim {
			c := Claim{
				Weight: rapid.Float64Range(0.01, 100).Draw(t, "weight"), Need: amount.Draw(t, "need"),
				Min: amount.Draw(t, "min"), Max: math.Inf(1),
			}
			if rapid.Bool().Draw(t, "greedy") {
				c.Need = math.Inf(1)
			}
			if rapid.Bool().Draw(t, "bounded") {
				c.Max = amount.Draw(t, "max")
			}
			return c
		}), 1, 20).Draw(t, "claims")
		pool := amount.Draw(t, "pool")
		parts := Divide(pool, claims)
		const near = 1e-6
		minSum, maxSum := 0.0, 0.0
		lacks := false // somebody has less than it needs
		for i, c := range claims {
			low := min(c.Min, c.Max)
			minSum, maxSum = minSum+low, maxSum+c.Max
			if parts[i] < -near || parts[i] > c.Max+near {
				t.Fatalf("part %d of %v is %g", i, claims, parts[i])
			}
			lacks = lacks || parts[i] < min(c.Need, c.Max)-near
		}
		if sum := total(parts); math.Abs(sum-min(pool, maxSum)) > near*max(1, pool) {
			t.Fatalf("%g of %g is given: %v", sum, pool, parts)
		}
		for i, c := range claims {
			low := min(c.Min, c.Max)
			if minSum <= pool && parts[i] < low-near {
				t.Fatalf("part %d, %g, is below the minimum %g", i, parts[i], low)
			}
			if lacks && parts[i] > max(low, c.Need)+near {
				t.Fatalf("part %d, %g, is more than it needs, and others lack: %v", i, parts[i], parts)
			}
			for j, d := range claims { // who lacks has as much for its weight as anybody beyond their minimum
				if minSum <= pool && parts[i] < min(c.Need, c.Max)-near && parts[j] > min(d.Min, d.Max)+near &&
					parts[i]/c.Weight < parts[j]/d.Weight-near*max(1, parts[j]/d.Weight) {
					t.Fatalf("%d lacks with %g for a weight of %g, and %d has %g for %g",
						i, parts[i], c.Weight, j, parts[j], d.Weight)
				}
			}
		}
	})
}

func TestStreamsOf(t *testing.T) {
	p := New([]fleet.Member{{Name: "a", Slots: 8}, {Name: "b", Slots: 8}})
	for _, c := range []struct {
		part     float64
		trainers int
		was      uint32
		want     uint32
	}{
		{2, 1, 0, 12},
		{1, 1, 12, 6},
		{2, 100, 0, 1},
		{0, 1, 0, 1},
		{2, 0, 0, 12},
		{1.1, 1, 6, 6},  // 6.6
		{1.2, 1, 6, 7},  // 7.2
		{1.1, 1, 7, 7},  // it was more, and is still nearly so
		{0.95, 1, 7, 5}, // 5.7
		{20, 1, 0, 16},
	} {
		if got := p.StreamsOf(c.part, c.trainers, c.was); got != c.want {
			t.Errorf("%+v: %d streams", c, got)
		}
	}
	if got := New(nil).StreamsOf(0, 1, 7); got != 7 {
		t.Errorf("without workers: %d streams", got)
	}
}

// What Divide gives of a whole pool is a hair less than the pool. 16 slots
// are two streams for each of eight trainers all the same.
func TestTheWholePoolIsNotOneStreamLess(t *testing.T) {
	p := New([]fleet.Member{{Name: "a", Slots: 8}, {Name: "b", Slots: 8}})
	for trainers, want := range map[int]uint32{2: 6, 8: 2, 16: 1} {
		part := Divide(2, []Claim{{Weight: 1, Need: 1.7, Max: math.Inf(1)}})
		if got := p.StreamsOf(part[0], trainers, 0); got != want {
			t.Errorf("%d trainers: %d streams", trainers, got)
		}
	}
}

// A part that wavers by a twentieth does not make the number of streams waver.
func TestStreamsDoNotFlutter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New([]fleet.Member{{Name: "a", Slots: rapid.IntRange(1, 64).Draw(t, "slots")}})
		part, n := rapid.Float64Range(0, 1).Draw(t, "part"), rapid.IntRange(1, 50).Draw(t, "trainers")
		now := p.StreamsOf(part*1.05, n, 0)
		for _, waver := range rapid.SliceOfN(rapid.Float64Range(0.95, 1.05), 1, 20).Draw(t, "wavers") {
			if next := p.StreamsOf(part*waver, n, now); next != now {
				t.Fatalf("%d streams, then %d", now, next)
			}
		}
	})
}
