package transform

import (
	"runtime"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// TestScratchIsEnough has kernels work on one long row among short ones: they allocate no more than they ask for,
// beside results that are as long as their inputs, and do not ask for many times as much.
func TestScratchIsEnough(t *testing.T) {
	const rows, long = 200, 100_000
	list := func(kind pb.Kind) *vector.Vector {
		v := &vector.Vector{Type: spec.Type{Kind: kind, List: true}, Rows: rows, Offsets: make([]int32, rows+1)}
		for row := range rows {
			v.Offsets[row+1] = v.Offsets[row] + 3
			if row == rows/2 {
				v.Offsets[row+1] = v.Offsets[row] + long
			}
		}
		v.I32, v.I64, v.F64 = make([]int32, v.Len()), make([]int64, v.Len()), make([]float64, v.Len())
		for i := range v.I64 {
			v.I32[i], v.I64[i], v.F64[i] = int32(i), int64(i), float64(i%1000)
		}
		return v
	}
	ids, others, scores := list(pb.Kind_INT64), list(pb.Kind_INT32), list(pb.Kind_FLOAT64)
	for _, c := range []struct {
		op     Op
		params values
		in     []*vector.Vector
	}{
		{hasOverlap(), nil, []*vector.Vector{ids, others}},
		{idOverlapCount(), nil, []*vector.Vector{ids, others}},
		{jaccardSimilarity(), nil, []*vector.Vector{others, ids}},
		{cosineSimilarity(), nil, []*vector.Vector{ids, scores, others, scores}},
		{scoreSum(), nil, []*vector.Vector{ids, others, scores}},
		{intersect(), nil, []*vector.Vector{ids, others}},
		{union(), nil, []*vector.Vector{ids, others}},
		{sortByScore(), nil, []*vector.Vector{ids, scores}},
		{ngram(), values{"n": 2}, []*vector.Vector{ids, others}},
	} {
		types := make([]spec.Type, len(c.in))
		results := int64(0)
		for i, v := range c.in {
			types[i] = v.Type
			results += 10*int64(v.Len()+rows) + 1024
		}
		b, err := c.op.bind(c.params.proto(), types)
		if err != nil {
			t.Fatal(err)
		}
		k := b.kernel.(Scratcher)
		asked := k.Scratch(c.in)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := k.Run(&vector.Vector{Type: b.out, Rows: rows}, c.in); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		made := int64(after.TotalAlloc - before.TotalAlloc)
		if made > asked+results {
			t.Errorf("%s allocates %d bytes, and asks for %d beside results of %d", c.op.Name, made, asked, results)
		}
		if asked == 0 || asked > 8*made {
			t.Errorf("%s asks for %d bytes, and allocates %d", c.op.Name, asked, made)
		}
		few := make([]*vector.Vector, len(c.in))
		for i, v := range c.in {
			few[i] = &vector.Vector{Type: v.Type, Rows: 50, Offsets: v.Offsets[:51], I32: v.I32, I64: v.I64, F64: v.F64}
		}
		if asked := k.Scratch(few); asked != 0 {
			t.Errorf("%s asks for %d bytes to work on rows of three ids", c.op.Name, asked)
		}
	}
}

// TestAlikeStepsShareATable looks up ids of many columns in one table.
func TestAlikeStepsShareATable(t *testing.T) {
	keys := make([]any, 1000)
	for i := range keys {
		keys[i] = int64(3 * i)
	}
	p := &pb.Program{}
	for i := range 26 {
		p.Sources = append(p.Sources, &pb.Source{Type: &pb.Type{Kind: pb.Kind_INT64}})
		p.Steps = append(p.Steps, &pb.Step{
			Op: "map_id", Version: 1, Params: values{"keys": keys}.proto(), In: []uint32{uint32(i)}, Outs: 1,
			Type: &pb.Type{Kind: pb.Kind_INT64},
		})
	}
	c, err := Compile(Builtin(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	one := int64(2048 * 24)
	if c.Tables() != one || c.Scratch() != one {
		t.Errorf("the tables take %d bytes, and are %d of what is kept; want one of %d", c.Tables(), c.Scratch(), one)
	}
	sources := make([]*vector.Vector, 26)
	for i := range sources {
		sources[i] = &vector.Vector{
			Type: spec.Type{Kind: pb.Kind_INT64}, Rows: 2,
			I64: []int64{int64(3 * i), int64(3*i + 1)},
		}
	}
	slots, err := c.Run(t.Context(), sources)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range slots[26:] {
		if v.I64[0] != int64(i) || v.IsNull(0) || !v.IsNull(1) {
			t.Errorf("column %d: found %d, and null is %v, %v", i, v.I64[0], v.IsNull(0), v.IsNull(1))
		}
	}
}
