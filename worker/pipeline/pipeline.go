// Package pipeline turns (program, shard, cursor) into a stream of batches: it fetches the column chunks of a
// row group, and takes each of its windows through decoding, filter, transforms and tensors. It stands between
// serve, which sends the batches, and columns, filter, transform and tensor, which do the work.
//
// A Pipeline is shared by all streams of a worker. A Stream belongs to the goroutine that calls Run; Run owns the
// goroutines that read ahead and compute.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/weakmap"
)

// Config says what a pipeline works with. All fields but ArrayBytes, MaxMemory, Grown and Zone are needed.
type Config struct {
	Storage storage.Storage
	Ops     *transform.Registry
	// Memory bounds the bytes of all streams together. Streams is how many are expected to share it: one reads ahead as long
	// as it holds no more than its share.
	Memory  int64
	Streams int
	// MaxMemory, if it is more than Memory, bounds them in its place from when on one stream needs more than Memory. Grown, unless it is
	// nil, is told then how many bytes these are more.
	MaxMemory int64
	Grown     func(bytes int64)
	// BatchBytes is about the size of a batch on the wire; or ArrayBytes for each of its arrays, if that is more and the stream may hold it.
	BatchBytes, ArrayBytes int64
	// MaxBatch bounds a batch in bytes, even if it has only one row; a larger one is an error.
	MaxBatch int64
	// OverRead is the gap in bytes between two column chunks up to which they are read as one.
	OverRead int64
	// Patience is how long Open waits for memory, and a stream that needs more than its files let expect. Behind it they fail with ErrBusy.
	Patience time.Duration
	// Zone, if set, is where the worker runs.
	Zone string
}

// Pipeline makes streams.
type Pipeline struct {
	cfg      Config
	memory   *memory.Budget
	footers  *footer.Cache
	sessions sessions
	engines  weakmap.Map[string, engine] // of programs, by kitKey
}

// ErrBusy says that other streams have the memory, ErrLimit that a stream needs more than there is.
var (
	ErrBusy  = memory.ErrBusy
	ErrLimit = memory.ErrLimit
)

// ErrProgram says that a program needs what this worker does not know. Another one, of another version, may.
var ErrProgram = errors.New("this worker cannot run the program")

// New returns a pipeline. It reads nothing until a stream is opened.
func New(cfg Config) *Pipeline {
	footers := footer.NewCache(cfg.Memory / 8)
	budget := memory.New(memory.Config{Limit: cfg.Memory, Max: cfg.MaxMemory, Grown: cfg.Grown, Cache: footers})
	return &Pipeline{cfg: cfg, memory: budget, footers: footers, sessions: newSessions()}
}

// share is what one of the streams that are expected may hold. An eighth of the memory is left for what shows only in decoding.
func (p *Pipeline) share() int64 {
	limit := p.MemoryLimit()
	return (limit - limit/8) / int64(max(1, p.cfg.Streams))
}

// BatchShares says which part of what a stream may hold a batch should have at most, and which of the largest one that there may be.
const BatchShares = 16

// batchBytes is about the size of a program's batches. What an array costs for each batch, whatever its size, is much of the time where
// there are a thousand.
func (p *Pipeline) batchBytes(program *pb.Program) int64 {
	wide := tensor.Arrays(program) * p.cfg.ArrayBytes
	return max(p.cfg.BatchBytes, min(wide, min(p.share(), p.cfg.MaxBatch)/BatchShares))
}

// rowGroupLimit is how large a row group may be that is read as a whole; others are read in pieces.
func (p *Pipeline) rowGroupLimit() int64 { return p.share() / 2 }

// longPagesTimes is how many times as large one may be that is read as a whole because in pieces it would take hardly less.
const longPagesTimes = 3

// unitBytes is about how much of small row groups is read at once.
func (p *Pipeline) unitBytes() int64 { return min(2<<20, p.share()/8) }

// Close gives up what streams have left that have ended.
func (p *Pipeline) Close() { p.memory.Pool(func(pool *memory.Pool) { pool.Shrink(math.MaxInt64) }) }

// MemoryInUse is the part of the budget that open streams hold, and that trainers have mapped still of those that ended, in bytes.
func (p *Pipeline) MemoryInUse() int64 { return p.memory.InUse() }

// MemoryLimit is the budget, in bytes.
func (p *Pipeline) MemoryLimit() int64 { return p.memory.Limit() }

// Pressed reports whether a stream waits for memory.
func (p *Pipeline) Pressed() bool { return p.memory.Pressed() }

// checkTicket finds what in a ticket does not fit the file, before anything is read by it.
func (s *Stream) checkTicket() error {
	for _, g := range s.ticket.GetRowGroups() {
		if int(g.GetIndex()) >= len(s.footer.RowGroups) {
			return fmt.Errorf("%s has %d row groups, the ticket names row group %d: %w",
				s.ticket.GetFile().GetUri(), len(s.footer.RowGroups), g.GetIndex(), storage.ErrChanged)
		}
		have := &s.footer.RowGroups[g.GetIndex()]
		if have.Rows != g.GetRows() || have.FirstRow != g.GetFirstRow() {
			return fmt.Errorf("%s row group %d has %d rows from %d on, the ticket says %d from %d on: %w",
				s.ticket.GetFile().GetUri(), g.GetIndex(), have.Rows, have.FirstRow, g.GetRows(), g.GetFirstRow(), storage.ErrChanged)
		}
		if g.GetWindowRows() <= 0 || min(g.GetWindowRows(), g.GetRows()) > math.MaxInt32 {
			return fmt.Errorf("%s row group %d: the ticket has windows of %d rows; want 1 to %d: %w",
				s.ticket.GetFile().GetUri(), g.GetIndex(), g.GetWindowRows(), math.MaxInt32, ErrProgram)
		}
	}
	return nil
}

// Cursor is where in a shard a stream begins: output row K of a window.
type Cursor struct {
	Window uint32
	K      uint64
}

// Emit takes over one batch, which it must Release, also if it fails. It may block: that is the backpressure.
type Emit func(ctx context.Context, b Batch) error
