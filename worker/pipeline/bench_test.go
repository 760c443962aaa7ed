package pipeline

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

const benchRows = 100_000

// BenchmarkStream is one stream from bytes in memory to batches, beside pqarrow that only decodes the same file.
func BenchmarkStream(b *testing.B) {
	var store pipelinetest.Store
	data := pipelinetest.Parquet(b, 1, benchRows/2, benchRows/2)
	ticket := pipelinetest.Ticket(b, &store, store.Put("mem://f.parquet", data), 8192)
	plain := pipelinetest.Program()
	steps := func(filter string, shuffle bool) *pb.Program {
		p := pipelinetest.Program()
		p.Filter, p.Shuffle = filter, shuffle
		filled := step(p, "fill_null", map[string]*pb.Value{"value": num(0)}, pipelinetest.Score)
		p.Outputs[0].Slots[1] = step(p, "log1p", nil, filled)
		cut := step(p, "first_x", map[string]*pb.Value{"x": num(3)}, pipelinetest.IDs)
		p.Outputs[1].Slots[0] = step(p, "sigrid_hash", map[string]*pb.Value{"salt": num(3), "max": num(1000)}, cut)
		return p
	}
	for _, c := range []struct {
		name    string
		program *pb.Program
	}{
		{"tensors", plain},
		{"transforms", steps("", false)},
		{"shuffle", steps("", true)},
		{"filter keeps a third", steps("label == 1", false)},
		{"filter keeps 4%", steps("price > 0.95", false)},
	} {
		b.Run(c.name, func(b *testing.B) { benchStream(b, &store, ticket, c.program, benchRows) })
	}
	b.Run("pqarrow", func(b *testing.B) { benchArrow(b, data) })
}

func rowsPerSecond(b *testing.B, rows int) {
	b.ReportMetric(float64(b.N)*float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

func benchStream(b *testing.B, store *pipelinetest.Store, ticket *pb.Ticket, program *pb.Program, rows int) {
	b.ReportAllocs()
	p := New(Config{Storage: store, Ops: transform.Builtin(), Memory: 1 << 30, BatchBytes: 1 << 20, MaxBatch: 1 << 28})
	var before time.Duration
	for b.Loop() {
		if before == 0 {
			before = process.CPU() // what was before the first is none of it
		}
		s, err := p.Open(b.Context(), ticket, program, Cursor{})
		if err == nil {
			err = s.Run(b.Context(), func(_ context.Context, b Batch) error { b.Release(); return nil })
			s.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(process.CPU()-before)/float64(b.N)/float64(rows), "cpu-ns/row")
	rowsPerSecond(b, rows)
	c := p.Counters()
	total := float64(c.DecodeNs + c.TransformNs + c.TensorNs)
	b.ReportMetric(total/float64(b.N)/float64(rows), "ns/row")
	b.ReportMetric(100*float64(c.DecodeNs)/total, "%decode")
	b.ReportMetric(100*float64(c.TransformNs)/total, "%transform")
	b.ReportMetric(100*float64(c.TensorNs)/total, "%tensor")
}

func benchArrow(b *testing.B, data []byte) {
	b.ReportAllocs()
	for b.Loop() {
		r, err := file.NewParquetReader(bytes.NewReader(data))
		if err != nil {
			b.Fatal(err)
		}
		fr, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{BatchSize: 8192}, memory.DefaultAllocator)
		if err != nil {
			b.Fatal(err)
		}
		table, err := fr.ReadTable(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		table.Release()
	}
	rowsPerSecond(b, benchRows)
}
