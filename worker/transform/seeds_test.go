package transform

import (
	"context"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/vector"
)

// A row has the same seed in whatever window it comes, and with whatever other rows.
func TestSeedsAreOfRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := Rows{
			Seed: rapid.Int64().Draw(t, "seed"), Epoch: rapid.Uint32().Draw(t, "epoch"),
			File: rapid.Uint64().Draw(t, "file"), N: 60,
		}
		whole := rows.Seeds(nil, "transforms[1]", 60)
		for first := 0; first < 60; {
			window := rows
			window.First, window.N = int64(first), rapid.IntRange(1, 60-first).Draw(t, "rows")
			var want []uint64
			for row := range window.N {
				if rapid.Bool().Draw(t, "chosen") {
					window.Chosen, want = append(window.Chosen, int32(row)), append(want, whole[first+row])
				}
			}
			if got := window.Seeds(make([]uint64, 7), "transforms[1]", len(want)); !slices.Equal(got, want) &&
				window.Chosen != nil {
				t.Fatalf("rows %v of %d: seeds %x, want %x", window.Chosen, first, got, want)
			}
			first += window.N
		}
	})
}

// All that a seed is of makes another one, half of whose bits differ; the rows that a row became count from 0 in each.
func TestSeedsDiffer(t *testing.T) {
	at := Rows{Seed: 1, Epoch: 2, File: 3, First: 40, N: 3}
	seen := map[uint64]bool{}
	differ, pairs := 0, 0
	base := at.Seeds(nil, "transforms[0]", 1)[0]
	add := func(rows Rows, place string, n int) {
		for _, s := range rows.Seeds(nil, place, n) {
			if seen[s] {
				t.Errorf("%+v: seed %x comes twice", rows, s)
			}
			if seen[s] = true; s != base {
				differ, pairs = differ+bits.OnesCount64(s^base), pairs+1
			}
		}
	}
	add(at, "transforms[0]", 3)
	add(at, "transforms[10]", 3)
	for _, other := range []Rows{
		{Seed: 2, Epoch: 2, File: 3, First: 40},
		{Seed: 1, Epoch: 3, File: 3, First: 40},
		{Seed: 1, Epoch: 2, File: 4, First: 40},
		{Seed: 1, Epoch: 2, File: 3, First: 43},
	} {
		add(other, "transforms[0]", 3)
	}
	if mean := float64(differ) / float64(pairs); mean < 28 || mean > 36 {
		t.Errorf("seeds differ in %v bits of 64 on average", mean)
	}
	parts := at
	parts.Chosen = []int32{0, 0, 0, 2, 2}
	got, plain := parts.Seeds(nil, "transforms[0]", 5), at.Seeds(nil, "transforms[0]", 3)
	if got[0] != plain[0] || got[3] != plain[2] || got[1] == got[0] || got[2] == got[1] || got[4] == got[3] {
		t.Errorf("parts have %x, and rows %x", got, plain)
	}
}

// The formula does not change: sessions that go on with a newer worker rely on it.
func TestSeedsOfAFormula(t *testing.T) {
	at := Rows{Seed: 7, Epoch: 1, File: Hash("s3://b/f"), First: 5, N: 2, Chosen: []int32{1, 1}}
	const place = "transforms[2]"
	key := mix(mix(mix(mix(7)+1)+Hash("s3://b/f")) + Hash(place))
	step := uint64(golden)
	d := mix(key + 7*step) // of row 6
	want := []uint64{mix(d + step), mix(d + 2*step)}
	if got := at.Seeds(nil, place, 2); !slices.Equal(got, want) || got[0] != 0x452caad86d7916f3 {
		t.Errorf("%x, want %x", got, want)
	}
}

// A function that draws is called with the seeds of the rows that it gets, and one that does not with none.
func TestFunctionsGetSeeds(t *testing.T) {
	for _, draws := range []bool{true, false} {
		number := scalar(pb.Kind_INT64)
		step := calls([]uint32{0}, number)
		step.Python.Rng = draws
		at := Rows{Seed: 3, First: 10, N: 20, Chosen: []int32{4, 6, 8}}
		called := 0
		c, err := Compile(Builtin(), &pb.Program{
			Sources: []*pb.Source{{Name: "x", Type: number.Proto()}}, Steps: []*pb.Step{step},
		}, functions(func(_ context.Context, c *Call) error {
			called++
			var want []uint64
			if draws {
				want = at.Seeds(nil, step.GetAt(), 3)
			}
			if !slices.Equal(c.Seeds, want) {
				t.Errorf("seeds %x, want %x", c.Seeds, want)
			}
			*c.Out[0] = *c.In[0]
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		asked := int64(0)
		c.Ask(Ask{Scratch: func(n int64) error { asked += n; return nil }})
		for range 2 {
			c.Place(at, images.Room{})
			x := vectorOf(spec.Type{Kind: pb.Kind_INT64}, []any{int64(1), int64(2), int64(3)})
			if _, err := c.Run(t.Context(), []*vector.Vector{x}); err != nil {
				t.Fatal(err)
			}
		}
		if called != 2 || (asked > 0) != draws || asked > 1000 {
			t.Errorf("%d calls, which asked for %d bytes", called, asked)
		}
	}
}
