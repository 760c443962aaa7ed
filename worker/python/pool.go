package python

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/transform"
)

// DefaultMemory is what a process may take, in bytes, where nobody says.
const DefaultMemory = 512 << 20

// Default is the name of the environment that sessions use that name none.
const Default = "default"

// Config says which functions a worker runs, and in what. New fills in defaults and checks it.
type Config struct {
	// Environments are the interpreters that there are, by name.
	Environments map[string]Environment
	// ByValue says that sessions may bring functions of their own; else they name those of Modules.
	ByValue bool
	// Processes is how many may be at work at once; 0: one for each CPU.
	Processes int
	// Memory is what a process may take, in bytes, unless its functions say otherwise; 0: DefaultMemory.
	Memory int64
	Logger *slog.Logger
}

// Environment is what functions run in.
type Environment struct {
	Interpreter string
	Path        []string // folders of modules, before the interpreter's own
	// Modules have the functions that sessions may name: "mypkg.features", "mypkg.*" for a package and all in it, "*".
	Modules []string
}

// times are how long things may take. Tests have others.
type times struct {
	hello, load time.Duration // until a process says hello, and until code is loaded or a function made
	call        time.Duration // of functions that do not say so
	told        time.Duration // how often a caller is told that its call runs
	grace       time.Duration // between asking a process to stop, or to end, and killing it
	idle        time.Duration // until a process without work ends
	watch       time.Duration // how often memory is looked at
	failed      time.Duration // until what failed to load is tried again
}

// Pool runs functions in processes. Run must be running for them to be called.
type Pool struct {
	cfg    Config
	times  times
	codes  *codes
	places places
	starts chan start
	lists  chan struct{}  // taken by listings that run
	closed chan struct{}  // closed when no process is started any more
	tasks  sync.WaitGroup // what runs for as long as a process does

	mu        sync.Mutex
	processes map[*process]struct{} // that have not ended
	idle      []*process            // those of them that nobody has, by when they were given back
	failures  map[failureKey]failure
	listings  map[key]*listing
	cpu       time.Duration // of those that have ended
}

// start asks for a process.
type start struct {
	environment Environment
	key         key
	started     chan started // has room for one
}

type started struct {
	process *process
	err     error
}

// New prepares a pool.
func New(cfg Config) (*Pool, error) {
	if cfg.Logger == nil {
		return nil, errors.New("python: Logger is needed")
	}
	if cfg.Processes < 0 || cfg.Memory < 0 {
		return nil, fmt.Errorf("python: %d processes of %d bytes; want 0 or more", cfg.Processes, cfg.Memory)
	}
	if cfg.Processes == 0 {
		cfg.Processes = runtime.GOMAXPROCS(0)
	}
	if cfg.Memory == 0 {
		cfg.Memory = DefaultMemory
	}
	for name, e := range cfg.Environments {
		if e.Interpreter == "" {
			return nil, fmt.Errorf("python: environment %q names no interpreter", name)
		}
	}
	return &Pool{
		cfg: cfg, codes: newCodes(), places: places{free: cfg.Processes},
		starts: make(chan start), closed: make(chan struct{}), processes: map[*process]struct{}{},
		failures: map[failureKey]failure{}, listings: map[key]*listing{}, lists: make(chan struct{}, listsAtOnce),
		times: times{
			hello: time.Minute, load: 5 * time.Minute, call: 5 * time.Minute, told: 10 * time.Second,
			grace: 2 * time.Second, idle: time.Minute, watch: 200 * time.Millisecond, failed: time.Minute,
		},
	}, nil
}

// Functions returns the functions of the session that a ticket is of. It fails with a *NeedCodeError if their code is
// not here, and with ErrCannotRun if they cannot run here at all.
func (p *Pool) Functions(t *pb.Ticket) (transform.Functions, error) {
	k, environment, err := p.allowed(t)
	if err != nil {
		return nil, err
	}
	wants := t.GetCode().GetIdentity()
	if k.codeKey, err = keyOf(t); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCannotRun, err)
	}
	k.wants = strings.Join(append([]string{wants.GetPython()}, wants.GetDistributions()...), "\n")
	code, ok := p.codes.get(k.codeKey)
	if !ok && !k.named {
		return nil, &NeedCodeError{SHA256: k.sha256[:]}
	}
	return &functions{
		pool: p, environment: environment, key: k, code: code, wants: wants, session: t.GetSession(),
	}, nil
}

// Keep takes a part of the code that a ticket names.
func (p *Pool) Keep(t *pb.Ticket, part *pb.CodePart) error {
	if _, _, err := p.allowed(t); err != nil {
		return err
	}
	return p.codes.keep(t, part)
}

// allowed is where functions of a ticket run, and the key of processes there, as far as that is known.
func (p *Pool) allowed(t *pb.Ticket) (key, Environment, error) {
	k := key{codeKey: codeKey{namespace: t.GetNamespace()}, environment: cmp.Or(t.GetEnvironment(), Default)}
	environment, ok := p.cfg.Environments[k.environment]
	switch named := isNamed(t); {
	case !named && !p.cfg.ByValue:
		return k, environment, fmt.Errorf("%w: it takes no code of sessions; start it with --code=by-value, or have "+
			"the session name functions of its modules", ErrCannotRun)
	case !ok:
		return k, environment, fmt.Errorf("%w: it has no interpreter %s; start it with --python=%[2]s=PATH",
			ErrCannotRun, k.environment)
	case named && len(environment.Modules) == 0:
		return k, environment, fmt.Errorf("%w: it lists no modules of functions; start it with "+
			"--python-modules=%s=mypkg.features", ErrCannotRun, k.environment)
	}
	return k, environment, nil
}

// CPU is the time that all processes have taken so far, of the user and of the system.
func (p *Pool) CPU() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := p.cpu
	for q := range p.processes {
		if cpu, ok := cpuOf(q.cmd.Process.Pid); ok && cpu > q.cpu {
			q.cpu = cpu
		}
		sum += q.cpu
	}
	return sum
}

// Run runs processes, until ctx ends. When it returns none is left.
func (p *Pool) Run(ctx context.Context) error {
	stop := make(chan struct{})
	var own sync.WaitGroup
	own.Go(func() { p.startAll(stop) })
	own.Go(func() { p.watch(stop) })
	<-ctx.Done()
	p.mu.Lock()
	close(p.closed)
	for q := range p.processes {
		p.end(q)
	}
	p.mu.Unlock()
	p.tasks.Wait()
	close(stop) // not before: the processes end with the thread that started them
	own.Wait()
	return nil
}

// startAll starts processes. They end with its thread, which lives on for as long as they may.
func (p *Pool) startAll(stop chan struct{}) {
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
	for {
		select {
		case s := <-p.starts:
			q, err := p.start(s)
			s.started <- started{q, err}
		case <-stop:
			return
		}
	}
}

// maxIdle is how many processes may be idle for each that may be at work. Sessions take turns: if theirs had to end
// each time, they would do little but start new ones, which takes a quarter of a second and what their code takes.
const maxIdle = 2

// start starts a process and what goes with it.
func (p *Pool) start(s start) (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		return nil, errClosed
	default:
	}
	if len(p.idle) >= maxIdle*p.cfg.Processes {
		p.end(p.idle[0])
	}
	q, printed, err := launch(s.environment.Interpreter, s.environment.Path, s.key, p.cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoProcess, err)
	}
	p.processes[q] = struct{}{}
	p.tasks.Go(q.read)
	p.tasks.Go(func() { q.print(printed) })
	p.tasks.Go(func() {
		q.wait()
		_ = printed.SetReadDeadline(time.Now().Add(time.Second)) // one that left its group may have it still
		p.gone(q)
	})
	return q, nil
}

var errClosed = fmt.Errorf("%w: it ends", ErrNoProcess)

// end asks a process to end, which it is made to if it does not soon. mu must be held.
func (p *Pool) end(q *process) {
	if q.ending {
		return
	}
	q.ending = true
	p.idle = slices.DeleteFunc(p.idle, func(other *process) bool { return other == q })
	_ = q.conn.CloseWrite() // it may have ended
	time.AfterFunc(p.times.grace, func() { q.kill("was ended") })
}

// gone takes a process off the list that has ended.
func (p *Pool) gone(q *process) {
	p.mu.Lock()
	delete(p.processes, q)
	p.idle = slices.DeleteFunc(p.idle, func(other *process) bool { return other == q })
	state := q.cmd.ProcessState
	p.cpu += max(q.cpu, state.UserTime()+state.SystemTime())
	had := q.had
	p.mu.Unlock()
	if !had {
		q.free()
	}
	close(q.dead)
}

// take returns a process of a key that has no work, or nil.
func (p *Pool) take(k key) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, q := range slices.Backward(p.idle) {
		if q.key == k {
			p.idle = slices.Delete(p.idle, i, i+1)
			q.had = true
			return q
		}
	}
	return nil
}

// back takes a process back, which can go on if it is well.
func (p *Pool) back(q *process, well bool) {
	p.mu.Lock()
	q.had, q.since = false, time.Now()
	_, lives := p.processes[q]
	if lives && well && !q.ending {
		p.idle = append(p.idle, q)
	}
	p.mu.Unlock()
	if !lives {
		q.free()
	}
}

// allow sets what a process may take, which is what its function that takes the most may, and how much of what it has
// mapped is its segments'; keeps is set once it has kept one.
func (p *Pool) allow(q *process, memory, segments int64, keeps bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q.limit, q.shared, q.keeps = max(q.limit, memory), segments, q.keeps || keeps
}

// watch ends processes that take too much memory, or have had no work for long.
func (p *Pool) watch(stop chan struct{}) {
	tick := time.NewTicker(p.times.watch)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			p.look(now)
		case <-stop:
			return
		}
	}
}

// look looks at all processes once.
func (p *Pool) look(now time.Time) {
	type held struct {
		*process
		limit, shared int64
		keeps         bool
	}
	var all []held
	p.mu.Lock()
	for len(p.idle) > 0 && now.Sub(p.idle[0].since) > p.times.idle {
		p.end(p.idle[0])
	}
	for q := range p.processes {
		if q.limit > 0 {
			all = append(all, held{q, q.limit, q.shared, q.keeps})
		}
	}
	p.mu.Unlock()
	for _, q := range all {
		if has := memoryOf(q.cmd.Process.Pid, q.shared, q.limit, q.keeps); has > q.limit {
			q.kill(fmt.Sprintf("took %d MiB of memory, where its op allows %d by memory=",
				has>>20, q.limit>>20))
		}
	}
}

// failureKey is what failed to load: a function, or with "" the code.
type failureKey struct {
	key
	function string
}

type failure struct {
	err   error
	until time.Time
}

// maxFailures bounds what is remembered of failures.
const maxFailures = 1000

// failed remembers for a while that something does not load, so that processes are not started for it again and again.
func (p *Pool) failed(k failureKey, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.failures) >= maxFailures {
		clear(p.failures)
	}
	p.failures[k] = failure{err, time.Now().Add(p.times.failed)}
}

// failure is what is remembered.
func (p *Pool) failure(k failureKey) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.failures[k]
	if ok && time.Now().After(f.until) {
		delete(p.failures, k)
		return nil
	}
	return f.err
}
