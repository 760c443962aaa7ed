package python

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/shared"
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
		functions: *fs, caller: caller{fs.session, fmt.Sprintf("%s (%s)", call.GetName(), step.GetAt())},
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
	f.request = request{Kind: askMake, Index: call.GetIndex(), Name: call.GetName(), Style: style, Makes: makes}
	if f.parents.kind == pb.FunctionKind_FLAT_MAP {
		f.request.Most = uint32(f.parents.most)
	}
	for i, t := range in {
		f.request.Ins = append(f.request.Ins, formOf(t))
		for _, at := range call.GetTexts() {
			f.request.Ins[i].Text = f.request.Ins[i].Text || int(at) == i
		}
		if err := crosses(t); err != nil {
			return nil, fmt.Errorf("%w: %s: input %d: %w", ErrCannotRun, f.caller.op, i, err)
		}
	}
	if err := f.makes(step); err != nil {
		return nil, err
	}
	id, err := json.Marshal(f.request)
	f.id = string(id)
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
	return form{Kind: spec.KindName(t.Kind), List: t.List, Nested: int(t.Nested), Shape: []int32{}}
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
	caller  caller
	request request // that makes it
	id      string  // the same, to tell functions apart by
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
}

func (e *diedError) Error() string { return e.how }

// awayError says that the caller left while the process was at work.
type awayError struct{ cause error }

func (e *awayError) Error() string { return e.cause.Error() }

var errLate = errors.New("too late")

// Call calls the function in a process. If the process dies of it there is a second try, in a new one; not if the call
// does not return in time: that would take as long again.
func (f *function) Call(ctx context.Context, c *transform.Call) error {
	w := &waiter{ctx: ctx, told: c.Wait, tick: time.NewTicker(f.pool.times.told)}
	defer w.tick.Stop()
	var died *diedError
	for range 2 {
		err := f.try(w, c)
		var ok bool
		if died, ok = errors.AsType[*diedError](err); !ok {
			return err
		}
		f.pool.cfg.Logger.Warn("a Python process ended in its work", "session", f.session, "op", f.caller.op,
			"how", died.how)
		if died.late {
			break
		}
	}
	return f.gaveUp(died)
}

// gaveUp is the error of a function whose last process died.
func (f *function) gaveUp(died *diedError) error {
	switch {
	case died.loading:
		again := ", twice"
		if died.late {
			again = ""
		}
		err := fmt.Errorf("%w: its process %s while it loaded the code%s\n%s", ErrCannotRun, died.how, again,
			ending(died.said, mostTraceback))
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
	if err := f.pool.places.enter(w, f.weight); err != nil {
		return err
	}
	q := f.pool.take(f.key)
	if q == nil {
		var err error
		if q, err = f.begin(w); err != nil {
			f.pool.places.leave(f.weight)
			return err
		}
	}
	a, err := f.called(w, q, c)
	if away, ok := errors.AsType[*awayError](err); ok {
		f.pool.tasks.Go(func() { f.away(q) }) // the process is there, and so is one who waits for its end
		return away.cause
	}
	f.pool.places.leave(f.weight) // before memory is waited for: who has that may wait for the place
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
	q.caller.Store(&f.caller)
	if err := f.ready(w, q); err != nil {
		return nil, err
	}
	return f.run(w, q, c)
}

// away stops a process whose caller has left, and gives back its places, and the process if it has done its work.
func (f *function) away(q *process) {
	defer f.pool.places.leave(f.weight)
	q.interrupt()
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

// begin starts a process that has loaded the code.
func (f *function) begin(w *waiter) (*process, error) {
	s := start{f.environment, f.key, make(chan started, 1)}
	select {
	case f.pool.starts <- s:
	case <-f.pool.closed:
		return nil, errClosed
	case <-w.ctx.Done():
		return nil, context.Cause(w.ctx)
	}
	began := <-s.started // it is at it, which takes milliseconds
	q, err := began.process, began.err
	if err != nil {
		return nil, err
	}
	q.caller.Store(&f.caller)
	f.pool.allow(q, f.memory, 0, false)
	if err = f.load(w, q); err == nil {
		return q, nil
	}
	q.kill("did not load the code")
	if died, ok := errors.AsType[*diedError](err); ok {
		died.loading = true
	}
	if away, ok := errors.AsType[*awayError](err); ok {
		err = away.cause
	}
	f.pool.back(q, false)
	return nil, err
}

// load has a new process load the code.
func (f *function) load(w *waiter, q *process) error {
	hello, err := f.answer(w, q, f.pool.times.hello)
	if err != nil {
		return err
	}
	if hello.Kind != sayHello || hello.Protocol != protocol {
		return f.cannot(failureKey{f.key, ""}, fmt.Sprintf("its penstock package is of another release: it speaks "+
			"protocol %d, and the worker %d; install the worker's release there", hello.Protocol, protocol))
	}
	code, err := shared.Make(len(f.code), func(int64) {})
	if err != nil {
		return err
	}
	defer code.Free()
	copy(code.Bytes, f.code)
	a, err := f.ask(w, q, &request{
		Kind: askLoad, Code: len(f.code), Python: f.wants.GetPython(), Distributions: f.wants.GetDistributions(),
	}, f.pool.times.load, code.File())
	if err != nil {
		return err
	}
	switch a.Kind {
	case sayLoaded:
		return nil
	case sayDiffers:
		return f.cannot(failureKey{f.key, ""}, beginning(a.Message, mostTraceback)+
			"; have this version in the environment of each worker, or open the session with theirs")
	}
	return f.failed(q, a, failureKey{f.key, ""}, sayFailed)
}

// ready has a process make the function, unless it has it.
func (f *function) ready(w *waiter, q *process) error {
	if _, ok := q.made[f.id]; ok {
		return nil
	}
	r := f.request
	r.Function = len(q.made)
	a, err := f.ask(w, q, &r, f.pool.times.load)
	if died, ok := errors.AsType[*diedError](err); ok {
		died.loading = true
	}
	if err != nil {
		return err
	}
	if a.Kind != sayMade {
		return f.failed(q, a, failureKey{f.key, f.id}, sayFailed)
	}
	q.made[f.id] = r.Function
	return nil
}

// failed says why code did not load, or a function did not come to be.
func (f *function) failed(q *process, a *answer, k failureKey, want string) error {
	if a.Kind != want {
		return f.broken(q, fmt.Sprintf("answered %q", a.Kind))
	}
	return f.cannot(k, fmt.Sprintf("%s\n%s", beginning(a.exception(), mostWhat), ending(a.Traceback, mostTraceback)))
}

// cannot says, and remembers, that the function does not run here.
func (f *function) cannot(k failureKey, why string) error {
	err := fmt.Errorf("%w: %s", ErrCannotRun, strings.TrimSpace(why))
	f.pool.failed(k, err)
	return err
}

// ask sends a request, and returns the first answer.
func (f *function) ask(w *waiter, q *process, r *request, within time.Duration, files ...int) (*answer, error) {
	q.number++
	r.Number = q.number
	if err := send(q.conn, r, files...); err != nil {
		return nil, f.broken(q, "took no request: "+err.Error())
	}
	return f.answer(w, q, within)
}

// answer waits for an answer to the last request.
func (f *function) answer(w *waiter, q *process, within time.Duration) (*answer, error) {
	late := time.NewTimer(within)
	defer late.Stop()
	a, ok, err := await(w, q.answers, late.C)
	switch {
	case errors.Is(err, errLate):
		err := f.broken(q, fmt.Sprintf("did not come to an end within %v", within))
		err.late = true
		return nil, err
	case err != nil:
		return nil, &awayError{err}
	case !ok:
		return nil, f.broken(q, "closed its connection")
	case a.Number != q.number:
		return nil, f.broken(q, "gave an answer to no question")
	}
	return a, nil
}

// broken ends a process that has ended, or does not do as it has to, and says how it ended.
func (f *function) broken(q *process, how string) *diedError {
	q.kill(how)
	<-q.dead
	how, killed := q.ended()
	return &diedError{how: how, killed: killed, said: lastWords(q.said.String())}
}

// run calls the function, which the process has, and returns its last answer.
func (f *function) run(w *waiter, q *process, c *transform.Call) (*answer, error) {
	r := request{Kind: askCall, Function: q.made[f.id], Rows: c.N}
	var files []int
	size := 0
	for _, v := range c.In {
		if v.Dict != nil {
			return nil, errors.New("a column of codes cannot be handed over")
		}
		size += room(v)
	}
	if q.in == nil || len(q.in.Bytes) < size {
		f.renew(q, false)
		var err error
		if q.in, err = shared.Make(segment(size), func(int64) {}); err != nil {
			return nil, err
		}
		r.In, files = len(q.in.Bytes), append(files, q.in.File())
	}
	f.pool.allow(q, f.memory, segments(q), false)
	lay := layer{to: q.in.Bytes}
	for _, v := range c.In {
		lay.column(v)
	}
	r.Places = lay.places
	a, err := f.ask(w, q, &r, f.timeout, files...)
	for err == nil && a.Kind == sayNeed {
		a, err = f.grow(w, q, a.Bytes)
	}
	return a, err
}

// finish takes what the function made, from its last answer.
func (f *function) finish(q *process, c *transform.Call, a *answer) error {
	if a.Kept {
		f.renew(q, true)
	}
	switch a.Kind {
	case sayDone:
		return f.done(q, c, a)
	case sayRaised:
		return f.raised(c, a)
	}
	return f.broken(q, fmt.Sprintf("answered %q", a.Kind))
}

// renew gives up the input's segment: it is too small, or the process keeps something of it.
func (f *function) renew(q *process, keeps bool) {
	if q.in != nil {
		q.in.Free()
		q.in = nil
		f.pool.allow(q, 0, segments(q), keeps)
	}
}

// grow gives the process room for results, and returns what it answers then.
func (f *function) grow(w *waiter, q *process, bytes int64) (*answer, error) {
	has := int64(0)
	if q.out != nil {
		has = int64(len(q.out.Bytes))
	}
	if bytes <= has {
		return nil, f.broken(q, fmt.Sprintf("asked for room of %d bytes, and has %d", bytes, has))
	}
	r := request{Kind: askRoom, Number: q.number}
	if bytes > f.memory {
		if err := send(q.conn, &r); err != nil {
			return nil, f.broken(q, "took no request: "+err.Error())
		}
		f.renew(q, true) // it does not say whether it keeps something of it
		return nil, &FunctionError{Op: f.caller.op, What: fmt.Sprintf("its results take %d MiB, and it may take %d; "+
			"give its op more by memory=, or have it make less of a row", bytes>>20, f.memory>>20)}
	}
	out, err := shared.Workspace(segment(int(bytes)), func(int64) {})
	if err != nil {
		return nil, f.broken(q, err.Error())
	}
	if q.out != nil {
		q.out.Free()
	}
	q.out = out
	f.pool.allow(q, 0, segments(q), false)
	r.Out = len(out.Bytes)
	if err := send(q.conn, &r, out.File()); err != nil {
		return nil, f.broken(q, "took no request: "+err.Error())
	}
	return f.answer(w, q, f.timeout)
}

// done takes what the function made.
func (f *function) done(q *process, c *transform.Call, a *answer) error {
	var from []byte
	if q.out != nil {
		from = q.out.Bytes
	}
	parents, places, err := f.parents.take(c.N, a.Rows, from, a.Places, c.Room)
	if c.Parents = parents; err == nil {
		rows := c.N
		if parents != nil {
			rows = len(parents)
		}
		err = take(f.results, c.Out, rows, from, places, c.Room)
	}
	if errors.Is(err, errPlaces) {
		return f.broken(q, "gave results that are none: "+err.Error())
	}
	return err
}

// raised is what the function raised, or did wrong.
func (f *function) raised(c *transform.Call, a *answer) error {
	err := &FunctionError{Op: f.caller.op, What: a.exception(), Traceback: a.Traceback}
	if a.Row != nil && *a.Row >= 0 && *a.Row < c.N {
		return &transform.RowError{Row: *a.Row, What: "fails: " + err.Error()}
	}
	return err
}

// segments is how many bytes a process's segments have.
func segments(q *process) (n int64) {
	for _, m := range []*shared.Memory{q.in, q.out} {
		if m != nil {
			n += int64(len(m.Bytes))
		}
	}
	return n
}

// minSegment is what the smallest segment has.
const minSegment = 64 << 10

// segment is how large a segment is that has room for so many bytes: twice as large as one that was too small.
func segment(bytes int) int { return max(minSegment, 1<<bits.Len(uint(max(bytes, 1)-1))) }
