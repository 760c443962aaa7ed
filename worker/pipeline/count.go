package pipeline

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/tensor"
)

// Count returns how many output rows each window of the ticket's extents has. It reads only what that takes: the
// filter's columns. Like Open, it waits for memory, or fails with ErrBusy.
func (p *Pipeline) Count(ctx context.Context, t *pb.Ticket, program *pb.Program) (*pb.CountReply, error) {
	program, err := selecting(program)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProgram, err)
	}
	s, err := p.open(ctx, t, program, Cursor{}, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var outputs []uint32
	group, ctx := errgroup.WithContext(ctx)
	extents := s.reader.extents(ctx, s.reader.start(ctx, group))
	group.Go(func() error {
		return rescue.Call(rescue.Worker, func() error {
			return s.computer.eachWindow(ctx, extents, func(w *tensor.Window) error {
				outputs = append(outputs, uint32(w.Len()))
				return nil
			})
		})
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return byExtent(t, outputs), nil
}

// byExtent cuts the windows' counts where extents begin.
func byExtent(t *pb.Ticket, outputs []uint32) *pb.CountReply {
	reply := &pb.CountReply{}
	for _, g := range t.GetExtents() {
		n := windows(g)
		reply.Extents = append(reply.Extents, &pb.ExtentCount{Outputs: outputs[:n:n]})
		outputs = outputs[n:]
	}
	return reply
}

// selecting is the part of a program that chooses rows: the filter, its sources, and the steps that select. Those steps
// take no features.
func selecting(p *pb.Program) (*pb.Program, error) {
	out := &pb.Program{Storage: p.GetStorage(), Filter: p.GetFilter(), Seed: p.GetSeed()}
	for _, s := range p.GetSteps() {
		if spec.RowsOfStep(s) != spec.SameRows {
			out.Steps = append(out.Steps, s)
		}
	}
	if p.GetFilter() == "" {
		return out, nil
	}
	expr, err := filter.Parse(p.GetFilter())
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	byName, used := spec.SourcesByName(p.GetSources()), map[int]bool{}
	for _, name := range expr.Columns() {
		if i, ok := byName[name]; ok {
			used[i] = true
		}
	}
	for i, s := range p.GetSources() {
		if used[i] {
			out.Sources = append(out.Sources, s)
		}
	}
	return out, nil
}
