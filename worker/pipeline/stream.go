package pipeline

import (
	"context"

	"github.com/apache/arrow/go/v15/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/excluded"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/tables"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
)

// HandedOver is how many batches of a stream Emit's callee may have that it did not release, and one more by a near
// link: on the network, one that is being written, and one that waits for it.
const HandedOver = wire.Kept

// batchesOut is how many batches of a stream exist at once: one computed, one that waits or went by a near link, and
// those handed over.
const batchesOut = 2 + HandedOver

// Stream is one shard on its way to a trainer, through three parts of which each runs on its own: reader hands row
// groups to computer, which hands batches to sender.
type Stream struct {
	job
	pipeline *Pipeline
	session  *counted
	reader   *reader
	computer *computer
	sender   sender
	tables   tables.Set
	kitKey   string // whose kits fit; "": none do
	ended    bool   // all went well
}

// job is what all parts of a stream are told. It does not change.
type job struct {
	cfg     *Config
	ticket  *pb.Ticket
	program *pb.Program
	file    format.File
	layout  layout
	quota   *quota
	stats   *stats // the session's

	excluded  excluded.Set        // rows of the file that its table has deleted
	functions transform.Functions // that the program may call; nil: none
}

// name is an extent in messages.
func (j *job) name(g *extent) string { return format.Name(j.file, int(g.GetIndex())) }

// Cursor is where in a shard a stream begins: output row K of a window.
type Cursor struct {
	Window uint32
	K      uint64
}

// Batch is a batch and its place.
type Batch struct {
	*tensor.Batch
	Meta *pb.BatchMeta
	// More says that the next one waits already.
	More bool
}

// Emit takes over one batch, which it must Release, also if it fails. It may block: that is the backpressure.
type Emit func(ctx context.Context, b Batch) error

// Run sends the shard's batches from the cursor on to emit, in order, and returns when the shard is done, when
// something failed, or when ctx ended.
func (s *Stream) Run(ctx context.Context, emit Emit) error {
	group, ctx := errgroup.WithContext(ctx)
	extents := s.reader.extents(ctx, s.reader.start(ctx, group))
	ready := make(chan Batch, 1)
	group.Go(func() error {
		defer close(ready)
		return rescue.Call(rescue.Worker, func() error { return s.computer.run(ctx, extents, ready) })
	})
	group.Go(func() error {
		return rescue.Call(rescue.Worker, func() error { return s.sender.run(ctx, ready, emit) })
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

// Blocked runs f, in which the trainer or the network takes no more.
func (s *Stream) Blocked(f func() error) error { return s.stats.timed(&s.stats.blocked, f) }

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
	s.tables.Release() // the kit is pooled: it goes before the tables do
	if s.session != nil {
		s.pipeline.sessions.leave(s.session)
		s.session = nil
	}
}

// Schema of the stream's record batches.
func (s *Stream) Schema() *arrow.Schema { return s.computer.builder.Schema() }

// Narrow has the batches of a stream that has not begun be narrow, see tensor.Builder.
func (s *Stream) Narrow(to tensor.Widths) { s.computer.builder.Narrow(to) }

// mappedShare is which part of the memory trainers may have mapped of streams that ended, before others share none with
// them: those that hang might have all of it in the end.
const mappedShare = 8

// Share has the batches of a stream that has not begun lie in memory that its trainer can map, see tensor.Builder,
// unless trainers have too much of that.
func (s *Stream) Share() {
	budget := s.quota.budget
	if budget.Mapped() <= budget.Limit()/mappedShare {
		s.computer.builder.Share(s.ticket.GetSession(), 4*s.computer.batch, budget.AddMapped)
	}
}

// Goes says how the batches of a stream that has not begun go.
func (s *Stream) Goes(way Way) { s.sender.way = way }

// Compress says that the batches of a stream that has not begun are going to be compressed.
func (s *Stream) Compress() { s.computer.compressed = true }
