package offline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/python"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

const (
	// triedRows is how many rows a call of a trial gets at most.
	triedRows = 16
	// triedBytes bounds what a trial reads of the dataset.
	triedBytes = 64 << 20
	// triedMemory bounds what its stream holds.
	triedMemory = 512 << 20
	// toFirstCall bounds how long it reads rows of which none come to a function.
	toFirstCall = 3 * time.Second
)

var (
	errEnough = errors.New("all functions were tried")
	errNoRows = fmt.Errorf("no function got a row in %v", toFirstCall)
	errBytes  = fmt.Errorf("the first rows take more than %d MiB to read", triedBytes>>20)
)

// trial runs the functions of a spec, as a worker does, on its dataset's first rows.
type trial struct {
	storage storage.Storage
	ops     *transform.Registry
	spec    *pb.Spec
	code    []byte
}

// tried is what came of a trial.
type tried struct {
	Failed *failed `json:"failed,omitempty"`
	// Untried is why functions were not tried on rows; "": all were.
	Untried string `json:"untried,omitempty"`
}

// failed is a function that cannot work, or not on the first rows.
type failed struct {
	Name    string `json:"name"`
	At      string `json:"at"`      // transforms[1]
	Loading bool   `json:"loading"` // it, or its class, was not made
	What    string `json:"what"`
	Rows    int    `json:"rows"` // that the call got
	Words   string `json:"words"`

	row *int64 // of the file, if it is about one
}

// words are what people read of it, where a file was read.
func (f *failed) words(file string) string {
	who := fmt.Sprintf("%s (python %s)", f.At, f.Name)
	switch {
	case f.Loading:
		return fmt.Sprintf("%s cannot be made: %s", who, f.What)
	case f.Rows == 0:
		return fmt.Sprintf("%s fails whatever rows it gets: %s", who, f.What)
	case f.row != nil:
		return fmt.Sprintf("%s, the first rows: %s: row %d fails: %s", file, who, *f.row, f.What)
	}
	return fmt.Sprintf("%s, the first rows: %s: %s", file, who, f.What)
}

// pin has the functions by name be those that the pool's environment has. One that is not there is an error.
func (t *trial) pin(ctx context.Context, pool *python.Pool) error {
	if !spec.ByName(t.spec) {
		return nil
	}
	ticket := &pb.Ticket{Namespace: identity.DefaultNamespace, Environment: t.spec.GetPython()}
	has, err := pool.Calls(ctx, ticket, spec.NamedCalls(t.spec))
	if err == nil {
		t.spec, err = spec.Pin(t.spec, has)
	}
	return err
}

// stored is the functions' code, as a ticket names it.
func (t *trial) stored() *pb.StoredCode {
	if len(t.code) == 0 { // by name
		return &pb.StoredCode{Identity: t.spec.GetCode()}
	}
	return code.Of(t.code, t.spec.GetCode())
}

// run tries all functions, which were pinned. What keeps them from being tried is no error: a session may have it
// otherwise.
func (t *trial) run(ctx context.Context, pool *python.Pool) *tried {
	w := &watched{pool: pool, code: t.stored(), data: t.code}
	err := t.stream(ctx, w)
	if w.failed == nil {
		err = errors.Join(err, w.rest(ctx))
	}
	switch {
	case w.failed != nil:
		w.failed.Words = w.failed.words(w.file)
		return &tried{Failed: w.failed}
	case err != nil:
		return &tried{Untried: err.Error()}
	}
	return &tried{}
}

// stream opens a stream of the first extent that has rows, and takes it until each function has been called.
func (t *trial) stream(ctx context.Context, w *watched) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.enough = func() { cancel(errEnough) }
	t.spec.Shuffle = false // the first rows are the dataset's
	files := formats.NewCache(describedBytes)
	d, err := master.Resolve(ctx, t.storage, files, t.ops, plan.Config{}, t.spec)
	if err != nil {
		return err
	}
	ticket := &pb.Ticket{
		Session: "try", Namespace: identity.DefaultNamespace, File: d.Looked[0], Code: w.code,
		Environment: t.spec.GetPython(),
	}
	w.file = ticket.GetFile().GetUri()
	if err := t.first(ctx, files, ticket); err != nil {
		return err
	}
	p := pipeline.New(pipeline.Config{
		Storage: &sparing{Storage: t.storage, left: triedBytes}, Ops: t.ops, Memory: triedMemory, Streams: 1,
		BatchBytes: 1 << 20, MaxBatch: triedMemory / 2, OverRead: 256 << 10, Patience: time.Second, Python: w,
	})
	defer p.Close()
	s, err := p.Open(ctx, ticket, d.Program, pipeline.Cursor{})
	if err != nil {
		return err
	}
	defer s.Close()
	late := time.AfterFunc(toFirstCall, func() {
		if !w.begun() {
			cancel(errNoRows)
		}
	})
	defer late.Stop()
	err = s.Run(ctx, func(_ context.Context, b pipeline.Batch) error {
		b.Release()
		return nil
	})
	if errors.Is(context.Cause(ctx), errEnough) {
		return nil
	}
	return err
}

// first completes a ticket by the first extent of its file that has rows.
func (t *trial) first(ctx context.Context, files *formats.Cache, ticket *pb.Ticket) error {
	f, err := files.Load(ctx, t.storage, t.spec.GetDataset().GetStorage(), ticket.GetFile(),
		t.spec.GetDataset().GetFormat(), nil, nil)
	if err != nil {
		return err
	}
	if f, err = t.begin(ctx, ticket.GetFile(), f); err != nil {
		return err
	}
	for i, e := range f.Extents() {
		if e.Rows > 0 {
			first := &pb.Extent{Index: uint32(i), FirstRow: e.FirstRow, Rows: e.Rows, WindowRows: triedRows}
			if of, ok := f.(format.Scanned); ok {
				of.Place(i).To(first)
			}
			ticket.Extents = []*pb.Extent{first}
			return nil
		}
	}
	return fmt.Errorf("%s has no rows", ticket.GetFile().GetUri())
}

// begin scans a file that has to be for its first extent, and no further.
func (t *trial) begin(ctx context.Context, file *pb.File, f format.File) (format.File, error) {
	of, ok := f.(format.Scanned)
	if !ok {
		return f, nil
	}
	in := &format.Input{
		Storage: t.storage, Profile: t.spec.GetDataset().GetStorage(), File: file,
		How: t.spec.GetDataset().GetFormat(),
	}
	var places []format.Place
	err := of.Scan(ctx, in, func(p format.Place) error {
		places = append(places, p)
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("%s: %w", file.GetUri(), err)
	}
	return of.At(places)
}

// sparing is a storage that reads so many bytes, and no more.
type sparing struct {
	storage.Storage
	mu   sync.Mutex
	left int
}

func (s *sparing) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	s.mu.Lock()
	s.left -= len(buf)
	over := s.left < 0
	s.mu.Unlock()
	if over {
		return errBytes
	}
	return s.Storage.ReadAt(ctx, profile, f, buf, offset)
}

// watched are the functions of a trial, and what became of them. They are called by one goroutine at a time.
type watched struct {
	pool   *python.Pool
	code   *pb.StoredCode
	data   []byte
	enough func()
	file   string // that is read

	mu     sync.Mutex
	inner  transform.Functions
	calls  []*watchedCall // in the order of the program
	called bool
	failed *failed
}

// watchedCall is what a step calls.
type watchedCall struct {
	step  *pb.Step
	in    []spec.Type
	tried bool // on rows
}

// Functions gives the pool the code first.
func (w *watched) Functions(t *pb.Ticket, program *pb.Program) (transform.Functions, error) {
	if len(w.data) > 0 {
		for part := range code.Parts(w.code, w.data) {
			if err := w.pool.Keep(t, part); err != nil {
				return nil, err
			}
		}
	}
	var err error
	w.inner, err = w.pool.Functions(t, program)
	return w, err
}

// Function notes what a step calls.
func (w *watched) Function(step *pb.Step, in []spec.Type) (transform.Function, error) {
	f, err := w.inner.Function(step, in)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.IndexFunc(w.calls, func(c *watchedCall) bool { return c.step.GetAt() == step.GetAt() })
	if at < 0 { // else it is compiled once more
		at = len(w.calls)
		w.calls = append(w.calls, &watchedCall{step: step, in: slices.Clone(in)})
	}
	return &watchedFunction{Function: f, watched: w, call: w.calls[at]}, nil
}

// begun reports whether a function was called.
func (w *watched) begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.called
}

// rest makes the functions that no row came to, and calls them with none. Workers do not: so of what they raise then
// only that counts which more rows would not change.
func (w *watched) rest(ctx context.Context) error {
	for _, c := range w.calls {
		if c.tried || w.failed != nil {
			continue
		}
		f, err := w.inner.Function(c.step, c.in)
		if err != nil {
			return err
		}
		call := transform.Call{Room: func(int64) error { return nil }, Wait: ctx.Err}
		for _, t := range c.in {
			call.In, call.Sizes = append(call.In, empty(t)), append(call.Sizes, nil)
		}
		for range c.step.GetOuts() {
			call.Out = append(call.Out, &vector.Vector{})
		}
		err = f.Call(ctx, &call)
		f.Close()
		w.note(c, &call, err)
	}
	return context.Cause(ctx)
}

// empty is a column of no rows.
func empty(t spec.Type) *vector.Vector {
	v := &vector.Vector{Type: t}
	if t.Kind == pb.Kind_PICTURE {
		v.Ends = []int32{0}
	}
	if t.List {
		v.Offsets = []int32{0}
		for range t.Nested {
			v.Nested = append(v.Nested, vector.Level{Offsets: []int32{0}})
		}
	}
	return v
}

// watchedFunction is a function whose calls are noted.
type watchedFunction struct {
	transform.Function
	watched *watched
	call    *watchedCall
}

func (f *watchedFunction) Call(ctx context.Context, c *transform.Call) error {
	f.watched.mu.Lock()
	f.watched.called = true
	f.watched.mu.Unlock()
	err := f.Function.Call(ctx, c)
	f.watched.note(f.call, c, err)
	return err
}

// note notes a call of a function.
func (w *watched) note(of *watchedCall, c *transform.Call, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if of.tried = of.tried || c.N > 0; err != nil {
		if w.failed == nil {
			w.failed = failureOf(of.step, c, err)
		}
		return
	}
	if !slices.ContainsFunc(w.calls, func(c *watchedCall) bool { return !c.tried }) {
		w.enough()
	}
}

// failureOf is what an error says of a function; nil if it says as much of this machine, or of a call without rows.
func failureOf(step *pb.Step, c *transform.Call, err error) *failed {
	f := &failed{Name: step.GetPython().GetName(), At: step.GetAt(), Rows: c.N}
	ofRow, isRow := errors.AsType[*transform.RowError](err)
	ofCall, isCall := errors.AsType[*python.FunctionError](err)
	switch {
	case errors.Is(err, python.ErrCannotRun):
		f.Loading, f.What = true, strings.TrimPrefix(err.Error(), python.ErrCannotRun.Error()+": ")
	case isRow:
		row := c.Rows.Row(ofRow.Row)
		f.row, f.What = &row, strings.TrimPrefix(ofRow.What, "fails: ")
	case isCall:
		f.What = ofCall.Error()
	default:
		return nil
	}
	if strings.HasPrefix(f.What, "its process ") || c.N == 0 && !f.Loading && !isOfCode(f.What) {
		return nil
	}
	return f
}

// isOfCode reports whether an exception is raised whatever rows a function gets: something is not there.
func isOfCode(what string) bool {
	return strings.HasPrefix(what, "ModuleNotFoundError:") || strings.HasPrefix(what, "ImportError:") ||
		strings.HasPrefix(what, "NameError:")
}
