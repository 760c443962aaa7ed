// Package pipeline turns (program, shard, cursor) into a stream of batches. It stands between serve, which sends the
// batches, and formats, filter, transform and tensor, which do the work. Streams reserve all memory that they hold from
// package memory first.
//
// A Pipeline is shared by all streams of a worker. A Stream belongs to the goroutine that calls Run; Run owns the
// goroutines of its three parts. The reader fetches the chunks of extents. The computer takes each window of
// these through decoding, filter, transforms and tensors. The sender hands the batches on.
package pipeline

import (
	"errors"
	"math"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/excluded"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/tables"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/weakmap"
)

// Config says what a pipeline works with. All fields but ArrayBytes, MaxMemory, Grown, Untrusted, Zone and
// Python are needed.
type Config struct {
	Storage storage.Storage
	Ops     *transform.Registry
	// Memory bounds the bytes of all streams together. Streams is how many are expected to share it: one reads ahead as
	// long as it holds no more than its share.
	Memory  int64
	Streams int
	// MaxMemory, if it is more than Memory, bounds them in its place from when on one stream needs more than Memory.
	// Grown, unless it is nil, is told then how many bytes these are more.
	MaxMemory int64
	Grown     func(bytes int64)
	// BatchBytes is about the size of a batch on the wire; or ArrayBytes for each of its arrays, if that is more and
	// the stream may hold it.
	BatchBytes, ArrayBytes int64
	// MaxBatch bounds a batch in bytes, even if it has only one row; a larger one is an error.
	MaxBatch int64
	// OverRead is the gap in bytes between two chunks up to which they are read as one.
	OverRead int64
	// Patience is how long Open waits for memory, and a stream that needs more than its files let expect. Behind it
	// they fail with ErrBusy.
	Patience time.Duration
	// Untrusted, unless it is nil, is told why the first page index of a session is used for nothing.
	Untrusted func(t *pb.Ticket, why string)
	// Zone, if set, is where the worker runs.
	Zone string
	// Python runs the functions that programs call; nil: nothing does.
	Python Python
}

// Python runs functions of sessions' code.
type Python interface {
	// Functions are those of the ticket's code that the program calls, which is the session's whole one: streams that
	// count rows, and call some of them, have the process of those that call all.
	Functions(t *pb.Ticket, program *pb.Program) (transform.Functions, error)
}

// Pipeline makes streams.
type Pipeline struct {
	cfg      Config
	memory   *memory.Budget
	files    *formats.Cache // what they hold
	excluded *excluded.Store
	tables   *tables.Store
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
	files := formats.NewCache(cfg.Memory / 8)
	gone := excluded.New(files, cfg.Memory/16)
	sides := tables.New(tables.Config{Storage: cfg.Storage, Files: files, Patience: cfg.Patience})
	budget := memory.New(memory.Config{
		Limit: cfg.Memory, Max: cfg.MaxMemory, Grown: cfg.Grown, Cache: caches{files, gone, sides},
	})
	sides.Use(budget)
	return &Pipeline{cfg: cfg, memory: budget, files: files, excluded: gone, tables: sides, sessions: newSessions()}
}

// limits are those of a stream that is opened now.
func (p *Pipeline) limits() limits { return limits{&p.cfg, p.MemoryLimit()} }

// Close gives up what streams have left that have ended, and stops the loading of tables.
func (p *Pipeline) Close() {
	p.tables.Close()
	p.memory.Pool(func(pool *memory.Pool) { pool.Shrink(math.MaxInt64) })
}

// MemoryInUse is the part of the budget that open streams hold, and that trainers have mapped still of those that
// ended, in bytes.
func (p *Pipeline) MemoryInUse() int64 { return p.memory.InUse() }

// MemoryLimit is the budget, in bytes.
func (p *Pipeline) MemoryLimit() int64 { return p.memory.Limit() }

// Pressed reports whether a stream waits for memory.
func (p *Pipeline) Pressed() bool { return p.memory.Pressed() }
