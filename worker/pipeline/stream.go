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
)

// rowGroupsOut is how many row groups' chunks a stream holds: those being decoded and those read ahead.
const rowGroupsOut = 2

// HandedOver is how many batches of a stream Emit's callee may have that it did not release: one that is being written, and one that
// waits for it.
const HandedOver = 2

// batchesOut is how many batches of a stream exist at once: one computed, one waiting, and those handed over.
const batchesOut = 2 + HandedOver

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
	told     Cursor // where the trainer's cursor is, once it has all that compute sent
	holds    holding
	reserved int64 // of the budget
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

// Open prepares a stream: it reads the footer, compiles the program and waits for memory, or fails with ErrBusy. Close
// it.
func (p *Pipeline) Open(ctx context.Context, t *pb.Ticket, program *pb.Program, at Cursor) (*Stream, error) {
	s, err := p.newStream(ctx, t, program)
	if err != nil {
		return nil, err
	}
	if s.builder, err = tensor.NewBuilder(program, batchesOut); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProgram, err)
	}
	s.start = locate(t.GetRowGroups(), at)
	if err := s.admit(ctx, p.cfg.BatchBytes); err != nil {
		return nil, err
	}
	return s, nil
}

// newStream reads the footer and compiles the program.
func (p *Pipeline) newStream(ctx context.Context, t *pb.Ticket, program *pb.Program) (*Stream, error) {
	s := &Stream{pipeline: p, ticket: t, program: program}
	err := p.stats.timed(&p.stats.storage, func() (err error) {
		s.footer, err = p.footers.Load(ctx, p.cfg.Storage, program.GetStorage(), t.GetFile())
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.checkTicket(); err != nil {
		return nil, err
	}
	if err := s.compile(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProgram, err)
	}
	return s, nil
}

// admit waits for the memory of what is left to read, and of batches of a size.
func (s *Stream) admit(ctx context.Context, batch int64) (err error) {
	if s.holds, err = s.estimate(batch); err != nil {
		return fmt.Errorf("%s: %w", s.ticket.GetFile().GetUri(), err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.pipeline.cfg.Patience, ErrBusy)
	defer cancel()
	if s.reserved, err = s.pipeline.memory.take(ctx, s.holds.total()); err != nil {
		return fmt.Errorf("wait for %d bytes of memory: %w", s.holds.total(), err)
	}
	return nil
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
	s.decoder = columns.NewDecoder(s.program.GetSources(), s.pipeline.cfg.MaxDecoded)
	if s.program.GetFilter() == "" {
		if s.chain.Selects() {
			s.decoder.DecodeFirst(nil)
		}
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
	s.decoder.DecodeFirst(s.filter.Columns())
	return nil
}

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
}

// Run sends the shard's batches from the cursor on to emit, in order, and returns when the shard is done, when
// something failed, or when ctx ended.
func (s *Stream) Run(ctx context.Context, emit Emit) error {
	group, ctx := errgroup.WithContext(ctx)
	fetched := s.startFetch(ctx, group)
	ready := make(chan Batch, 1)
	group.Go(func() error {
		defer close(ready)
		return Rescue(func() error { return s.compute(ctx, fetched, ready) })
	})
	group.Go(func() error {
		return Rescue(func() error { return s.send(ctx, ready, emit) })
	})
	return group.Wait()
}

// send hands the batches to emit; those that were ready when something failed, too.
func (s *Stream) send(ctx context.Context, ready <-chan Batch, emit Emit) error {
	stats := &s.pipeline.stats
	for b := range ready {
		rows, bytes := int64(b.Meta.GetRows()), b.Bytes
		if err := stats.timed(&stats.send, func() error { return emit(ctx, b) }); err != nil {
			return err
		}
		stats.rows.Add(rows)
		stats.bytesSent.Add(bytes)
	}
	return nil
}

// rowGroup is a row group's column chunks in memory.
type rowGroup struct {
	*pb.RowGroup
	chunks [][]byte
	buffer []byte // that the chunks lie in
	skip   int64
	err    error // why there are no chunks
}

// startFetch has a goroutine of the group read the row groups.
func (s *Stream) startFetch(ctx context.Context, group *errgroup.Group) <-chan *rowGroup {
	fetched := make(chan *rowGroup)
	s.buffers = make(chan []byte, rowGroupsOut)
	for range rowGroupsOut {
		s.buffers <- nil
	}
	group.Go(func() error {
		defer close(fetched)
		return Rescue(func() error { return s.fetch(ctx, fetched) })
	})
	return fetched
}

// fetch reads the row groups one ahead of their use. An error takes its turn, so that the rows before it are sent.
func (s *Stream) fetch(ctx context.Context, out chan<- *rowGroup) error {
	groups := s.ticket.GetRowGroups()
	for i := s.start.rowGroup; i < len(groups); i++ {
		g := &rowGroup{RowGroup: groups[i]}
		if i == s.start.rowGroup {
			g.skip = s.start.skip
		}
		g.err = s.read(ctx, g)
		select {
		case out <- g:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if g.err != nil {
			return nil //nolint:nilerr // eachWindow returns it in its turn, behind the rows before it
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
		return context.Cause(ctx)
	}
	how := storage.Reading{MaxGap: s.pipeline.cfg.OverRead}
	stats := &s.pipeline.stats
	err = stats.timed(&stats.storage, func() (err error) {
		g.chunks, err = storage.ReadRanges(ctx, s.pipeline.cfg.Storage, s.program.GetStorage(), s.ticket.GetFile(), ranges, how,
			func(size int64) ([]byte, error) {
				if int64(cap(g.buffer)) < size {
					g.buffer = make([]byte, size)
				}
				g.buffer = g.buffer[:size]
				return g.buffer, nil
			})
		return err
	})
	if err != nil {
		return fmt.Errorf("row group %d: %w", g.GetIndex(), err)
	}
	stats.bytesRead.Add(int64(len(g.buffer)))
	return nil
}
