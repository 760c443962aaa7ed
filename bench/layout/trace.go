package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/features"
)

// shape is what a trace is made of.
type shape struct {
	columns, jobs, models int
	// groupBytes is about what a row group has.
	groupBytes int64
	// least and most are the shares of the bytes that jobs read.
	least, most float64
	// change is the share of a job's features in which it differs from its model.
	change float64
	// even jobs read as many rows; else the numbers of rows follow Zipf's law, too.
	even bool
	seed uint64
}

// meta is about what Meta's paper on data storage and ingestion (ISCA 2022) says of its tables: jobs read few of many
// features, but the large ones, and most jobs try out changes of few models.
func meta() shape {
	return shape{
		columns: 2000, jobs: 200, models: 12, groupBytes: 64 << 20, least: 0.20, most: 0.37, change: 0.1, seed: 1,
		even: true,
	}
}

// trace is which columns jobs read.
type trace struct {
	names []string
	bytes []int64 // of a row group
	jobs  [][]int // columns, ascending
	rows  []int64 // that each job reads
}

// make draws a trace: sizes are log-normal, popularity follows Zipf's law and favours large columns, and the table's
// columns lie in no order of these.
func (s shape) make() *trace {
	random := rand.New(rand.NewPCG(s.seed, 42))
	t := &trace{}
	sizes, all := make([]float64, s.columns), 0.0
	for i := range sizes {
		sizes[i] = math.Exp(1.5 * random.NormFloat64())
		all += sizes[i]
	}
	for i := range sizes {
		t.names = append(t.names, fmt.Sprintf("f%04d", i))
		t.bytes = append(t.bytes, int64(sizes[i]/all*float64(s.groupBytes)))
	}
	weights := s.weights(t.bytes, random)
	for m := range s.models {
		share := s.least + (s.most-s.least)*float64(m)/float64(max(1, s.models-1))
		core := t.draw(nil, weights, share, random)
		for range (s.jobs - m + s.models - 1) / s.models {
			var kept []int
			for _, c := range core {
				if random.Float64() >= s.change {
					kept = append(kept, c)
				}
			}
			t.jobs = append(t.jobs, t.draw(kept, weights, share, random))
		}
	}
	random.Shuffle(len(t.jobs), func(i, j int) { t.jobs[i], t.jobs[j] = t.jobs[j], t.jobs[i] })
	for i := range t.jobs {
		t.rows = append(t.rows, 1_000_000)
		if !s.even {
			t.rows[i] /= int64(1 + i)
		}
	}
	return t
}

// weights are how popular columns are.
func (s shape) weights(bytes []int64, random *rand.Rand) []float64 {
	order, key := make([]int, s.columns), make([]float64, s.columns)
	for i := range order {
		order[i] = i
		key[i] = math.Log(float64(bytes[i])) + 2*random.NormFloat64()
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(key[b], key[a]) })
	weights := make([]float64, s.columns)
	for rank, c := range order {
		weights[c] = 1 / float64(1+rank)
	}
	return weights
}

// draw adds columns to a set by their popularity until it has a share of the bytes.
func (t *trace) draw(set []int, weights []float64, share float64, random *rand.Rand) []int {
	all, has := int64(0), int64(0)
	for _, n := range t.bytes {
		all += n
	}
	in := make([]bool, len(t.bytes))
	for _, c := range set {
		in[c] = true
		has += t.bytes[c]
	}
	// the least of exponential times by weight are drawn one after another without putting back
	order, at := make([]int, len(weights)), make([]float64, len(weights))
	for i := range order {
		order[i] = i
		at[i] = random.ExpFloat64() / weights[i]
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	out := slices.Clone(set)
	for _, c := range order {
		if float64(has) >= share*float64(all) {
			break
		}
		if !in[c] {
			out = append(out, c)
			has += t.bytes[c]
		}
	}
	slices.Sort(out)
	return out
}

// reads is the trace as the master counts it.
func (t *trace) reads() *pb.DatasetReads {
	all := features.Load(nil)
	columns := &pb.FileColumns{Files: 1, Extents: 1}
	for i, name := range t.names {
		columns.Columns = append(columns.Columns, &pb.FileColumn{Name: name, Bytes: t.bytes[i]})
	}
	for i, job := range t.jobs {
		n := features.Note{Sessions: 1, Rows: t.rows[i], UnixMs: int64(i), Columns: columns}
		for _, c := range job {
			n.Features = append(n.Features, t.names[c])
		}
		all.Add(features.Of(n))
	}
	return all.Proto()
}
