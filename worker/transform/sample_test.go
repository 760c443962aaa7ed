package transform

import (
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

func sampleChain(t failer, params values) *Chain {
	t.Helper()
	r := Builtin()
	sig, err := r.Check("sample", params.proto(), nil)
	if err != nil || !sig.SelectsRows {
		t.Fatalf("check sample: selects rows: %v, error: %v", sig.SelectsRows, err)
	}
	c, err := Compile(r,
		&pb.Program{Steps: []*pb.Step{{Op: "sample", Version: sig.Version, Params: sig.Params, At: "transforms[0]"}}},
		nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return c
}

func selected(c *Chain, rows Rows) []uint64 {
	sel := copyValid(nil, nil, rows.N)
	c.Select(rows, nil, sel)
	return sel
}

// Numbers computed by another program, from docs/reference/ops.md: they hold for as long as sessions are to give the
// same rows.
func TestRandomGolden(t *testing.T) {
	rows := Rows{Seed: 42, Epoch: 3, File: Hash("s3://bucket/part-0.parquet"), First: 1000, N: 4}
	for i, want := range []uint64{0xc1db7f1329dbd47e, 0x73b029557a787630, 0x73e8ecc9f3e94cb4, 0x6e608cde572db9e3} {
		if got := rows.Draws(7).At(i); got != want {
			t.Errorf("row %d: got %#x, want %#x", i, got, want)
		}
	}
	if got := selected(sampleChain(t, values{"rate": 0.5, "seed": 7}), rows)[0] & 15; got != 0b1110 {
		t.Errorf("selection: got %04b, want 1110", got)
	}
}

func TestSampleProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 1, math.Nextafter(1, 0)})).Draw(t,
			"rate")
		seed := rapid.Int64().Draw(t, "seed")
		rows := Rows{
			Seed: rapid.Int64().Draw(t, "program seed"), Epoch: rapid.Uint32().Draw(t, "epoch"),
			File:  rapid.Uint64().Draw(t, "file"),
			First: rapid.Int64Range(0, 1<<40).Draw(t, "first"), N: rapid.IntRange(0, 200).Draw(t, "rows"),
		}
		before := rapid.SliceOfN(rapid.Uint64(), (rows.N+63)/64, (rows.N+63)/64).Draw(t, "selected before")
		got := append([]uint64{}, before...)
		sampleChain(t, values{"rate": rate, "seed": seed}).Select(rows, nil, got)
		for i := range rows.N {
			draw := float64(rows.Draws(uint64(seed)).At(i)>>11) / (1 << 53)
			kept := before[i>>6]>>(i&63)&1 == 1 && draw < rate
			if got[i>>6]>>(i&63)&1 == 1 != kept {
				t.Fatalf("row %d: drew %v at rate %v, and is kept: %v", i, draw, rate, !kept)
			}
		}
	})
}

// TestSampleIsIndependentOfTheWindow cuts one file into windows in two ways.
func TestSampleIsIndependentOfTheWindow(t *testing.T) {
	c := sampleChain(t, values{"rate": 0.3})
	whole := selected(c, Rows{Seed: 1, N: 1000})
	for first := 0; first < 1000; first += 77 {
		part := selected(c, Rows{Seed: 1, First: int64(first), N: min(77, 1000-first)})
		for i := range min(77, 1000-first) {
			if part[i>>6]>>(i&63)&1 != whole[(first+i)>>6]>>((first+i)&63)&1 {
				t.Fatalf("row %d depends on the window", first+i)
			}
		}
	}
}

// TestSampleKeepsItsRate also checks that epochs, files and seeds choose independently.
func TestSampleKeepsItsRate(t *testing.T) {
	const n = 1 << 18
	base := Rows{Seed: 5, Epoch: 1, File: 9, N: n}
	c := sampleChain(t, values{"rate": 0.25})
	sets := map[string][]uint64{"base": selected(c, base)}
	for name, change := range map[string]func(*Rows){
		"seed": func(r *Rows) { r.Seed++ }, "epoch": func(r *Rows) { r.Epoch++ }, "file": func(r *Rows) { r.File++ },
	} {
		other := base
		change(&other)
		sets[name] = selected(c, other)
	}
	sets["op seed"] = selected(sampleChain(t, values{"rate": 0.25, "seed": 1}), base)
	for name, set := range sets {
		expectShare(t, name, set, set, 0.25)
		if name != "base" {
			expectShare(t, name+" and base", set, sets["base"], 0.0625)
		}
	}
}

// expectShare fails if the share of rows in both sets is off by more than 6 standard deviations.
func expectShare(t *testing.T, name string, a, b []uint64, want float64) {
	t.Helper()
	both := 0
	for i := range a {
		both += bits.OnesCount64(a[i] & b[i])
	}
	n := float64(len(a) * 64)
	if got := float64(both) / n; math.Abs(got-want) > 6*math.Sqrt(want*(1-want)/n) {
		t.Errorf("%s: share of rows is %v, want about %v", name, got, want)
	}
}
