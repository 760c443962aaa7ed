package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/columns"
	rowfilter "github.com/penstock-ml/penstock/worker/filter"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
)

// HandedOver is how many batches of a stream Emit's callee may have that it did not release, and one more by a near link: on the network, one
// that is being written, and one that waits for it.
const HandedOver = wire.Kept

// batchesOut is how many batches of a stream exist at once: one computed, one that waits or went by a near link, and those handed over.
const batchesOut = 2 + HandedOver

// Stream is one shard on its way to a trainer.
type Stream struct {
	pipeline *Pipeline
	ticket   *pb.Ticket
	program  *pb.Program
	batches  bool // are made
	file     *bound
	layout   layout
	sent     Cursor // where the trainer's cursor is, once it has all that compute sent
	ended    bool   // all went well

	*engine
	kitKey    string   // whose kits fit; "": none do
	fronts    [][]byte // of the chunks' parts, beyond the memory of their units: of the last row group that was read in pieces
	uncounted bool     // the engine shows bytes that are not counted any more

	storage   storage.Storage // whose reads are counted
	session   *counted
	stats     *stats // the session's
	ops       opTimes
	crossZone bool // the trainer is in another zone
	way       Way  // to it

	abreast    bool // nothing is read ahead
	compressed bool // batches are, before they are sent

	account    *memory.Account
	chunks     *memory.Buffers
	batch      int64 // about the bytes of one
	limit      int64 // up to which row groups are read as a whole
	holds      holding
	expects    expected
	pictures   images.Room
	unexpected int64 // bytes of a window's results that the sources did not let expect
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
	return p.open(ctx, t, program, at, true)
}

// open prepares a stream, of batches or of none.
func (p *Pipeline) open(ctx context.Context, t *pb.Ticket, program *pb.Program, at Cursor, batches bool) (_ *Stream, err error) {
	session := p.sessions.enter(t)
	s := &Stream{
		pipeline: p, ticket: t, program: program, batches: batches, account: p.memory.Open(),
		session: session, stats: &session.stats, storage: counting{p.cfg.Storage, &session.stats},
		crossZone: p.cfg.Zone != "" && t.GetZone() != "" && t.GetZone() != p.cfg.Zone,
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	var f *footer.Footer
	if err := s.stats.timed(&s.stats.storage, func() (err error) { f, err = s.loadFooter(ctx); return err }); err != nil {
		return nil, err
	}
	if err := checkTicket(f, t); err != nil {
		return nil, err
	}
	if s.file, err = bind(f, program.GetSources()); err != nil {
		return nil, fmt.Errorf("%s: %w", t.GetFile().GetUri(), err)
	}
	s.layout = layout{file: s.file, groups: t.GetRowGroups(), start: locate(t.GetRowGroups(), at), how: storage.Reading{MaxGap: p.cfg.OverRead}}
	if batches && len(t.GetProgramDigest()) > 0 {
		s.kitKey = kitKey(t)
	}
	return s, s.admit(ctx)
}

// loadFooter reads the footer, by what memory there is. A small file is read as a whole for it: its column chunks are then there, too.
func (s *Stream) loadFooter(ctx context.Context) (*footer.Footer, error) {
	p, file, profile := s.pipeline, s.ticket.GetFile(), s.program.GetStorage()
	if n := file.GetSize(); n > 0 && n <= p.cfg.OverRead && !p.footers.Has(profile, file) {
		if _, err := s.more(ctx, n, n); err != nil {
			return nil, fmt.Errorf("footer of %s: %w", file.GetUri(), err)
		}
		data := make([]byte, n)
		if err := s.storage.ReadAt(ctx, profile, file, data, 0); err != nil {
			return nil, fmt.Errorf("footer of %s: %w", file.GetUri(), err)
		}
		s.storage = inMemory{s.storage, data}
	}
	taken := int64(0)
	f, err := p.footers.LoadWithin(ctx, s.storage, profile, file, func(n int64) error {
		n, err := s.more(ctx, n, n)
		taken += n
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case taken > f.Size:
		s.account.Give(taken - f.Size)
	case taken < f.Size:
		if _, err := s.more(ctx, f.Size-taken, f.Size-taken); err != nil {
			return nil, fmt.Errorf("footer of %s: %w", file.GetUri(), err)
		}
	}
	return f, nil
}

// inMemory is the Storage of a file whose bytes were read.
type inMemory struct {
	storage.Storage
	data []byte
}

func (m inMemory) ReadAt(ctx context.Context, _ string, _ *pb.File, buf []byte, offset int64) error {
	copy(buf, m.data[offset:]) // readers stay within the file
	return context.Cause(ctx)
}

// admit waits for the memory that the stream needs: for what is left to read, and for batches. An engine is only needed to estimate
// that, so one that another stream works with will do; the program is compiled after the wait, unless there is a kit by then.
func (s *Stream) admit(ctx context.Context) (err error) {
	s.engine = s.pipeline.engines.Get(s.kitKey)
	own := s.engine == nil
	if own {
		if err := s.compile(); err != nil {
			return err
		}
	}
	s.fit()
	if !own {
		s.engine = nil
	}
	total := s.holds.total()
	s.account.Reserve()
	if _, err := s.more(ctx, total, total); err != nil {
		return fmt.Errorf("%s: memory to begin with: %w", s.ticket.GetFile().GetUri(), err)
	}
	ahead := max(0, min(s.pipeline.limits().share(), s.pipeline.MemoryLimit()-s.holds.later)-s.account.Held())
	if _, s.abreast = s.session.abreast.Load(shardOf(s.ticket)); s.abreast {
		ahead = 0
	}
	s.chunks = memory.NewBuffers(s.account, s.holds.chunks, s.holds.chunks+ahead)
	rest := s.pipeline.MemoryLimit() - s.account.Held() - s.holds.later // what later pages may need is left free
	s.account.Begin(func(pool *memory.Pool, room int64) (more, has int64) { return s.take(pool, max(0, min(room, rest))) })
	if s.engine == nil {
		if err := s.compile(); err != nil {
			return err
		}
	}
	if s.kitKey != "" {
		s.pipeline.engines.Put(s.kitKey, s.engine)
	}
	s.ops = newOpTimes(s.stats, s.chain)
	s.chain.Watch(s.ops.ran)
	s.decoder.Allow(s.holds.pages + s.holds.sources)
	return nil
}

// fit decides what the stream is going to hold.
func (s *Stream) fit() {
	s.expects = expect(s.file, s.program, s.chain, s.layout.groups[s.layout.start.rowGroup:])
	e := estimator{layout: s.layout, program: s.program, windows: s.expects, batches: s.batches}
	l, held := s.pipeline.limits(), s.account.Held()
	best := e.fit(l, l.memory-s.pipeline.memory.Mapped()-held)
	s.limit, s.holds, s.batch = best.limit, best.holding, best.batch
	s.account.Enough = func() int64 { return e.enough(l, held) }
}

// Close gives back the memory.
func (s *Stream) Close() {
	if s.abreast && s.ended {
		s.session.abreast.Delete(shardOf(s.ticket))
	}
	if kit := s.leave(); kit != nil {
		s.account.Close(kit)
	} else {
		s.giveUp()
		s.account.Close(nil)
	}
	s.engine = nil
	if s.session != nil {
		s.pipeline.sessions.leave(s.session)
		s.session = nil
	}
}

// Schema of the stream's record batches.
func (s *Stream) Schema() *arrow.Schema { return s.builder.Schema() }

// Narrow has the batches of a stream that has not begun be narrow, see tensor.Builder.
func (s *Stream) Narrow(to tensor.Widths) { s.builder.Narrow(to) }

// mostMapped is which part of the memory trainers may have mapped of streams that ended, before others share none with them: those that hang
// might have all of it in the end.
const mostMapped = 8

// Share has the batches of a stream that has not begun lie in memory that its trainer can map, see tensor.Builder, unless trainers have too much
// of that.
func (s *Stream) Share() {
	budget := s.pipeline.memory
	if budget.Mapped() <= budget.Limit()/mostMapped {
		s.builder.Share(s.ticket.GetSession(), 4*s.batch, budget.AddMapped)
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
func (s *Stream) Compress() { s.compressed = true }

// compile makes the engine.
func (s *Stream) compile() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrProgram, err)
		}
	}()
	s.engine = &engine{extra: make(map[*tensor.Batch]int64, batchesOut)}
	if s.chain, err = transform.Compile(s.pipeline.cfg.Ops, s.program); err != nil {
		return err
	}
	if s.batches {
		if s.builder, err = tensor.NewBuilder(s.program, batchesOut); err != nil {
			return err
		}
	}
	s.findReads()
	s.decoder = columns.NewDecoder(s.program.GetSources(), 0)
	if err := s.compileFilter(); err != nil {
		return err
	}
	for i := range s.program.GetSources() {
		if e, ok := s.chain.Early(i); ok && (s.filter == nil || !slices.Contains(s.filter.Columns(), i)) {
			s.decoder.TakeEarly(i, e)
		}
	}
	return nil
}

func (s *Stream) compileFilter() (err error) {
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
	s.expr = expr
	s.decoder.DecodeFirst(s.filter.Columns())
	s.decoder.AsCodes(s.unread())
	return nil
}

// findReads finds the sources that a step or an output reads.
func (s *Stream) findReads() {
	s.reads = make([]bool, len(s.program.GetSources()))
	read := func(slots ...uint32) {
		for _, slot := range slots {
			if int(slot) < len(s.reads) {
				s.reads[slot] = true
			}
		}
	}
	for _, step := range s.program.GetSteps() {
		read(step.GetIn()...)
	}
	for _, o := range s.program.GetOutputs() {
		read(o.GetSlots()...)
		if o.Weights != nil {
			read(o.GetWeights())
		}
	}
}

// unread are the other sources.
func (s *Stream) unread() (slots []int) {
	for i, read := range s.reads {
		if !read {
			slots = append(slots, i)
		}
	}
	return slots
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
	// More says that the next one waits already.
	More bool
}

// Run sends the shard's batches from the cursor on to emit, in order, and returns when the shard is done, when
// something failed, or when ctx ended.
func (s *Stream) Run(ctx context.Context, emit Emit) error {
	group, ctx := errgroup.WithContext(ctx)
	fetched := s.startFetch(ctx, group)
	ready := make(chan Batch, 1)
	group.Go(func() error {
		defer close(ready)
		return rescue.Call(rescue.Worker, func() error { return s.compute(ctx, fetched, ready) })
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
			s.builder.Await(ctx)
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
