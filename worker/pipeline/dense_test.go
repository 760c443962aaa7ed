package pipeline

import (
	"context"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/vector"
)

// TestNullsOfDense: dense tensors have the same bits whether the decoder writes NaN for nulls or they do, of columns
// that a file lacks, too.
func TestNullsOfDense(t *testing.T) {
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", pipelinetest.Parquet(t, 1, 700, 300)), 190)
	p := newPipeline(&store, 5000)
	for _, filter := range []string{"", "label == 1", "price > 0.5"} {
		for _, shuffle := range []bool{false, true} {
			program := pipelinetest.Program()
			program.Filter, program.Shuffle = filter, shuffle
			program.Sources = append(program.Sources, &pb.Source{
				Name: "absent", Path: []string{"absent"},
				Type: &pb.Type{Kind: pb.Kind_FLOAT32},
			})
			dense := program.GetOutputs()[0]
			dense.Slots, dense.Columns = append(dense.GetSlots(), pipelinetest.Text+1), append(dense.GetColumns(),
				"absent")
			var both [2][]byte
			for i := range both {
				s, err := p.Open(t.Context(), ticket, program, Cursor{})
				if err != nil {
					t.Fatal(err)
				}
				for _, source := range []uint32{pipelinetest.Price, pipelinetest.Score} {
					e, ok := s.computer.chain.Early(int(source))
					if !ok || e.Fill == nil {
						t.Fatalf("source %d: nulls of what only a dense tensor reads stay", source)
					}
					if i == 1 {
						s.computer.decoder.(formats.Early).TakeEarly(int(source), vector.Early{})
					}
				}
				err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
					// those of the first tensor are two validities and the values
					both[i] = append(both[i], b.Buffers[2]...)
					b.Release()
					return nil
				})
				if s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if len(both[0]) == 0 || !slices.Equal(both[0], both[1]) {
				t.Errorf("filter %q, shuffle %v: by the decoder\n%v\nby the tensor\n%v",
					filter, shuffle, both[0], both[1])
			}
		}
	}
}
