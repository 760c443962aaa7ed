package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/transform"
)

// Open prepares a stream: it reads what the file says of itself, compiles the program and waits for memory, or fails
// with ErrBusy. Close it.
func (p *Pipeline) Open(ctx context.Context, t *pb.Ticket, program *pb.Program, at Cursor) (*Stream, error) {
	return p.open(ctx, t, program, at, true)
}

// open prepares a stream, of batches or of none: then it goes through the part of the program that decides which rows
// there are.
func (p *Pipeline) open(
	ctx context.Context, t *pb.Ticket, whole *pb.Program, at Cursor, batches bool,
) (_ *Stream, err error) {
	program := whole
	if !batches {
		if program, err = selecting(whole, false); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProgram, err)
		}
	}
	s := p.enter(t, program)
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := s.join(ctx); err != nil {
		return nil, err
	}
	store, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	if s.file, err = placed(s.file, t); err != nil {
		return nil, err
	}
	if err := checkTicket(s.file, t); err != nil {
		return nil, err
	}
	if err := s.exclude(ctx, store); err != nil {
		return nil, err
	}
	if !batches && t.GetSkipRows() > 0 && formats.HasFaults(s.file.Format()) {
		if s.program, err = selecting(whole, true); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProgram, err)
		}
	}
	bound, err := format.Bind(t.GetFile(), s.file, s.program.GetSources())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.GetFile().GetUri(), err)
	}
	s.layout = layout{
		file: bound, groups: t.GetExtents(), start: locate(t.GetExtents(), at),
		how: storage.Reading{MaxGap: p.cfg.OverRead},
	}
	if batches && len(t.GetProgramDigest()) > 0 {
		s.kitKey = kitKey(t, s.file.Format())
	}
	if t.GetCode() != nil && p.cfg.Python != nil && spec.Calls(s.program) {
		if s.functions, err = p.cfg.Python.Functions(t, whole); err != nil {
			return nil, fmt.Errorf("the session's code: %w", err)
		}
	}
	return s, s.admit(ctx, store, batches)
}

// enter returns a stream that holds nothing yet.
func (p *Pipeline) enter(t *pb.Ticket, program *pb.Program) *Stream {
	session := p.sessions.enter(t)
	stats := &session.stats
	return &Stream{
		pipeline: p, session: session,
		job: job{cfg: &p.cfg, ticket: t, program: program, stats: stats, quota: &quota{
			Account: p.memory.Open(), cfg: &p.cfg, budget: p.memory, session: session, shard: shardOf(t),
		}},
		sender: sender{stats: stats, crossZone: p.cfg.Zone != "" && t.GetZone() != "" && t.GetZone() != p.cfg.Zone},
	}
}

// look finds out what the file holds, and returns what it is to be read from.
func (s *Stream) look(ctx context.Context) (store storage.Storage, err error) {
	store = countReads(s.cfg.Storage, s.stats)
	err = s.stats.timed(&s.stats.storage, func() (err error) {
		s.file, store, err = s.describe(ctx, store)
		return err
	})
	return store, err
}

// describe finds out what the file holds, by what memory there is, and returns what it is to be read from. A small file
// is read as a whole for it: its chunks are then there, too.
func (s *Stream) describe(ctx context.Context, from storage.Storage) (format.File, storage.Storage, error) {
	files, file, profile, how := s.pipeline.files, s.ticket.GetFile(), s.program.GetStorage(), s.program.GetFormat()
	if n := file.GetSize(); n > 0 && n <= s.cfg.OverRead && !files.Has(profile, file, how, s.program.GetSources()) {
		if _, err := s.quota.more(ctx, n, n); err != nil {
			return nil, nil, fmt.Errorf("%s: memory for it: %w", file.GetUri(), err)
		}
		data, err := storage.ReadRanges(ctx, from, profile, file, []storage.Range{{Length: n}}, storage.Reading{},
			func(n int64) ([]byte, error) { return make([]byte, n), nil })
		if err != nil {
			return nil, nil, err
		}
		from = inMemory{from, file.GetUri(), data[0]}
	}
	taken := int64(0)
	f, err := files.Load(ctx, from, profile, file, how, s.program.GetSources(), func(n int64) error {
		n, err := s.quota.more(ctx, n, n)
		taken += n
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	switch size := f.Size(); {
	case taken > size:
		s.quota.Give(taken - size)
	case taken < size:
		if _, err := s.quota.more(ctx, size-taken, size-taken); err != nil {
			return nil, nil, fmt.Errorf("%s: memory for what it says of itself: %w", file.GetUri(), err)
		}
	}
	return f, from, nil
}

// inMemory is the Storage of a file whose bytes were read.
type inMemory struct {
	storage.Storage
	uri  string
	data []byte
}

func (m inMemory) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	if f.GetUri() != m.uri { // one beside it, that says where its rows are
		return m.Storage.ReadAt(ctx, profile, f, buf, offset)
	}
	copy(buf, m.data[offset:]) // readers stay within the file
	return context.Cause(ctx)
}

// admit waits for the memory that the stream needs: for what is left to read, and for batches. The program is compiled
// after the wait, unless there is a kit by then.
func (s *Stream) admit(ctx context.Context, store storage.Storage, batches bool) error {
	limit, err := s.fit(batches)
	if err != nil {
		return err
	}
	c, total := s.computer, s.computer.holds.total()
	s.quota.Reserve()
	if _, err := s.quota.more(ctx, total, total); err != nil {
		return fmt.Errorf("%s: memory to begin with: %w", s.ticket.GetFile().GetUri(), err)
	}
	s.quota.divide(c.holds)
	rest := s.quota.limits().memory - s.quota.Held() - c.holds.later // what later pages may need is left free
	s.quota.Begin(func(pool *memory.Pool, room int64) (more, has int64) {
		if k, ok := pool.Take(s.kitKey).(*kit); ok {
			return c.use(k, max(0, min(room, rest)))
		}
		return 0, 0
	})
	if c.engine == nil {
		if c.engine, err = s.compile(batches); err != nil {
			return err
		}
	}
	if s.kitKey != "" {
		s.pipeline.engines.Put(s.kitKey, c.engine)
	}
	c.ready()
	s.reader = &reader{job: s.job, storage: store, filter: c.choice(), limit: limit}
	return nil
}

// compile makes an engine of the stream's program.
func (s *Stream) compile(batches bool) (*engine, error) {
	e, err := compile(s, batches)
	if _, ok := errors.AsType[*transform.FunctionError](err); err == nil || ok {
		return e, err
	}
	return nil, fmt.Errorf("%w: %w", ErrProgram, err)
}

// fit decides what the stream is going to hold, and up to which size extents are read as a whole. An engine is only
// needed to estimate that, so one that another stream works with will do.
func (s *Stream) fit(batches bool) (limit int64, err error) {
	var own *engine
	e := s.pipeline.engines.Get(s.kitKey)
	if e == nil {
		if own, err = s.compile(batches); err != nil {
			return 0, err
		}
		e = own
	}
	windows := expect(s.layout.file, s.program, e.chain, s.layout.groups[s.layout.start.extent:])
	est := estimator{layout: s.layout, program: s.program, windows: windows, batches: batches}
	l, held := s.quota.limits(), s.quota.Held()
	best := est.fit(l, l.memory-s.quota.budget.Mapped()-held)
	s.computer = &computer{job: s.job, engine: own, holds: best.holding, batch: best.batch, expects: windows}
	s.quota.Enough = func() int64 { return est.enough(l, held) }
	return best.limit, nil
}
