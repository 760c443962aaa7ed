// Package apply makes of rows at hand the tensors that sessions make of a dataset's: one spec for training and for
// serving. The rows are an Arrow record, or a file of any format that fleets read, and go through the same decoders,
// steps and tensor layout as on a worker, so that each value has the same bits. Filters, sampling and transforms for
// training alone do not run: each row gives one.
//
// It stands beside pipeline, on formats, transform and tensor; `penstock apply` and the Python package's Transforms are
// made of it. A Transforms may be used by many goroutines, one of which computes at a time.
package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
)

// DefaultMemory is what rows and what is made of them may take where nobody says.
const DefaultMemory = 1 << 30

// ErrClosed says that a Transforms was closed.
var ErrClosed = errors.New("apply: the transforms are closed")

// Config says what is applied. All fields but Spec may be left out.
type Config struct {
	Spec *pb.Spec
	// Ops are those that the spec may use; nil: the built-in ones.
	Ops *transform.Registry
	// Schema is that of the training data, which decides the types of columns; nil: that of the first rows.
	Schema *spec.Schema
	// Outputs are the names of the tensors that are made; none: all but labels whose columns the rows lack.
	Outputs []string
	// Memory bounds the bytes of the rows, and those of what is made of them; 0: DefaultMemory.
	Memory int64
	// Fitted has the statistics that the spec's parameters ask for; nil: there are none.
	Fitted spec.Fitted
	// Storage reads the tables that the spec's transforms look values up in, and fitted vocabularies; nil: there are
	// none. They stay in memory, of which they may have as many bytes as Memory says, too.
	Storage storage.Storage
	// Functions are the Python functions that the spec calls; nil: there are none.
	Functions transform.Functions
}

// Transforms are a spec's, ready for rows.
type Transforms struct {
	cfg   Config
	sides sides

	mu     sync.Mutex
	schema *spec.Schema // nil: no rows came yet
	engine *engine      // for rows such as the last ones; nil: none came yet
	closed bool

	last atomic.Pointer[engine] // for who asks, while one computes, or is handed batches
}

// New returns the transforms of a spec, whose tables it describes. What is wrong with the spec shows when its types are
// known: now, if there is a schema, else with the first rows. Close them.
func New(ctx context.Context, cfg Config) (*Transforms, error) {
	if cfg.Spec == nil {
		return nil, errors.New("apply: found no spec; give the one that the model was trained with")
	}
	if len(cfg.Spec.GetFeatures()) == 0 {
		return nil, spec.Problems{{Path: "features", Message: "found none; give the spec that the model was " +
			"trained with; where a program's own functions are in it, give the program's features and transforms, " +
			"and what it was pinned to beside them (in Python features=, transforms= and pinned=)"}}
	}
	if cfg.Memory < 0 {
		return nil, fmt.Errorf("apply: found %d bytes of memory; want 0 or more", cfg.Memory)
	}
	if cfg.Ops == nil {
		cfg.Ops = transform.Builtin()
	}
	if cfg.Memory == 0 {
		cfg.Memory = DefaultMemory
	}
	sides, err := newSides(ctx, cfg)
	if err != nil {
		return nil, err
	}
	t := &Transforms{cfg: cfg, sides: sides, schema: cfg.Schema}
	if t.schema != nil {
		if _, _, err := t.program(nil); err != nil {
			t.Close()
			return nil, err
		}
	}
	return t, nil
}

// program is what runs on rows that lack some columns of the schema, with the labels that it leaves out.
func (t *Transforms) program(absent []string) (*pb.Program, []string, error) {
	given := spec.Given{Schema: *t.schema, Catalog: t.cfg.Ops, Fitted: t.cfg.Fitted, Tables: t.sides.named}
	return spec.ResolveServed(t.cfg.Spec, given, spec.Served{Outputs: t.cfg.Outputs, Absent: absent})
}

// Apply makes the tensors of an Arrow record's rows, in their order. Release them.
func (t *Transforms) Apply(ctx context.Context, rows arrow.Record) (*tensor.Batch, error) {
	return t.ApplyFrom(ctx, rows, inputName, 0)
}

// inputName is that of rows in messages.
const inputName = "rows"

// ApplyFrom is Apply for rows that lie elsewhere: messages name the place, where the first of them has a number.
func (t *Transforms) ApplyFrom(
	ctx context.Context, rows arrow.Record, place string, first int64,
) (*tensor.Batch, error) {
	data, err := fileOf(rows)
	if err != nil {
		return nil, err
	}
	return t.whole(ctx, data, place, first)
}

// ApplyArrow makes the tensors of the rows of an Arrow IPC file, which has them in one record batch at most. Release
// them.
func (t *Transforms) ApplyArrow(ctx context.Context, file []byte) (*tensor.Batch, error) {
	return t.whole(ctx, file, inputName, 0)
}

func (t *Transforms) whole(ctx context.Context, file []byte, place string, first int64) (*tensor.Batch, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in, err := t.open(ctx, storage.InMemory(file), "", &pb.File{Uri: place, Size: int64(len(file))})
	if err != nil {
		return nil, err
	}
	if n := len(in.file.Extents()); n > 1 {
		return nil, fmt.Errorf("apply: the rows are in %d record batches; want one: combine their chunks", n)
	}
	return t.engine.whole(ctx, in, first)
}

// Each makes the tensors of a file's rows, some at a time, and hands them to use, which must neither keep them nor
// apply the transforms. Files of all formats that fleets read can be had by a storage, and by one of its profiles ("":
// the default).
func (t *Transforms) Each(
	ctx context.Context, st storage.Storage, profile string, f *pb.File, use func(*tensor.Batch) error,
) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	in, err := t.open(ctx, st, profile, f)
	if err != nil {
		return err
	}
	return t.engine.each(ctx, in, use)
}

// Program is what the last rows went through; nil: there were none. It must not be changed.
func (t *Transforms) Program() *pb.Program {
	if e := t.last.Load(); e != nil {
		return e.program
	}
	return nil
}

// Without are the labels that were not made of the last rows, since these lack their columns.
func (t *Transforms) Without() []string {
	if e := t.last.Load(); e != nil {
		return slices.Clone(e.without)
	}
	return nil
}

// Close gives up memory, and what functions keep.
func (t *Transforms) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.engine.close()
	t.engine = nil
	t.sides.close()
}

// open describes a file, and has the engine be one for its columns.
func (t *Transforms) open(ctx context.Context, st storage.Storage, profile string, f *pb.File) (*input, error) {
	if t.closed {
		return nil, ErrClosed
	}
	file, err := formats.Load(ctx, st, profile, f, func(n int64) error { return within(n, t.cfg.Memory) })
	if err != nil {
		return nil, err
	}
	if t.schema == nil {
		schema := file.Columns().Schema
		t.schema = &schema
		defer func() {
			if t.engine == nil { // these rows decide nothing
				t.schema = nil
			}
		}()
	}
	if err := t.ready(ctx, absent(t.schema, file)); err != nil {
		return nil, err
	}
	bound, err := file.Bind(t.engine.program.GetSources())
	if err != nil {
		return nil, fmt.Errorf("%s: %w; give rows of the training data's types", f.GetUri(), err)
	}
	return &input{storage: st, profile: profile, uri: f, file: file, bound: bound}, nil
}

// ready has the engine be one for rows that lack some columns.
func (t *Transforms) ready(ctx context.Context, absent []string) error {
	key := strings.Join(absent, "\x00")
	if t.engine != nil && t.engine.absent == key {
		return nil
	}
	program, without, err := t.program(absent)
	if err != nil {
		return err
	}
	held, err := t.sides.hold(ctx, program)
	if err != nil {
		return err
	}
	e, err := newEngine(t.cfg, program, held)
	if err != nil {
		held.Release()
		return err
	}
	t.engine.close()
	e.absent, e.without, t.engine = key, without, e
	t.last.Store(e)
	return nil
}

// absent are the columns of a schema that a file lacks.
func absent(schema *spec.Schema, file format.File) (names []string) {
	for _, c := range schema.Columns {
		if _, ok := file.Columns().Column(c.Name); !ok && !file.Columns().Nulls(c.Path) {
			names = append(names, c.Name)
		}
	}
	return names
}

// within refuses more bytes than there may be.
func within(bytes, limit int64) error {
	if bytes <= limit {
		return nil
	}
	return fmt.Errorf("%w: %d bytes, and it may be %d; give fewer rows at once, or more memory", errTooMuch, bytes,
		limit)
}

var errTooMuch = errors.New("the rows, or what is made of them, take too much memory")
