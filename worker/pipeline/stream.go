package pipeline

import (
	"context"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/columns"
	rowfilter "github.com/penstock-ml/penstock/worker/filter"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// rowGroupsOut is how many row groups' chunks a stream holds: those being decoded and those read ahead.
const rowGroupsOut = 2

// batchesOut is how many batches of a stream exist at once: one computed, one waiting, one being sent.
const batchesOut = 3

// Stream is one shard on its way to a trainer.
type Stream struct {
	pipeline *Pipeline
	ticket   *pb.Ticket
	program  *pb.Program
	footer   *footer.Footer
	decoder  *columns.Decoder
	filter   *rowfilter.Program // nil: all rows
	chain    *transform.Chain
	builder  *tensor.Builder
	start    start
	reserved int64
	windows  windowScratch
	buffers  chan []byte // memory of row groups that is free to be used again
}

// start is a cursor in terms of the ticket's row groups.
type start struct {
	rowGroup int    // index in the ticket
	skip     int64  // source rows of that row group to skip
	window   uint32 // number of the first window
	k        uint64 // output rows of it to leave out
}

// Open prepares a stream: it reads the footer, compiles the program and waits for memory. Close it.
func (p *Pipeline) Open(ctx context.Context, t *pb.Ticket, program *pb.Program, at Cursor) (*Stream, error) {
	f, err := p.footers.Load(ctx, p.cfg.Storage, program.GetStorage(), t.GetFile())
	if err != nil {
		return nil, err
	}
	s := &Stream{pipeline: p, ticket: t, program: program, footer: f}
	if err := s.checkTicket(); err != nil {
		return nil, err
	}
	if err := s.compile(); err != nil {
		return nil, err
	}
	s.start = locate(t.GetRowGroups(), at)
	need, err := s.memoryNeeded()
	if err != nil {
		return nil, err
	}
	if s.reserved, err = p.memory.take(ctx, need); err != nil {
		return nil, fmt.Errorf("wait for %d bytes of memory: %w", need, err)
	}
	return s, nil
}

// Close gives back what Open took.
func (s *Stream) Close() { s.pipeline.memory.give(s.reserved) }

// Schema of the stream's record batches.
func (s *Stream) Schema() *arrow.Schema { return s.builder.Schema() }

func (s *Stream) compile() error {
	var err error
	if s.chain, err = transform.Compile(s.pipeline.cfg.Ops, s.program); err != nil {
		return err
	}
	if s.builder, err = tensor.NewBuilder(s.program, batchesOut); err != nil {
		return err
	}
	s.decoder = columns.NewDecoder(s.program.GetSources())
	if s.program.GetFilter() == "" {
		return nil
	}
	expr, err := filter.Parse(s.program.GetFilter())
	if err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	names := make(map[string]int, len(s.program.GetSources()))
	types := make([]spec.Type, len(s.program.GetSources()))
	for i, src := range s.program.GetSources() {
		names[src.GetName()], types[i] = i, spec.TypeFromProto(src.GetType())
	}
	if s.filter, err = rowfilter.Compile(expr, names, types); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	return nil
}

// locate finds the row group and window of a cursor. Behind the last window, it returns len(groups).
func locate(groups []*pb.RowGroup, at Cursor) start {
	left := at.Window
	for i, g := range groups {
		windows := uint32((g.GetRows() + g.GetWindowRows() - 1) / g.GetWindowRows())
		if left < windows {
			return start{rowGroup: i, skip: int64(left) * g.GetWindowRows(), window: at.Window, k: at.K}
		}
		left -= windows
	}
	return start{rowGroup: len(groups)}
}

// memoryNeeded is what the stream holds at most: the chunks of the row group being decoded and of the one read
// ahead, decoded windows with what transforms make of them, and the batches under way.
func (s *Stream) memoryNeeded() (int64, error) {
	var chunks, window int64
	for _, g := range s.ticket.GetRowGroups() {
		ranges, err := s.decoder.Chunks(s.footer, int(g.GetIndex()))
		if err != nil {
			return 0, err
		}
		var length, decoded int64
		for _, r := range ranges {
			length += r.Length
		}
		for _, leaf := range s.footer.RowGroups[g.GetIndex()].Chunks {
			decoded += leaf.Uncompressed
		}
		chunks = max(chunks, length)
		window = max(window, decoded*min(g.GetWindowRows(), g.GetRows())/max(g.GetRows(), 1))
	}
	return rowGroupsOut*chunks + 3*window + batchesOut*s.pipeline.cfg.BatchBytes, nil
}

// Batch is a batch and its place.
type Batch struct {
	*tensor.Batch
	Meta *pb.BatchMeta
}

// Run sends the shard's batches from the cursor on to emit, in order, and returns when the shard is done, when
// something failed, or when ctx ended.
func (s *Stream) Run(ctx context.Context, emit Emit) error {
	group, ctx := errgroup.WithContext(ctx)
	fetched := make(chan *rowGroup)
	s.buffers = make(chan []byte, rowGroupsOut)
	for range rowGroupsOut {
		s.buffers <- nil
	}
	ready := make(chan Batch, 1)
	group.Go(func() error {
		defer close(fetched)
		return s.fetch(ctx, fetched)
	})
	group.Go(func() error {
		defer close(ready)
		return s.compute(ctx, fetched, ready)
	})
	group.Go(func() error {
		for b := range ready {
			s.pipeline.stats.rows.Add(int64(b.Meta.GetRows()))
			s.pipeline.stats.bytesSent.Add(b.Bytes)
			err := timed(&s.pipeline.stats.sendTime, func() error { return emit(ctx, b) })
			if err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

// rowGroup is a row group's column chunks in memory.
type rowGroup struct {
	*pb.RowGroup
	chunks [][]byte
	buffer []byte // that the chunks lie in
	skip   int64
}

// fetch reads the row groups one ahead of compute.
func (s *Stream) fetch(ctx context.Context, out chan<- *rowGroup) error {
	groups := s.ticket.GetRowGroups()
	for i := s.start.rowGroup; i < len(groups); i++ {
		g := &rowGroup{RowGroup: groups[i]}
		if i == s.start.rowGroup {
			g.skip = s.start.skip
		}
		if err := timed(&s.pipeline.stats.storage, func() error { return s.read(ctx, g) }); err != nil {
			return err
		}
		select {
		case out <- g:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *Stream) read(ctx context.Context, g *rowGroup) error {
	ranges, err := s.decoder.Chunks(s.footer, int(g.GetIndex()))
	if err != nil {
		return err
	}
	select {
	case g.buffer = <-s.buffers:
	case <-ctx.Done():
		return ctx.Err()
	}
	how := storage.Reading{MaxGap: s.pipeline.cfg.OverRead}
	g.chunks, err = storage.ReadRanges(ctx, s.pipeline.cfg.Storage, s.program.GetStorage(), s.ticket.GetFile(), ranges, how,
		func(size int64) ([]byte, error) {
			s.pipeline.stats.bytesRead.Add(size)
			g.buffer = vector.Grow(g.buffer, int(size))
			return g.buffer, nil
		})
	if err != nil {
		return fmt.Errorf("row group %d: %w", g.GetIndex(), err)
	}
	return nil
}
