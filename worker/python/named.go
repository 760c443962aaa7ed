package python

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/penstock-ml/penstock/api/pb"
)

// listsAtOnce bounds the processes that list functions, which take no places: a listing must not wait for calls.
const listsAtOnce = 2

// AnyModule lists all modules that there are, by no name.
const AnyModule = "*"

// AbsentError says that an environment has no function by a name. Its text says what there is instead.
type AbsentError struct{ What string }

func (e *AbsentError) Error() string { return e.What }

// isNamed reports whether a ticket's functions are by name: they have an identity, and no bytes.
func isNamed(t *pb.Ticket) bool { return t.GetCode() != nil && len(t.GetCode().GetSha256()) == 0 }

// hasArguments reports whether a program calls functions with arguments.
func hasArguments(p *pb.Program) bool {
	return slices.ContainsFunc(p.GetSteps(), func(s *pb.Step) bool { return len(s.GetPython().GetArgs()) > 0 })
}

// names has a process load functions by name, if they are those of an identity.
func (r *request) names(identity *pb.Code, modules []string) {
	r.Modules = modules
	for _, f := range identity.GetFunctions() {
		r.Calls, r.Digests = append(r.Calls, f.GetName()), append(r.Digests, f.GetDigest())
	}
}

// named notes what the function is called by, if the session's are by name.
func (f *function) named(call *pb.Function) error {
	if f.key.named != (call.GetCall() != "") {
		return fmt.Errorf("%w: %s is by name, and the session's functions are not, or the other way round",
			ErrCannotRun, f.caller.op)
	}
	f.request.Call = call.GetCall()
	for name, value := range call.GetArgs() {
		text, err := protojson.Marshal(value)
		if err != nil {
			return fmt.Errorf("%w: %s: args: %s: %w", ErrCannotRun, f.caller.op, name, err)
		}
		if f.request.Args == nil {
			f.request.Args = map[string]json.RawMessage{}
		}
		f.request.Args[name] = text
	}
	return nil
}

// listing is a question of what functions there are, which all who ask it at once share.
type listing struct {
	done  chan struct{} // closed when there is an answer
	reply *pb.CallsReply
	err   error
}

// Calls returns what the functions of these names are in the environment that a ticket names; without names, all that
// its modules have. It fails with an *AbsentError if one is not there, and with ErrCannotRun if they cannot run here at
// all. If ctx ends before, the modules are imported all the same, so that who asks again has the answer sooner.
func (p *Pool) Calls(ctx context.Context, t *pb.Ticket, calls []string) (*pb.CallsReply, error) {
	named := &pb.Ticket{Namespace: t.GetNamespace(), Environment: t.GetEnvironment(), Code: &pb.StoredCode{}}
	k, environment, err := p.allowed(named)
	if err != nil {
		return nil, err
	}
	k.named, k.wants = true, strings.Join(calls, "\n")
	f := &function{
		functions: functions{pool: p, environment: environment, key: k},
		memory:    cmp.Or(p.cfg.Budget, p.cfg.Memory), // what the functions may take, the modules have yet to say
		caller:    &caller{op: "the modules of functions by name"},
	}
	l, err := p.listing(f, calls)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.done:
		return l.reply, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Check imports the modules that are listed by their names, and fails if one does not import.
func (p *Pool) Check(ctx context.Context) error {
	for name, e := range p.cfg.Environments {
		if !slices.ContainsFunc(e.Modules, func(m string) bool { return m != AnyModule }) {
			continue
		}
		err := p.imports(ctx, name, e)
		if absent, ok := errors.AsType[*AbsentError](err); ok {
			err = fmt.Errorf("%w: %w", ErrCannotRun, absent)
		}
		if err != nil {
			return fmt.Errorf("the modules of functions that environment %s lists (%s): %w", name,
				strings.Join(e.Modules, ", "), err)
		}
	}
	return nil
}

// imports has the modules of an environment imported, once its host is there, which may start after the worker.
func (p *Pool) imports(ctx context.Context, name string, e Environment) error {
	again := time.NewTicker(p.times.host)
	defer again.Stop()
	for told := false; ; told = true {
		_, err := p.Calls(ctx, &pb.Ticket{Environment: name}, nil)
		if e.Socket == "" || !errors.Is(err, ErrNoProcess) || errors.Is(err, errClosed) {
			return err
		}
		if !told {
			p.cfg.Logger.Warn("the worker waits for its Python host before it takes streams", "error", err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// listing joins the listing of these functions that runs, or begins one, which is the pool's own.
func (p *Pool) listing(f *function, calls []string) (l *listing, err error) {
	open := p.open(func() {
		if l = p.listings[f.key]; l != nil {
			return
		}
		l = &listing{done: make(chan struct{})}
		p.listings[f.key] = l
		p.tasks.Go(func() {
			l.reply, l.err = f.list(&request{Kind: askList, Calls: calls, Modules: f.environment.Modules})
			p.mu.Lock()
			delete(p.listings, f.key)
			p.mu.Unlock()
			close(l.done)
		})
	})
	if !open {
		return nil, errClosed
	}
	return l, nil
}

// list asks a process, which has the modules from an earlier time or imports them.
func (f *function) list(r *request) (*pb.CallsReply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), f.pool.times.load)
	defer cancel()
	w := &waiter{ctx: ctx, tick: time.NewTicker(f.pool.times.told)}
	defer w.tick.Stop()
	select {
	case f.pool.lists <- struct{}{}:
		defer func() { <-f.pool.lists }()
	case <-f.pool.closed:
		return nil, errClosed
	}
	for q := f.pool.take(f.key); ; q = nil {
		stale := q != nil
		if q == nil {
			var err error
			if q, err = f.begin(w, f.greet); err != nil {
				return nil, f.unlisted(err)
			}
		}
		a, err := f.ask(w, q, r, f.pool.times.load)
		well := err == nil && a.Kind == sayListed
		if !well {
			q.kill("is of no more use")
		}
		f.pool.back(q, well)
		if err != nil {
			return nil, f.unlisted(err)
		}
		if a.Kind != sayStale || !stale {
			return f.listed(a)
		}
	}
}

// unlisted is why a process did not list functions.
func (f *function) unlisted(err error) error {
	if away, ok := errors.AsType[*awayError](err); ok {
		return away.cause
	}
	if died, ok := errors.AsType[*diedError](err); ok {
		cause := ErrCannotRun
		if died.lost {
			cause = ErrNoProcess
		}
		return fmt.Errorf("%w: the process that imports %s %s\n%s", cause,
			strings.Join(f.environment.Modules, ", "), died.how, died.said) // which is little
	}
	return err
}

// listed takes an answer.
func (f *function) listed(a *answer) (*pb.CallsReply, error) {
	switch a.Kind {
	case sayAbsent:
		return nil, &AbsentError{beginning(a.Message, mostTraceback)}
	case sayFailed:
		return nil, fmt.Errorf("%w: %s", ErrCannotRun, strings.TrimSpace(failureText(a)))
	case sayListed:
	default:
		return nil, fmt.Errorf("%w: a process answered %q", ErrCannotRun, a.Kind)
	}
	reply, read := &pb.CallsReply{Identity: &pb.Code{}}, protojson.UnmarshalOptions{DiscardUnknown: true}
	err := read.Unmarshal(a.Identity, reply.GetIdentity())
	for _, text := range a.Functions {
		m := &pb.MarkedFunction{}
		err = errors.Join(err, read.Unmarshal(text, m))
		reply.Functions = append(reply.Functions, m)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: what a process says of functions: %w", ErrCannotRun, err)
	}
	return reply, nil
}
