package pipeline

import (
	"fmt"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// BenchmarkKept is one stream that keeps a share of its rows: of shapes with cheap steps, of lists, of steps that take
// long, and of strings without any.
func BenchmarkKept(b *testing.B) {
	var store pipelinetest.Store
	for i, m := range recsysShapes()[:2] {
		uri := fmt.Sprintf("mem://%d.parquet", i)
		ticket := pipelinetest.Ticket(b, &store, store.Put(uri, m.parquet(b)), int64(m.window))
		ticket.Extents = slices.Repeat(ticket.GetExtents(), 4)
		benchKept(b, m.name, &store, ticket, m.program, 4*m.rows)
	}
	ticket := pipelinetest.Ticket(b, &store,
		store.Put("mem://f.parquet", pipelinetest.Parquet(b, 1, benchRows/2, benchRows/2)), 8192)
	benchKept(b, "texts", &store, ticket, func() *pb.Program {
		p := pipelinetest.Program()
		p.Outputs = append(p.Outputs[:0], p.Outputs[4])
		step(p, "sigrid_hash", map[string]*pb.Value{"salt": num(3), "max": num(1000)}, pipelinetest.IDs)
		return p
	}, benchRows)
	benchKept(b, "cheap", &store, ticket, func() *pb.Program {
		p := pipelinetest.Program()
		p.Outputs[1].Slots[0] = step(p, "first_x", map[string]*pb.Value{"x": num(3)}, pipelinetest.IDs)
		return p
	}, benchRows)
	benchKept(b, "ngrams", &store, ticket, func() *pb.Program {
		p := pipelinetest.Program()
		p.Outputs[1].Slots[0] = step(p, "ngram", map[string]*pb.Value{"n": num(2)}, pipelinetest.IDs, pipelinetest.Tags)
		return p
	}, benchRows)
}

func benchKept(
	b *testing.B, name string, store *pipelinetest.Store, ticket *pb.Ticket, program func() *pb.Program, rows int,
) {
	for _, percent := range []int{1, 10, 25, 50, 75, 90} {
		p := program()
		step(p, "sample", map[string]*pb.Value{"rate": float(float64(percent) / 100)})
		b.Run(fmt.Sprintf("%s/%d%%", name, percent), func(b *testing.B) { benchStream(b, store, ticket, p, rows) })
	}
}
