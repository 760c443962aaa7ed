package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// A count says of each window what a stream has of it, and reads the filter's columns alone.
func TestCountsAreWhatStreamsHave(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		groups := rapid.SliceOfN(rapid.IntRange(1, 90), 1, 4).Draw(rt, "row groups")
		var store pipelinetest.Store
		f := store.Put("mem://f.parquet", pipelinetest.Parquet(t, rapid.Uint64().Draw(rt, "file"), groups...))
		ticket := pipelinetest.Ticket(t, &store, f, rapid.Int64Range(1, 100).Draw(rt, "window"))
		ticket.Epoch = rapid.Uint32Range(0, 2).Draw(rt, "epoch")
		ticket.Extents = ticket.Extents[rapid.IntRange(0, len(groups)-1).Draw(rt, "first row group"):]
		program := anyProgram(rt)
		rows, _, err := collect(t.Context(), newPipeline(&store, 2000), ticket, program, Cursor{})
		if err != nil {
			rt.Fatal(err)
		}
		p := newPipeline(&store, 2000)
		p.cfg.OverRead = 1
		onlyFilterColumns(t, &store, f, program)
		counted, err := p.Count(t.Context(), ticket, program)
		if err != nil {
			rt.Fatal(err)
		}
		var got, want []uint32
		for i, g := range ticket.GetExtents() {
			got = append(got, counted.GetExtents()[i].GetOutputs()...)
			want = append(want, make([]uint32, windows(g))...)
		}
		for _, r := range rows {
			want[r.window]++
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("%v is counted, and streams have %v", counted.GetExtents(), want)
		}
		if used := p.MemoryInUse(); used != 0 {
			rt.Fatalf("%d bytes are in use after the count", used)
		}
	})
}

// onlyFilterColumns fails all reads of other columns.
func onlyFilterColumns(t *testing.T, store *pipelinetest.Store, f *pb.File, program *pb.Program) {
	foot := pipelinetest.Footer(t, store, f)
	others := map[int]bool{}
	for leaf := range foot.Leaves {
		others[leaf] = true
	}
	if program.GetFilter() != "" {
		e, err := filter.Parse(program.GetFilter())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range e.Columns() {
			column, _ := foot.Column(name)
			from, to := foot.LeavesOf(column)
			for leaf := from; leaf < to; leaf++ {
				delete(others, leaf)
			}
		}
	}
	store.Hook = func(_ context.Context, _ *pb.File, offset, length int64) error {
		if offset+length == f.GetSize() { // the footer
			return nil
		}
		for leaf := range others {
			for _, g := range foot.RowGroups {
				if c := g.Chunks[leaf]; offset < c.Offset+c.Length && c.Offset < offset+length {
					return fmt.Errorf("column %d is read", leaf)
				}
			}
		}
		return nil
	}
}

func TestCountThatCannotRead(t *testing.T) {
	var store pipelinetest.Store
	f := store.Put("mem://f.parquet", pipelinetest.Parquet(t, 1, 50, 50))
	ticket, program := pipelinetest.Ticket(t, &store, f, 10), pipelinetest.Program()
	program.Filter = "label == 1"
	broken := errors.New("broken disk")
	store.Hook = func(_ context.Context, _ *pb.File, offset, length int64) error {
		if offset+length == f.GetSize() {
			return nil
		}
		return broken
	}
	p := newPipeline(&store, 2000)
	if counted, err := p.Count(t.Context(), ticket, program); !errors.Is(err, broken) {
		t.Errorf("got %v, %v", counted, err)
	}
	program.Filter = "label =="
	if _, err := p.Count(t.Context(), ticket, program); !errors.Is(err, ErrProgram) {
		t.Errorf("got %v", err)
	}
	if used := p.MemoryInUse(); used != 0 {
		t.Errorf("%d bytes are in use", used)
	}
}
