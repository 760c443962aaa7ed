package session

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// counted is a state in which all blocks of a dataset are planned.
func counted(t testing.TB, d dataset) *State {
	id := testID
	id.LastBatch, id.Epochs, id.FirstWorldSize = pb.LastBatch_DROP, uint32(len(d)), 1
	s, err := New(id)
	if err != nil {
		t.Fatal(err)
	}
	for e := range d {
		for b := range d[e] {
			p := d.planned(uint32(e), uint32(b))
			s.blocks.list = append(s.blocks.list, block{
				epoch: p.Epoch, index: p.Block, blocks: p.Blocks, shards: p.Shards, counts: newCounts(p.Outputs),
			})
		}
	}
	return s
}

// Rows of sets are counted as they are listed, and the first n of them are found.
func TestRowsInSets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := randomDataset(rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "dataset"), 1)).IntN)
		s := counted(t, d)
		var places []position.Position // rows, ends of windows, starts of shards and blocks
		for e := range d {
			for b := range d[e] {
				places = append(places, position.Position{Epoch: uint32(e), Block: uint32(b)})
				for i, windows := range d[e][b] {
					for w, rows := range windows {
						for k := range rows + 1 {
							places = append(places, position.Position{
								Epoch: uint32(e), Block: uint32(b),
								Shard: uint32(i), Window: uint32(w), K: uint64(k),
							})
						}
					}
				}
			}
		}
		places = append(places, position.Position{Epoch: uint32(len(d))})
		var intervals []position.Interval
		for range rapid.IntRange(0, 4).Draw(rt, "intervals") {
			from := rapid.SampledFrom(places).Draw(rt, "from")
			to := rapid.SampledFrom(places).Draw(rt, "to")
			if from.Less(to) {
				intervals = append(intervals, position.Interval{From: from, To: to})
			}
		}
		set := position.NewSet(intervals...)
		rows := d.rows(set)
		if got := s.blocks.rowsIn(set); got != uint64(len(rows)) {
			rt.Fatalf("%v: %d rows, want %d", set, got, len(rows))
		}
		n := rapid.IntRange(0, len(rows)+1).Draw(rt, "n")
		first := s.blocks.firstRows(set, uint64(n))
		if !set.Covers(first) {
			rt.Fatalf("the first %d rows of %v are in %v", n, set, first)
		}
		got := d.rows(first)
		if len(got) != min(n, len(rows)) || len(got) > 0 && got[len(got)-1] != rows[len(got)-1] {
			rt.Fatalf("the first %d rows of %v are %v", n, set, got)
		}
	})
}

func TestOutputsFitTheirBlock(t *testing.T) {
	s := counted(t, dataset{{{{1}}}})
	s.blocks.list = nil
	for _, outputs := range []Outputs{nil, {{1}, {2}}} {
		if _, _, err := s.Apply(Planned{Blocks: 1, Shards: 1, Rows: 1, Outputs: outputs}); err == nil ||
			!strings.Contains(err.Error(), "block 0 of epoch 0 has 1 shards") {
			t.Errorf("%v: %v", outputs, err)
		}
	}
	planned := Planned{Blocks: 1, Shards: 1, Rows: 1, Outputs: Outputs{{1}}}
	for range 2 {
		if _, _, err := s.Apply(planned); err != nil {
			t.Error(err)
		}
	}
	for blocks, want := range map[*pb.Block]string{
		{}:         "has 1 shards, and the outputs of 0",
		{Index: 1}: "block 0 of epoch 0, which the head names, does not lie in etcd",
	} {
		if _, err := Load(s.id, s.Head(), nil, []*pb.Block{blocks}, nil); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", blocks, err)
		}
	}
}

func TestMostOutputs(t *testing.T) {
	four := &pb.Program{Steps: []*pb.Step{{Python: &pb.Function{Kind: pb.FunctionKind_FLAT_MAP, Most: 4}}}}
	g := &pb.Extent{Rows: 25, WindowRows: 10}
	if got := MostOutputs(g, nil); !slices.Equal(got, []uint32{10, 10, 5}) {
		t.Errorf("one of each row: %v", got)
	}
	if got := MostOutputs(g, four); !slices.Equal(got, []uint32{40, 40, 20}) {
		t.Errorf("four of each row: %v", got)
	}
	g.Outputs = []uint32{0, 7, 30}
	if got := MostOutputs(g, four); !slices.Equal(got, []uint32{0, 7, 30}) {
		t.Errorf("counted: %v", got)
	}
}
