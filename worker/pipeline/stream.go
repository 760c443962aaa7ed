package pipeline

import (
	"context"

	"github.com/apache/arrow/go/v15/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/tensor"
)

// HandedOver is how many batches of a stream Emit's callee may have that it did not release, and one more by a near link: on the network, one
// that is being written, and one that waits for it.
const HandedOver = wire.Kept

// batchesOut is how many batches of a stream exist at once: one computed, one that waits or went by a near link, and those handed over.
const batchesOut = 2 + HandedOver

// Stream is one shard on its way to a trainer.
type Stream struct {
	job
	pipeline *Pipeline
	session  *counted
	reader   *reader
	computer *computer
	kitKey   string // whose kits fit; "": none do
	ended    bool   // all went well

	crossZone bool // the trainer is in another zone
	way       Way  // to it
}

// job is what all parts of a stream are told. It does not change.
type job struct {
	cfg     *Config
	ticket  *pb.Ticket
	program *pb.Program
	layout  layout
	quota   *quota
	stats   *stats // the session's
}

// start is a cursor in terms of the ticket's row groups.
type start struct {
	rowGroup int    // index in the ticket
	skip     int64  // source rows of that row group to skip
	window   uint32 // number of the first window
	k        uint64 // output rows of it to leave out
}

// Close gives back the memory.
func (s *Stream) Close() {
	if s.ended {
		s.quota.done()
	}
	if kit := s.leave(); kit != nil {
		s.quota.Close(kit)
	} else {
		s.computer.close()
		s.quota.Close(nil)
	}
	if s.session != nil {
		s.pipeline.sessions.leave(s.session)
		s.session = nil
	}
}

// Schema of the stream's record batches.
func (s *Stream) Schema() *arrow.Schema { return s.computer.builder.Schema() }

// Narrow has the batches of a stream that has not begun be narrow, see tensor.Builder.
func (s *Stream) Narrow(to tensor.Widths) { s.computer.builder.Narrow(to) }

// mostMapped is which part of the memory trainers may have mapped of streams that ended, before others share none with them: those that hang
// might have all of it in the end.
const mostMapped = 8

// Share has the batches of a stream that has not begun lie in memory that its trainer can map, see tensor.Builder, unless trainers have too much
// of that.
func (s *Stream) Share() {
	budget := s.pipeline.memory
	if budget.Mapped() <= budget.Limit()/mostMapped {
		s.computer.builder.Share(s.ticket.GetSession(), 4*s.computer.batch, budget.AddMapped)
	}
}

// Way is how a stream's batches go to its trainer. Those that lie in shared memory go in that.
type Way uint8

// The ways.
const (
	ByGRPC Way = iota
	ByLink
	InMemory
)

// Goes says how the batches of a stream that has not begun go.
func (s *Stream) Goes(way Way) { s.way = way }

// Compress says that the batches of a stream that has not begun are going to be compressed.
func (s *Stream) Compress() { s.computer.compressed = true }

// locate finds the row group and window of a cursor. Behind the last window, it returns len(groups).
func locate(groups []*pb.RowGroup, at Cursor) start {
	left := int64(at.Window)
	for i, g := range groups {
		n := windows(g)
		if left < n {
			return start{rowGroup: i, skip: left * g.GetWindowRows(), window: at.Window, k: at.K}
		}
		left -= n
	}
	return start{rowGroup: len(groups)}
}

// windows is how many windows a row group has.
func windows(g *pb.RowGroup) int64 {
	n := g.GetRows() / g.GetWindowRows()
	if g.GetRows()%g.GetWindowRows() > 0 {
		n++
	}
	return n
}

// Batch is a batch and its place.
type Batch struct {
	*tensor.Batch
	Meta *pb.BatchMeta
	// More says that the next one waits already.
	More bool
}

// Run sends the shard's batches from the cursor on to emit, in order, and returns when the shard is done, when
// something failed, or when ctx ended.
func (s *Stream) Run(ctx context.Context, emit Emit) error {
	group, ctx := errgroup.WithContext(ctx)
	rowGroups := s.reader.rowGroups(ctx, s.reader.start(ctx, group))
	ready := make(chan Batch, 1)
	group.Go(func() error {
		defer close(ready)
		return rescue.Call(rescue.Worker, func() error { return s.computer.run(ctx, rowGroups, ready) })
	})
	group.Go(func() error {
		return rescue.Call(rescue.Worker, func() error { return s.send(ctx, ready, emit) })
	})
	err := group.Wait()
	for b := range ready { // that nobody sends any more
		b.Release()
	}
	s.ended = err == nil
	return err
}

// Await waits until all batches were released, or ctx ends. A stream that has all of them when it is closed leaves its
// memory to the next one.
func (s *Stream) Await(ctx context.Context) error {
	return s.stats.timed(&s.stats.send, func() error {
		return s.Blocked(func() error {
			s.computer.builder.Await(ctx)
			return nil
		})
	})
}

// send hands the batches to emit; those that were ready when something failed, too.
func (s *Stream) send(ctx context.Context, ready <-chan Batch, emit Emit) error {
	stats := s.stats
	for b := range ready {
		b.More = len(ready) > 0
		rows, bytes, way := int64(b.Meta.GetRows()), b.Bytes, s.way
		if b.Shared != nil {
			way = InMemory
		}
		if err := stats.timed(&stats.send, func() error { return emit(ctx, b) }); err != nil {
			return err
		}
		stats.rows.Add(rows)
		stats.bytesSent.Add(bytes)
		if s.crossZone {
			stats.crossZone.Add(bytes)
		}
		switch way {
		case InMemory:
			stats.lent.Add(bytes)
		case ByLink:
			stats.linked.Add(bytes)
		}
	}
	return nil
}
