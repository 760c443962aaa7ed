package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/rescue"
)

func shard(t testing.TB, store *pipelinetest.Store, window int64, groups ...int) *pb.Ticket {
	t.Helper()
	return pipelinetest.Ticket(t, store, store.Put("mem://f.parquet", pipelinetest.Parquet(t, 1, groups...)), window)
}

// Whatever stage a stream is in when its context ends, Run returns why, and nothing is left (goleak, memory).
func TestCancelAnywhere(t *testing.T) {
	var store pipelinetest.Store
	ticket := shard(t, &store, 50, 100, 100, 100, 100)
	why := errors.New("the trainer left")
	for n := range 14 {
		p := newPipeline(&store, 500)
		ctx, cancel := context.WithCancelCause(t.Context())
		s, err := p.Open(ctx, ticket, pipelinetest.Program(), Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		var reads atomic.Int64 // which run beside each other
		store.Hook = func(ctx context.Context, _ *pb.File, _, _ int64) error {
			if n < 2 && reads.Add(1) > int64(n) { // during the n-th read
				cancel(why)
			}
			return context.Cause(ctx)
		}
		emitted := 2
		err = s.Run(ctx, func(ctx context.Context, b Batch) error {
			defer b.Release()
			if emitted++; emitted > n && n >= 2 { // a trainer that is stuck
				cancel(why)
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		})
		store.Hook = nil
		if !errors.Is(err, why) {
			t.Errorf("%d: got %v, want the cause", n, err)
		}
		s.Close()
		if used := p.MemoryInUse(); used != 0 {
			t.Errorf("%d: %d bytes are left in use", n, used)
		}
	}
}

func TestPanicsBecomeErrors(t *testing.T) {
	var store pipelinetest.Store
	ticket := shard(t, &store, 50, 100, 100)
	s, err := newPipeline(&store, 500).Open(t.Context(), ticket, pipelinetest.Program(), Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var p *rescue.PanicError
	err = s.Run(t.Context(), func(context.Context, Batch) error { panic("boom") })
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "boom") ||
		!strings.Contains(string(p.Stack), "faults_test.go") {
		t.Errorf("got %v", err)
	}
}

// The rows before a row group that cannot be read are delivered.
func TestReadErrorTakesItsTurn(t *testing.T) {
	var store pipelinetest.Store
	ticket := shard(t, &store, 50, 100, 100, 100)
	p := newPipeline(&store, 500)
	mustOpen(t, p, ticket) // so that the footer is in memory
	second := int64(0)
	for _, c := range pipelinetest.Footer(t, &store, ticket.File).RowGroups[1].Chunks[:1] {
		second = c.Offset
	}
	broken := errors.New("broken disk")
	store.Hook = func(_ context.Context, _ *pb.File, offset, _ int64) error {
		if offset >= second {
			return fmt.Errorf("read: %w", broken)
		}
		return nil
	}
	rows, _, err := collect(t.Context(), p, ticket, pipelinetest.Program(), Cursor{})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "row group 1") || len(rows) != 100 {
		t.Errorf("%d rows, %v; want 100 rows and row group 1's error", len(rows), err)
	}
}

// mustOpen opens a stream and closes it at once.
func mustOpen(t *testing.T, p *Pipeline, ticket *pb.Ticket) *Stream {
	t.Helper()
	s, err := p.Open(t.Context(), ticket, pipelinetest.Program(), Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	return s
}

func TestRowTooLarge(t *testing.T) {
	var store pipelinetest.Store
	ticket := shard(t, &store, 50, 100)
	p := newPipeline(&store, 10) // one row is more: it comes alone
	if rows, _, err := collect(t.Context(), p, ticket, pipelinetest.Program(), Cursor{}); err != nil ||
		len(rows) != 100 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	p.cfg.MaxBatch = 20
	_, _, err := collect(t.Context(), p, ticket, pipelinetest.Program(), Cursor{Window: 1})
	if err == nil || !strings.Contains(err.Error(), "mem://f.parquet row group 0: row 50 takes") {
		t.Errorf("got %v, want an error that names file, row group and row", err)
	}
}

// A ticket that does not fit the file is refused, whatever it says.
func TestTicketsThatDoNotFit(t *testing.T) {
	var store pipelinetest.Store
	for name, spoil := range map[string]func(*pb.File, *pb.Extent){
		"index":     func(_ *pb.File, g *pb.Extent) { g.Index = 7 },
		"rows":      func(_ *pb.File, g *pb.Extent) { g.Rows++ },
		"first row": func(_ *pb.File, g *pb.Extent) { g.FirstRow++ },
		"windows":   func(_ *pb.File, g *pb.Extent) { g.WindowRows = 0 },
		"place":     func(_ *pb.File, g *pb.Extent) { g.Length = 1 },
		"excluded":  func(f *pb.File, _ *pb.Extent) { f.Excluded = []*pb.Excluded{{}} },
	} {
		ticket := shard(t, &store, 50, 100)
		spoil(ticket.File, ticket.Extents[0])
		if _, err := newPipeline(&store, 100).Open(t.Context(), ticket, pipelinetest.Program(), Cursor{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	ticket := shard(t, &store, 50, 100)
	ticket.Extents = nil
	if rows, _, err := collect(t.Context(), newPipeline(&store, 100), ticket, pipelinetest.Program(),
		Cursor{}); err != nil || len(rows) > 0 {
		t.Errorf("a shard without row groups: %d rows, %v", len(rows), err)
	}
}

// What a stream turns out to hold beyond its estimate is added to what it has taken, and comes back.
func TestEstimateIsCorrected(t *testing.T) {
	var store pipelinetest.Store
	ticket := shard(t, &store, 50, 100)
	p := newPipeline(&store, 100)
	s, err := p.Open(t.Context(), ticket, pipelinetest.Program(), Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	taken := p.MemoryInUse()
	holds := &s.computer.holds
	if taken != s.file.Size()+holds.total() || taken < ticket.File.Size/2 {
		t.Errorf("%d bytes are taken, %d estimated, for a file of %d", taken, holds.total(), ticket.File.Size)
	}
	err = s.quota.raise(t.Context(), &holds.packed, 1000, HandedOver) // batches of ten times the size
	if err != nil {
		t.Fatal(err)
	}
	if more := p.MemoryInUse() - taken; more != 900*HandedOver {
		t.Errorf("%d bytes more are taken, want %d", more, 900*HandedOver)
	}
	s.Close()
	if used := p.MemoryInUse(); used != 0 {
		t.Errorf("%d bytes are left in use", used)
	}
}

func TestShuffleShuffles(t *testing.T) {
	var store pipelinetest.Store
	ticket := shard(t, &store, 50, 100)
	program := pipelinetest.Program()
	program.Shuffle = true
	orders := map[string]bool{}
	for epoch := range uint32(3) {
		ticket.Epoch = epoch
		rows, _, err := collect(t.Context(), newPipeline(&store, 100), ticket, program, Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		var order, inOrder string
		for i, r := range rows {
			order += fmt.Sprint(r.source, " ")
			inOrder += fmt.Sprint(i, " ")
		}
		orders[order] = true
		if order == inOrder {
			t.Error("rows are in the file's order")
		}
	}
	if len(orders) != 3 {
		t.Errorf("%d orders in 3 epochs", len(orders))
	}
}

// A window that decodes to more than it may fails as one that cannot be read: it names file, row group and column.
func TestWindowTooLarge(t *testing.T) {
	var store pipelinetest.Store
	text := strings.Repeat("x", 4000) // which stands in the file once
	data := pipelinetest.Texts(t, 1<<20, func(int) string { return text }, 10, 5000)
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", data), 5000)
	p := withMemory(newPipeline(&store, 1000), 8<<20, 8<<20)
	rows, _, err := collect(t.Context(), p, ticket, pipelinetest.Program(), Cursor{})
	if err == nil || !strings.Contains(err.Error(), "mem://f.parquet row group 1 column text") ||
		!strings.Contains(err.Error(), "--memory") || len(rows) != 10 {
		t.Errorf("%d rows, %v; want the 10 of the first row group and an error that names the second", len(rows), err)
	}
	if used := p.MemoryInUse(); used != 0 {
		t.Errorf("%d bytes are left in use", used)
	}
}

// TestFailureBeginsInItsWindow: what a trainer makes of a failure begins at its cursor, which stands in the row group
// that cannot be read even if no row came of the ones before it.
func TestFailureBeginsInItsWindow(t *testing.T) {
	var store pipelinetest.Store
	ticket := shard(t, &store, 50, 100, 100, 100)
	p := newPipeline(&store, 500)
	mustOpen(t, p, ticket) // so that the footer is in memory
	third := pipelinetest.Footer(t, &store, ticket.File).RowGroups[2].Chunks[0].Offset
	store.Hook = func(_ context.Context, _ *pb.File, offset, length int64) error {
		if offset+length > third {
			return errors.New("broken disk")
		}
		return nil
	}
	for _, c := range []struct {
		filter string
		at     Cursor
		last   []Cursor // ends of windows, as told
	}{
		{"", Cursor{}, []Cursor{{0, 50}, {1, 50}, {2, 50}, {3, 50}}},
		{"label > 5", Cursor{}, []Cursor{{3, 0}}},
		{"label > 5", Cursor{Window: 3}, []Cursor{{3, 0}}},
		{"", Cursor{Window: 3, K: 50}, []Cursor{{3, 50}}},
		{"", Cursor{Window: 4}, nil},
	} {
		program := pipelinetest.Program()
		program.Filter = c.filter
		_, lasts, err := collect(t.Context(), p, ticket, program, c.at)
		if err == nil || !strings.Contains(err.Error(), "row group 2: broken disk") || !slices.Equal(lasts, c.last) {
			t.Errorf("%q from %v: windows ended at %v, want %v; %v", c.filter, c.at, lasts, c.last, err)
		}
	}
}

// TestOpsThatMakeMoreAreExpected: what onehot makes of a row does not depend on the row, and so is taken before it is
// made.
func TestOpsThatMakeMoreAreExpected(t *testing.T) {
	const rows, size = 600, 1 << 16
	var store pipelinetest.Store
	program := pipelinetest.Program()
	program.Steps = []*pb.Step{
		{
			At: "transforms[0]", Op: "sample", Version: 1,
			Params: map[string]*pb.Value{"rate": {Kind: &pb.Value_Float{Float: 0.5}}},
		},
		{
			At: "transforms[1]", Op: "onehot", Version: 1, Name: "marks", In: []uint32{pipelinetest.Label}, Outs: 1,
			Params: map[string]*pb.Value{"size": {Kind: &pb.Value_Int{Int: size}}},
			Type:   &pb.Type{Kind: pb.Kind_FLOAT32, List: true},
		},
	}
	s, err := newPipeline(&store, 500).Open(t.Context(), shard(t, &store, rows, rows), program, Cursor{})
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, ErrLimit) {
		t.Errorf("%d bytes of a worker's 64 MiB: got %v, want %v", 4*rows*size, err, ErrLimit)
	}
}
