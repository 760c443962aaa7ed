package master

import (
	"fmt"
	"hash/fnv"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

// aCut are shards of a few files, each extent of which is there once.
func aCut(t *rapid.T) (shards []*pb.Shard) {
	for file := range rapid.Uint32Range(0, 3).Draw(t, "files") {
		var first int64
		for extent := range rapid.Uint32Range(0, 6).Draw(t, "extents") {
			rows := rapid.Int64Range(1, 50).Draw(t, "rows")
			g := &pb.Extent{
				Index: extent, FirstRow: first, Rows: rows, WindowRows: rapid.Int64Range(0, 20).Draw(t, "window"),
			}
			first += rows
			if n := len(shards); extent > 0 && rapid.Bool().Draw(t, "in the shard before") {
				shards[n-1].Extents = append(shards[n-1].Extents, g)
				continue
			}
			shards = append(shards, &pb.Shard{File: &pb.File{Index: file}, Extents: []*pb.Extent{g}})
		}
	}
	return rapid.Permutation(shards).Draw(t, "order")
}

// countOf is what a worker would count of a window: it is told which rows of which file these are, and no more.
func countOf(session uint64, f *pb.File, from, to int64) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, session, f.GetIndex(), from, to)
	return h.Sum32()
}

// counted are shards with what a worker counts.
func counted(session uint64, shards []*pb.Shard) []*pb.Shard {
	out := make([]*pb.Shard, len(shards))
	for i, s := range shards {
		out[i] = proto.CloneOf(s)
		for _, g := range out[i].GetExtents() {
			g.Outputs = nil
			step := max(1, g.GetWindowRows())
			for from := int64(0); from < g.GetRows(); from += step {
				g.Outputs = append(g.Outputs, countOf(session, s.GetFile(), g.GetFirstRow()+from,
					g.GetFirstRow()+min(from+step, g.GetRows())))
			}
		}
	}
	return out
}

// TestCountsThatAreUsedAgain counts shards of sessions, and looks up others: what is set is what would be counted,
// however shards are laid out and ordered, and all is found again that was counted.
func TestCountsThatAreUsedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRecounts(rapid.Int64Range(0, 10_000).Draw(t, "limit"))
		program := &pb.Program{Filter: "x > 1"}
		a, b := r.of(program), r.of(program)
		known := aCut(t)
		for _, s := range counted(a.session, known) {
			a.keep(s)
		}
		for _, s := range append(aCut(t), known...) {
			for _, session := range []*sessionRecounts{a, b} {
				got, want := proto.CloneOf(s), counted(session.session, []*pb.Shard{s})[0]
				if session.set(got) && !proto.Equal(got, want) {
					t.Fatalf("session %d is told %v, and would count %v", session.session, got, want)
				}
			}
		}
		roomy := newRecounts(1 << 20).of(program)
		for _, s := range counted(roomy.session, known) {
			roomy.keep(s)
		}
		for _, s := range known {
			cut := rapid.IntRange(0, len(s.GetExtents())).Draw(t, "cut")
			for _, part := range [][]*pb.Extent{s.GetExtents()[:cut], s.GetExtents()[cut:]} {
				if !roomy.set(&pb.Shard{File: s.GetFile(), Extents: part}) {
					t.Fatalf("what was counted is not known: %v", part)
				}
			}
		}
	})
}

// TestWhatIsCountedInEachEpoch is what draws, and what nobody counts.
func TestWhatIsCountedInEachEpoch(t *testing.T) {
	r := newRecounts(1000)
	random := &pb.Function{Kind: pb.FunctionKind_FILTER, Rng: true}
	for _, p := range []*pb.Program{{}, {Steps: []*pb.Step{{Op: "sample"}}}, {Steps: []*pb.Step{{Op: "python", Python: random}}}} {
		none := r.of(p)
		s := &pb.Shard{Extents: []*pb.Extent{{Rows: 2, WindowRows: 2, Outputs: []uint32{1}}}}
		if none.keep(s); none.set(s) {
			t.Errorf("counts of %v are used again", p)
		}
	}
}
