package pipeline

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/tensor"
)

// Count returns how many output rows each window of the ticket's extents has. It reads and computes only what that
// takes: the filter's columns, and what functions are called with that choose or make rows. Like Open, it waits for
// memory, or fails with ErrBusy.
func (p *Pipeline) Count(ctx context.Context, t *pb.Ticket, program *pb.Program) (*pb.CountReply, error) {
	s, err := p.open(ctx, t, program, Cursor{}, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	s.computer.askFor(ctx, nil)
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

// selecting is the part of a program that decides which rows there are: the filter, steps that select, which take no
// features, and functions that choose or make rows, with all that these are called with, or all sources, where a value
// of any may have its row left out. It has no outputs.
func selecting(p *pb.Program, all bool) (*pb.Program, error) {
	out := &pb.Program{Storage: p.GetStorage(), Filter: p.GetFilter(), Seed: p.GetSeed(), Tables: p.GetTables()}
	steps, used := spec.Deciding(p)
	if p.GetFilter() != "" {
		expr, err := filter.Parse(p.GetFilter())
		if err != nil {
			return nil, fmt.Errorf("filter: %w", err)
		}
		byName := spec.SourcesByName(p.GetSources())
		for _, name := range expr.Columns() {
			if i, ok := byName[name]; ok {
				used[uint32(i)] = true
			}
		}
	}
	slots, next := map[uint32]uint32{}, uint32(0) // of the part, by those of the program
	for i, s := range p.GetSources() {
		if all || used[uint32(i)] {
			slots[uint32(i)] = uint32(len(out.Sources))
			out.Sources = append(out.Sources, s)
		}
	}
	next = uint32(len(out.Sources))
	for i, first := range spec.FirstSlots(p) {
		s := p.GetSteps()[i]
		if !steps[i] {
			continue
		}
		if len(s.GetIn()) > 0 {
			s = proto.Clone(s).(*pb.Step) //nolint:forcetypeassert // it is one
			for j, slot := range s.GetIn() {
				s.In[j] = slots[slot]
			}
		}
		for k := range s.GetOuts() {
			slots[first+k] = next
			next++
		}
		out.Steps = append(out.Steps, s)
	}
	return out, nil
}
