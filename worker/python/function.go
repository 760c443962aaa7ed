package python

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/transform"
)

// functions are those of a session's code.
type functions struct {
	pool        *Pool
	environment Environment
	key         key
	code        []byte
	wants       *pb.Code // whose environment it is to have
	session     string
}

// Function returns what a step calls.
func (fs *functions) Function(step *pb.Step, in []spec.Type) (transform.Function, error) {
	call := step.GetPython()
	f := &function{
		functions: *fs, caller: &caller{fs.session, fmt.Sprintf("%s (%s)", call.GetName(), step.GetAt())},
		memory: call.GetMemory(), timeout: time.Duration(call.GetTimeoutMs()) * time.Millisecond,
	}
	makes, ok := kindNames[call.GetKind()]
	if !ok {
		return nil, fmt.Errorf("%w: %s is of kind %v, which is of a later release", ErrCannotRun, f.caller.op,
			call.GetKind())
	}
	f.parents.kind = max(call.GetKind(), pb.FunctionKind_MAP)
	f.parents.most = int64(cmp.Or(call.GetMost(), spec.DefaultMost))
	if f.memory <= 0 {
		f.memory = fs.pool.cfg.Memory
	}
	if most := fs.pool.cfg.Budget; most > 0 && f.memory > most {
		return nil, fmt.Errorf("%w: a process of %s may take %d MiB, and all processes here %d together; give the "+
			"worker more by --python-memory, or the op less by memory=", ErrCannotRun, f.caller.op, f.memory>>20,
			most>>20)
	}
	if f.timeout <= 0 {
		f.timeout = fs.pool.times.call
	}
	f.key.threads = int(max(1, min(call.GetThreads(), 1<<10)))
	f.weight = min(f.key.threads, fs.pool.cfg.Processes)
	style, ok := styles[call.GetStyle()]
	if !ok {
		return nil, fmt.Errorf("%w: %s is of style %v, which is of a later release", ErrCannotRun, f.caller.op,
			call.GetStyle())
	}
	f.request = request{
		Kind: askMake, Index: call.GetIndex(), Name: call.GetName(), Style: style, Makes: makes, Rng: call.GetRng(),
	}
	if err := f.named(call); err != nil {
		return nil, err
	}
	if f.parents.kind == pb.FunctionKind_FLAT_MAP {
		f.request.Most = uint32(f.parents.most)
	}
	for i, t := range in {
		f.request.Ins = append(f.request.Ins, formOf(t))
		for _, at := range call.GetTexts() {
			f.request.Ins[i].Text = f.request.Ins[i].Text || int(at) == i
		}
		if err := crosses(t); err != nil && t.Kind != pb.Kind_PICTURE {
			return nil, fmt.Errorf("%w: %s: input %d: %w", ErrCannotRun, f.caller.op, i, err)
		}
	}
	if err := f.makes(step); err != nil {
		return nil, err
	}
	text, err := json.Marshal(f.request)
	id := sha256.Sum256(text) // arguments may be long
	f.id = string(id[:])
	return f, err
}

var kindNames = map[pb.FunctionKind]string{ //nolint:gochecknoglobals // a constant
	pb.FunctionKind_FUNCTION_KIND_UNSPECIFIED: "", pb.FunctionKind_MAP: "",
	pb.FunctionKind_FILTER: "filter", pb.FunctionKind_FLAT_MAP: "flat_map",
}

var styles = map[pb.Style]string{ //nolint:gochecknoglobals // a constant
	pb.Style_STYLE_UNSPECIFIED: "arrow", pb.Style_ARROW: "arrow", pb.Style_NUMPY: "numpy", pb.Style_ROWS: "rows",
}

func formOf(t spec.Type) form {
	out := form{Kind: spec.KindName(t.Kind), List: t.List, Nested: int(t.Nested), Shape: []int32{}}
	if p := t.Picture; t.Kind == pb.Kind_PICTURE {
		out.Shape = append(out.Shape, p.Height, p.Width, p.Channels)
	}
	return out
}

// makes notes the types of the results of a step.
func (f *function) makes(step *pb.Step) error {
	if f.parents.kind == pb.FunctionKind_FILTER {
		return nil
	}
	types := append([]*pb.Type{step.GetType()}, step.GetMore()...)
	if step.GetOuts() == 0 || int(step.GetOuts()) != len(types) {
		return fmt.Errorf("%w: %s makes %d results of %d types", ErrCannotRun, f.caller.op, step.GetOuts(), len(types))
	}
	for i, m := range types {
		t := spec.TypeFromProto(m)
		if err := crosses(t); err != nil {
			return fmt.Errorf("%w: %s: result %d: %w", ErrCannotRun, f.caller.op, i, err)
		}
		out := formOf(t)
		if declared := step.GetResults(); i < len(declared) {
			out.Shape, out.Text = append(out.Shape, declared[i].GetShape()...), declared[i].GetText()
		}
		f.request.Outs = append(f.request.Outs, out)
		f.results = append(f.results, result{typ: t})
	}
	return nil
}

// function is one function, for one chain. Its results lie in memory of its own.
type function struct {
	functions
	caller  *caller
	request request // that makes it
	id      string  // a hash of it, to tell functions apart by
	weight  int
	memory  int64
	timeout time.Duration
	parents parents
	results []result
}

// Close has nothing to give up but memory: no process is held between calls.
func (f *function) Close() { f.results, f.parents.rows = nil, nil }

// diedError says that the process ended before it answered.
type diedError struct {
	how, said     string
	loading, late bool
	killed        bool // by another than the worker
	lost          bool // with its host
}

func (e *diedError) Error() string { return e.how }

// awayError says that the caller left while the process was at work.
type awayError struct{ cause error }

func (e *awayError) Error() string { return e.cause.Error() }

var errLate = errors.New("too late")

// Call calls the function in a process. If the process dies of it there is a second try, in a new one; not if the call
// does not return in time: that would take as long again.
func (f *function) Call(ctx context.Context, c *transform.Call) error {
	if c.Session != "" && c.Session != f.caller.session { // another has the kit now
		f.caller = &caller{c.Session, f.caller.op}
	}
	w := &waiter{ctx: ctx, told: c.Wait, tick: time.NewTicker(f.pool.times.told)}
	defer w.tick.Stop()
	if err := f.tooLarge(c); err != nil {
		return err
	}
	var died *diedError
	for range 2 {
		err := f.try(w, c)
		var ok bool
		if died, ok = errors.AsType[*diedError](err); !ok {
			return err
		}
		f.pool.cfg.Logger.Warn("a Python process ended in its work", "session", f.caller.session, "op", f.caller.op,
			"how", died.how)
		if died.late {
			break
		}
	}
	return f.gaveUp(died)
}

// tooLarge refuses pictures that take more memory than the function may.
func (f *function) tooLarge(c *transform.Call) error {
	pixels := int64(0)
	for _, v := range c.In {
		if v.Type.Kind == pb.Kind_PICTURE {
			pixels += int64(v.Ends[v.Rows])
		}
	}
	if pixels <= f.memory {
		return nil
	}
	return &FunctionError{Op: f.caller.op, What: fmt.Sprintf("the pictures of one call take %d MiB, and it may take "+
		"%d; resize them before it, or give its op more by memory=", pixels>>20, f.memory>>20)}
}

// gaveUp is the error of a function whose last process died.
func (f *function) gaveUp(died *diedError) error {
	switch {
	case died.lost:
		return fmt.Errorf("%w: its process %s, twice", ErrNoProcess, died.how)
	case died.loading:
		again := ", twice"
		if died.late {
			again = ""
		}
		err := fmt.Errorf("%w: its process %s while it loaded the code%s\n%s", ErrCannotRun, died.how, again,
			ending(died.said))
		if !died.killed { // from outside, which may be over in a moment
			f.pool.failed(failureKey{f.key, f.id}, err)
		}
		return err
	case died.late:
		return &FunctionError{
			Op:        f.caller.op,
			What:      "its process " + died.how + "; give its op more by timeout=, if it would end at all",
			Traceback: died.said,
		}
	}
	return &FunctionError{
		Op: f.caller.op, What: "its process " + died.how + ", and so did a second one on the same rows",
		Traceback: died.said,
	}
}

// try calls it once, in a process that it has for so long.
func (f *function) try(w *waiter, c *transform.Call) error {
	for _, k := range []failureKey{{f.key, ""}, {f.key, f.id}} {
		if err := f.pool.failure(k); err != nil {
			return err
		}
	}
	t, err := f.pool.places.enter(w, f.weight, f.pool.needs(f))
	if err != nil {
		return err
	}
	q, err := f.have(w)
	if err != nil {
		f.pool.places.leave(t)
		return err
	}
	a, err := f.called(w, q, c)
	if away, ok := errors.AsType[*awayError](err); ok {
		f.pool.tasks.Go(func() { f.away(q, t) }) // the process is there, and so is one who waits for its end
		return away.cause
	}
	f.pool.places.leave(t) // before memory is waited for: who has that may wait for the place
	if err == nil {
		err = rescue.Call(rescue.Worker, func() error { return f.finish(q, c, a) })
	}
	_, died := errors.AsType[*diedError](err)
	f.pool.back(q, !died)
	return err
}

// called has a process call the function, which may have to be made there first. A panic is an error, or the process
// and its places would be nobody's.
func (f *function) called(w *waiter, q *process, c *transform.Call) (a *answer, err error) {
	defer rescue.As(&err, rescue.Worker)
	q.caller.Store(f.caller)
	if err := f.ready(w, q); err != nil {
		return nil, err
	}
	return f.run(w, q, c)
}

// away stops a process whose caller has left, and gives back its places, and the process if it has done its work.
func (f *function) away(q *process, t *turn) {
	defer f.pool.places.leave(t)
	q.child.interrupt()
	grace := time.NewTimer(f.pool.times.grace)
	defer grace.Stop()
	well := false
	select {
	case a, ok := <-q.answers:
		// One that was interrupted may be in any state: in the middle of an import, with half of a list filled.
		if well = ok && a.Number == q.number && (a.Kind == sayDone || a.Kind == sayMade); well && a.Kept {
			f.renew(q, true)
		}
	case <-grace.C:
	}
	if !well {
		q.kill("was stopped: its caller has left")
		<-q.dead
	}
	f.pool.back(q, well)
}
