package python

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-ml/penstock/internal/shared"
)

// have takes a process that has loaded the code, or starts one, for which there is memory.
func (f *function) have(w *waiter) (*process, error) {
	q := f.pool.take(f.key)
	if q == nil {
		if err := f.pool.room(w, f.memory); err != nil {
			return nil, err
		}
		return f.begin(w, f.load)
	}
	if err := f.pool.room(w, 0); err != nil {
		f.pool.back(q, true)
		return nil, err
	}
	return q, nil
}

// begin starts a process that has loaded what it is for.
func (f *function) begin(w *waiter, load func(*waiter, *process) error) (*process, error) {
	s := start{f.environment, f.key, make(chan started), make(chan struct{})}
	defer close(s.left)
	select {
	case f.pool.starts <- s:
	case <-f.pool.closed:
		return nil, errClosed
	case <-w.ctx.Done():
		return nil, context.Cause(w.ctx)
	}
	began, _, err := await(w, s.started, nil)
	q := began.process
	if err = cmp.Or(err, began.err); err != nil {
		return nil, err
	}
	q.caller.Store(f.caller)
	f.pool.allow(q, f.memory, 0, false)
	if err = load(w, q); err == nil {
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

// greet takes the hello of a new process.
func (f *function) greet(w *waiter, q *process) error {
	hello, err := f.answer(w, q, f.pool.times.hello)
	if err == nil && (hello.Kind != sayHello || hello.Protocol != protocol) {
		return f.cannot(failureKey{f.key, ""}, fmt.Sprintf("its penstock package is of another release: it speaks "+
			"protocol %d, and the worker %d; install the worker's release there", hello.Protocol, protocol))
	}
	return err
}

// load has a new process load the code, or the modules of functions by name.
func (f *function) load(w *waiter, q *process) error {
	if err := f.greet(w, q); err != nil {
		return err
	}
	r := request{Kind: askLoad, Python: f.wants.GetPython(), Distributions: f.wants.GetDistributions()}
	var files []int
	if f.key.named {
		r.names(f.wants, f.environment.Modules)
	} else {
		code, err := shared.Make(len(f.code), func(int64) {})
		if err != nil {
			return err
		}
		defer code.Free()
		copy(code.Bytes, f.code)
		r.Code, files = len(f.code), append(files, code.File())
	}
	a, err := f.ask(w, q, &r, f.pool.times.load, files...)
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
	return f.cannot(k, failureText(a))
}

// failureText is what an exception says, with its traceback.
func failureText(a *answer) string {
	return beginning(a.exception(), mostWhat) + "\n" + ending(a.Traceback)
}

// cannot says, and remembers, that the function does not run here.
func (f *function) cannot(k failureKey, why string) error {
	err := fmt.Errorf("%w: %s", ErrCannotRun, strings.TrimSpace(why))
	f.pool.failed(k, err)
	return err
}
