package feed

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client"
)

// TestPeekConfigures one rank's look at the first rows, in the dataset's order, but where rows are chosen.
func TestPeekConfigures(t *testing.T) {
	first := func(s *pb.Spec) *pb.Spec {
		s.Dataset, s.BatchSize, s.LastBatch, s.Epochs = &pb.Dataset{Uri: []string{"/data/d"}}, 5, pb.LastBatch_UNEVEN, 1
		return s
	}
	inOrder := &pb.Spec{Order: pb.Order_DETERMINISTIC, Lanes: 1}
	for name, tc := range map[string]struct {
		text string
		want *pb.Spec
	}{
		"all rows": {
			"{dataset: {uri: d}, global_batch_size: 64, shuffle: true, epochs: 9, last_batch: pad, " +
				"on_error: {skip: 3}}",
			inOrder,
		},
		"lanes": {
			"{dataset: {uri: d}, global_batch_size: 64, order: deterministic, lanes: 8, last_batch: drop}", inOrder,
		},
		"a filter": {
			"{dataset: {uri: d}, batch_size: 64, filter: a > 1, order: deterministic}",
			&pb.Spec{Filter: "a > 1", Order: pb.Order_FAST},
		},
		"a sample": {"{dataset: {uri: d}, batch_size: 64, transforms: {op: sample, rate: 0.5}}", &pb.Spec{
			Order: pb.Order_FAST,
			Transforms: []*pb.Transform{
				{Op: "sample", Params: map[string]*pb.Value{"rate": {Kind: &pb.Value_Float{Float: 0.5}}}},
			},
		}},
	} {
		o := &openRequest{SpecText: tc.text, WorkingDir: "/data", Peek: 5, Rank: 3, WorldSize: 4, Restore: [][]byte{}}
		c, err := o.config()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if want := first(proto.CloneOf(tc.want)); !proto.Equal(c.Spec, want) || c.SpecText != "" {
			t.Errorf("%s: the spec is %v, want %v", name, c.Spec, want)
		}
		if c.Rank != 0 || c.WorldSize != 1 || c.Restore != nil {
			t.Errorf("%s: rank %d of %d, restores %v", name, c.Rank, c.WorldSize, c.Restore)
		}
	}
	if _, err := (&openRequest{Peek: 5}).config(); err == nil || !strings.Contains(err.Error(), "needs a spec") {
		t.Errorf("without a spec: %v", err)
	}
	wrong := "{dataset: 3}"
	if c, err := (&openRequest{Peek: 5, SpecText: wrong}).config(); err != nil || c.SpecText != wrong {
		t.Errorf("a spec with mistakes is the master's to refuse: %v, %v", c.SpecText, err)
	}
}

// TestOpenedTellsTheSchema of batches, before one comes, and the ending.
func TestOpenedTellsTheSchema(t *testing.T) {
	fl := small(t, &pb.Spec{Epochs: 1})
	p := start(t, memory()).connect(t)
	reply := p.open(fl.join(t, 0, 1))
	if reply.Opened == nil || reply.Opened.LastBatch != "uneven" {
		t.Fatalf("opened: %+v, %+v", reply.Opened, reply.Error)
	}
	if schema := p.next().Batch.Schema; len(schema) == 0 || string(schema) != string(reply.Opened.Schema) {
		t.Errorf("%d bytes of schema are told first, and %d with the first batch",
			len(reply.Opened.Schema), len(schema))
	}
}

// TestPeekOfFunctions is in the dataset's order unless functions choose or make rows, which would be counted first.
func TestPeekOfFunctions(t *testing.T) {
	for kind, want := range map[pb.FunctionKind]pb.Order{
		0: pb.Order_DETERMINISTIC, pb.FunctionKind_MAP: pb.Order_DETERMINISTIC, pb.FunctionKind_FILTER: pb.Order_FAST,
		pb.FunctionKind_FLAT_MAP: pb.Order_FAST,
	} {
		c := client.Config{Spec: &pb.Spec{Transforms: []*pb.Transform{
			{Op: "log1p"}, {Op: "python", Python: &pb.Function{Kind: kind}},
		}}}
		if err := peek(&c, 5); err != nil || c.Spec.GetOrder() != want {
			t.Errorf("%v: order %v, want %v; error %v", kind, c.Spec.GetOrder(), want, err)
		}
	}
}
