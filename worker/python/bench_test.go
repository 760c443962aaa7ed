package python

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	system "github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/worker/vector"
)

// BenchmarkHandOver has windows go to a function that returns its input, and come back: of one row, what a call takes
// besides; of 4 MiB, three copies with it: into memory that the process reads, from there to where it writes, and out.
func BenchmarkHandOver(b *testing.B) {
	text := strings.Repeat("the quick brown fox jumps over the lazy dog, ", 6)[:256]
	texts := make([]string, 4<<20/256)
	for i := range texts {
		texts[i] = text
	}
	lists := &vector.Vector{Type: spec.Type{Kind: pb.Kind_INT64, List: true}, Rows: 4 << 20 / 800, Offsets: []int32{0}}
	for range lists.Rows {
		lists.I64 = append(lists.I64, make([]int64, 100)...)
		lists.Offsets = append(lists.Offsets, int32(len(lists.I64)))
	}
	for name, in := range map[string]*vector.Vector{
		"row": numbered(1), "4MiB/int64": numbered(4 << 20 / 8), "4MiB/texts": words(texts...), "4MiB/lists": lists,
	} {
		b.Run(name, func(b *testing.B) {
			o := op{name: "same", in: []spec.Type{in.Type}, out: []spec.Type{in.Type}}
			f := o.open(b, ours.pool)
			defer f.Close()
			c := callOf(o.out, in)
			if err := f.Call(b.Context(), c); err != nil {
				b.Fatal(err)
			}
			child, worker := ours.pool.CPU(), system.CPU()
			for b.Loop() {
				if err := f.Call(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((ours.pool.CPU()-child).Microseconds())/float64(b.N), "child-µs/op")
			b.ReportMetric(float64((system.CPU()-worker).Microseconds())/float64(b.N), "worker-µs/op")
		})
	}
}
