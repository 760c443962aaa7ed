package master

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

const (
	// planTimeout bounds how long it takes to read what the files of one block say of themselves.
	planTimeout = 5 * time.Minute
	// maxPlanPause is the longest pause between two tries to plan a block.
	maxPlanPause = 30 * time.Second
)

// blockPlanner plans the blocks of one session. It may be used by many goroutines at once.
type blockPlanner struct {
	cfg     plan.Config
	program *pb.Program
	sources []string                                  // their names
	listed  func(context.Context) ([]*pb.File, error) // the listing: a master that takes over does not wait for it
	files   *describer
	indexes *indexer
	counts  *counter         // nil: outputs are not counted
	earlier *sessionRecounts // what was counted in earlier epochs; nil: it is counted in each
	session *pb.Session
	stands  map[string]string     // of the session's columns
	code    func() *pb.StoredCode // the bytes of the session's functions; nil: it has none
	logger  *slog.Logger

	untrusted *atomic.Int64 // column chunks whose statistics cannot be used
	warned    atomic.Bool   // of the session's first

	mu    sync.Mutex
	epoch map[uint32][][]int // the blocks of epochs, as indices of the listing's files
	noted []string           // the directories under which it is noted what is read; nil: not known yet
	// recorded are digests of files' indexes, by URI, of blocks that lay in etcd when the session was loaded.
	recorded map[string]string
	looked   atomic.Bool // the columns of files are noted
}

func newBlockPlanner(m *Master, stored *store.Session, logger *slog.Logger) (*blockPlanner, error) {
	p := &blockPlanner{
		cfg: plan.ConfigFromProto(stored.Meta.GetPlanner()), program: &pb.Program{}, epoch: map[uint32][][]int{},
		recorded: map[string]string{},
		stands:   stored.Meta.GetStands(),
	}
	s := stored.Meta.GetSession()
	key, err := listingKey(s)
	if err != nil {
		return nil, err
	}
	p.listed = func(ctx context.Context) ([]*pb.File, error) {
		files, err := m.listings.get(ctx, key, s.GetFiles(),
			func(ctx context.Context) ([]*pb.File, error) {
				return m.cfg.Store.Listing(ctx, stored)
			})
		if err != nil {
			return nil, fmt.Errorf("master: %w", err)
		}
		return files, nil
	}
	if v := stored.Meta.GetPlannerVersion(); v != plan.Version {
		return nil, fmt.Errorf(
			"master: session %s was planned by version %d of the planner, this master has %d; run the release that "+
				"opened it",
			stored.Name, v, plan.Version)
	}
	if err := proto.Unmarshal(s.GetProgram(), p.program); err != nil {
		return nil, fmt.Errorf("master: session %s: program: %w", stored.Name, err)
	}
	for _, of := range p.program.GetSources() {
		p.sources = append(p.sources, of.GetName())
	}
	p.files = &describer{
		storage: m.cfg.Storage, cache: m.described, profile: p.program.GetStorage(), how: p.program.GetFormat(),
	}
	p.indexes = m.indexes
	p.session, p.logger, p.untrusted, p.code = s, logger, &m.untrusted, s.GetCode
	if spec.Counted(s.GetSpec()) {
		p.counts, p.earlier = m.counts, m.counts.again.of(p.program)
	}
	return p, nil
}

// rest forgets what is read or made again for the next block, of a session that may have none.
func (p *blockPlanner) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.epoch)
}

// plan plans a block, by the indexes that it had before; "": it is not known which. Where outputs are counted, the
// block has them.
func (p *blockPlanner) plan(ctx context.Context, epoch, index uint32, indexes string) (plannedBlock, error) {
	b, err := p.cut(ctx, epoch, index, indexes)
	if err == nil && p.counts != nil {
		err = p.countOutputs(ctx, b.block)
	}
	return b, err
}

// countOutputs sets a block's outputs: what its windows have, or where rows are left out, what workers say.
func (p *blockPlanner) countOutputs(ctx context.Context, block *pb.Block) error {
	selects := spec.RowsOfLeft(p.program) != spec.SameRows || p.session.GetSpec().GetOnError().GetSkipRows() > 0
	var unknown []*pb.Shard
	for _, s := range block.GetShards() {
		if selects || len(s.GetFile().GetExcluded()) > 0 {
			unknown = append(unknown, s)
			continue
		}
		for _, g := range s.GetExtents() {
			g.Outputs = session.WindowRows(g)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	text, err := spec.Marshal(p.program)
	if err != nil {
		return fmt.Errorf("master: %w", err)
	}
	return (&count{
		counter: p.counts, session: p.session, code: p.code(), program: p.program, text: text, block: block,
		earlier: p.earlier, logger: p.logger,
	}).fill(ctx, unknown)
}

// remember keeps what was counted of blocks, and the digests of their files' indexes.
func (p *blockPlanner) remember(blocks []*pb.Block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range blocks {
		for _, s := range b.GetShards() {
			p.earlier.keep(s)
			if digest := s.GetIndex(); len(digest) > 0 {
				p.recorded[s.GetFile().GetUri()] = string(digest)
			}
		}
	}
}

// recordedOf is the digest of a file's index that a block in etcd had when the session was loaded; "": none had.
func (p *blockPlanner) recordedOf(uri string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.recorded[uri]
}

// sayWhatCountingCosts tells that functions run twice, if they do.
func (p *blockPlanner) sayWhatCountingCosts() {
	var names []string
	for _, s := range p.program.GetSteps() {
		if s.GetPython() != nil && spec.RowsOfStep(s) != spec.SameRows {
			names = append(names, s.GetPython().GetName())
		}
	}
	if p.counts == nil || len(names) == 0 {
		return
	}
	when := "in each epoch, for what chooses or makes rows is random"
	if p.earlier != nil {
		when = "in the first epoch"
	}
	p.logger.Warn("rows are counted before they are granted, so Python functions that choose or make rows run "+
		"twice "+when+", as does what these read; last_batch pad or uneven, in order fast, counts none",
		"functions", names)
}

// cut makes the shards of a block.
func (p *blockPlanner) cut(ctx context.Context, epoch, index uint32, indexes string) (b plannedBlock, err error) {
	listed, blocks, loaded, err := p.describe(ctx, epoch, index)
	if err != nil {
		return b, err
	}
	indexed, err := p.index(ctx, epoch, index, loaded.files, indexes)
	if err != nil {
		return b, err
	}
	if err := plan.CheckStands(p.stands, loaded.files); err != nil {
		return b, err
	}
	reads := p.newReads(listed)
	shards, counts, err := plan.ShardsAndReads(p.cfg, p.program, loaded.files, epoch, reads.of)
	if err != nil {
		return b, err
	}
	p.noteUntrusted(counts, epoch, index)
	return plannedBlock{
		block: &pb.Block{Epoch: epoch, Index: index, Shards: shards}, reads: reads,
		columns: p.look(reads.prefixes, loaded.files), leftOut: loaded.sayForeign(),
		command: session.Planned{
			Epoch: epoch, Block: index, Blocks: uint32(blocks), Shards: uint32(len(shards)), Rows: counts.Rows,
			Indexes: indexed.digests(),
		},
	}, nil
}

// noteUntrusted counts column chunks whose statistics cannot be used, and warns of the session's first.
func (p *blockPlanner) noteUntrusted(counts plan.Counts, epoch, block uint32) {
	if counts.UntrustedChunks == 0 {
		return
	}
	p.untrusted.Add(counts.UntrustedChunks)
	if !p.warned.Swap(true) {
		p.logger.Warn("statistics contradict themselves: they exclude nothing, so that more is read than need be; "+
			"write these files again", "epoch", epoch, "block", block, "chunks", counts.UntrustedChunks,
			"first", counts.Untrusted)
	}
}

// describe finds out what the files of a block say of themselves. It tells how many blocks the epoch has, too.
func (p *blockPlanner) describe(
	ctx context.Context, epoch, index uint32,
) (listed []*pb.File, blocks int, loaded described, err error) {
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	listed, cut, err := p.blocks(ctx, epoch)
	if err != nil {
		return nil, 0, loaded, err
	}
	if int(index) >= len(cut) {
		return nil, 0, loaded, fmt.Errorf("master: block %d of epoch %d, which has %d", index, epoch, len(cut))
	}
	files := make([]*pb.File, len(cut[index]))
	for i, f := range cut[index] {
		files[i] = listed[f]
	}
	loaded, err = p.files.load(ctx, files, p.program, func(int) {})
	return listed, len(cut), loaded, err
}

// blocks returns the listing and how an epoch's order of it is cut.
func (p *blockPlanner) blocks(ctx context.Context, epoch uint32) (listed []*pb.File, cut [][]int, err error) {
	if listed, err = p.listed(ctx); err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	cut, ok := p.epoch[epoch]
	if !ok {
		cut = plan.Blocks(p.cfg, listed, plan.Order(listed, p.program.GetSeed(), p.program.GetShuffle(), epoch))
		p.epoch[epoch] = cut
	}
	for e := range p.epoch {
		if e+1 < epoch {
			delete(p.epoch, e)
		}
	}
	return listed, cut, nil
}

// plannedBlock is what planning a block came to.
type plannedBlock struct {
	command session.Planned
	block   *pb.Block
	reads   *blockReads
	indexes string // that the state told of the block when planning began
	columns []readNote
	leftOut string // says which files are; "": none
	err     error
}

// plan starts to plan the next block that grants will need, unless that is under way.
func (r *runner) plan() {
	epoch, index, ok := r.state.NeedsPlan()
	if !ok || r.planning {
		return
	}
	r.planning = true
	fails, indexes := r.planFails, r.state.IndexesOf(epoch, index)
	r.term.reading.Go(func() {
		r.pauseAfter(fails)
		p, err := r.planner.plan(r.ctx, epoch, index, indexes)
		p.err, p.command.Epoch, p.command.Block, p.indexes = err, epoch, index, indexes
		p.command.Outputs = session.OutputsOf(p.block)
		select {
		case r.planned <- p:
		case <-r.stopped:
		case <-r.term.ctx.Done():
		}
	})
}

// pauseAfter waits after failures in a row, longer after more.
func (r *runner) pauseAfter(fails int) {
	if fails == 0 {
		return
	}
	timer := time.NewTimer(min(retryEvery<<min(fails-1, 10), maxPlanPause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.stopped:
	case <-r.term.ctx.Done():
	}
}

func transient(err error) bool {
	return storage.IsTransient(err) || errors.Is(err, store.ErrUnavailable) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// badData reports whether a block cannot be planned because of its files: they changed, are gone, or cannot be read.
func badData(err error) bool {
	return !storage.IsOurs(err) && !errors.Is(err, session.ErrInvalid) && !errors.Is(err, store.ErrTooLarge) &&
		!errors.Is(err, errCountRefused) && !errors.Is(err, errIndexRefused)
}

// takePlan records a planned block, or why the session cannot go on.
func (r *runner) takePlan(p plannedBlock) error {
	r.planning = false
	if p.indexes != r.state.IndexesOf(p.command.Epoch, p.command.Block) {
		return nil // the session was restored meanwhile, and the block is planned again
	}
	if p.err == nil {
		err := r.record(p)
		switch {
		case err == nil:
			r.planFails = 0
			r.unplanned.Store(nil)
			return nil
		case errors.Is(err, store.ErrTooLarge): // not written, and it never will be
			if err := r.reload(); err != nil {
				return err
			}
		case errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrFull), errors.Is(err, store.ErrConflict):
			return err // nothing is wrong with the block, and who loads the session again waits for etcd
		case !errors.Is(err, session.ErrInvalid):
			r.planFails++
			return err
		}
		p.err = err
	}
	if transient(p.err) {
		r.planFails++
		why := p.err.Error()
		r.unplanned.Store(&why)
		r.logger.Warn("cannot plan a block yet; trying on", "epoch", p.command.Epoch, "block", p.command.Block, "error",
			p.err)
		return nil
	}
	r.logger.Error("the session fails: a block cannot be planned", "epoch", p.command.Epoch, "block", p.command.Block,
		"error", p.err)
	fail := session.Fail{
		BadData: badData(p.err),
		Reason:  fmt.Sprintf("block %d of epoch %d cannot be planned: %v", p.command.Block, p.command.Epoch, p.err),
	}
	switch {
	case !fail.BadData:
	case errors.Is(p.err, storage.ErrChanged), errors.Is(p.err, fs.ErrNotExist):
		fail.Reason += "; bring the file back as it was listed, or begin a new session over the files that " +
			"there are now"
	default:
		fail.Reason += "; mend the file, or leave it out of the dataset, and begin a new session"
	}
	_, changes, err := r.change(fail)
	if err == nil {
		err = r.commit(store.Writes{}, changes)
	}
	if err != nil {
		r.planFails++ // the session does not fail yet, and plans the block again
	}
	return err
}

// record writes a planned block, unless it lies in etcd or nobody needs it any more.
func (r *runner) record(p plannedBlock) error {
	id := store.BlockID{Epoch: p.command.Epoch, Index: p.command.Block}
	// What lies there of a block that is not in flight is of no use, and may have been cut by other indexes.
	for r.tickets.blocks[id] != nil && !r.state.InFlight(id.Epoch, id.Index) {
		if err := r.commit(store.Writes{}, session.Changes{}); err != nil {
			return err
		}
	}
	_, changes, err := r.change(p.command)
	if err != nil {
		return err
	}
	w := store.Writes{}
	if r.tickets.blocks[id] == nil && r.state.InFlight(id.Epoch, id.Index) {
		w.Blocks = []*pb.Block{p.block}
	}
	if err := r.commit(w, changes); err != nil || w.Blocks == nil {
		return err
	}
	if p.leftOut != "" && id.Epoch == 0 {
		r.emit(pb.EventKind_DATA, "%s", p.leftOut)
		r.logger.Warn("files are left out", "epoch", id.Epoch, "block", id.Index, "files", p.leftOut)
	}
	r.beginReads(p)
	r.term.note(p.columns)
	r.planner.looked.Store(true)
	return nil
}
