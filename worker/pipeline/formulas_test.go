package pipeline

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// TestFormulasAreCounted: what conditions of many parts are computed in is a part of a stream's memory.
func TestFormulasAreCounted(t *testing.T) {
	s := &pipelinetest.Store{}
	data := s.Put("mem://data", pipelinetest.Parquet(t, 1, 100))
	described, err := formats.Load(t.Context(), s, "", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := newPipeline(s, 1000)
	defer p.Close()
	ticket := pipelinetest.Ticket(t, s, data, 40)
	held := func(more string) int64 {
		parsed, err := spec.Parse([]byte("dataset: {uri: 'mem://'}\nfeatures: {label: label}\nbatch_size: 1\n" + more))
		if err != nil {
			t.Fatal(err)
		}
		program, err := spec.Resolve(parsed, spec.Given{Schema: described.Columns().Schema, Catalog: transform.Builtin()})
		if err != nil {
			t.Fatal(err)
		}
		stream, err := p.Open(t.Context(), ticket, program, Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		return p.MemoryInUse()
	}
	long := "label" + strings.Repeat(" + 1", 200) + " > 0" // of 400 parts, each of which has 500 values of 8 bytes or more
	sample := "transforms: {op: sample, rate: 0.5, where: '"
	for short, with := range map[string]string{
		"filter: label > 0":    "filter: " + long,
		sample + "label > 0'}": sample + long + "'}",
	} {
		if few, many := held(short), held(with); many-few < 200*500*8 {
			t.Errorf("%s: %d bytes, and %d with a long condition", short, few, many)
		}
	}
}
