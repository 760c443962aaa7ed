package python

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
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
	// Namespace is the one whose sessions may; "": all.
	Namespace string
	// Processes is how many may be at work at once; 0: one for each CPU.
	Processes int
	// Memory is what a process may take, in bytes, unless its functions say otherwise; 0: DefaultMemory.
	Memory int64
	// Budget is what all processes may take together, in bytes; 0: no bound. One that is idle counts by what it has,
	// and ends before another would have too little.
	Budget int64
	// Users are what processes on this machine run as.
	Users  Users
	Logger *slog.Logger
}

// Environment is what functions run in.
type Environment struct {
	Interpreter string
	Path        []string // folders of modules, before the interpreter's own
	Socket      string   // of a Host, which has its own interpreter, in place of these
	// Modules have the functions that sessions may name: "mypkg.features", "mypkg.*" for a package and all in it, "*".
	Modules []string

	host host
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
	host        time.Duration // how often a worker looks for a host that it needs to begin
}

// Pool runs functions in processes. Run must be running for them to be called.
type Pool struct {
	cfg    Config
	times  times
	codes  *codes
	thread thread // that processes on this machine end with
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
	started     chan started
	left        chan struct{} // closed when nobody waits for it
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
	if cfg.Processes < 0 || cfg.Memory < 0 || cfg.Budget < 0 {
		return nil, fmt.Errorf("python: %d processes of %d bytes, and %d together; want 0 or more", cfg.Processes,
			cfg.Memory, cfg.Budget)
	}
	if cfg.Processes == 0 {
		cfg.Processes = runtime.GOMAXPROCS(0)
	}
	if cfg.Memory == 0 {
		cfg.Memory = DefaultMemory
	}
	thread := newThread()
	users, err := newUsers(cfg.Users)
	if err != nil {
		return nil, err
	}
	cfg.Environments = maps.Clone(cfg.Environments)
	for name, e := range cfg.Environments {
		switch {
		case (e.Interpreter == "") == (e.Socket == ""):
			return nil, fmt.Errorf("python: environment %q names no interpreter, or two", name)
		case e.Socket != "":
			e.host = &remote{e.Socket}
		default:
			e.host = newLocal(e, thread, users)
		}
		cfg.Environments[name] = e
	}
	return &Pool{
		cfg: cfg, thread: thread, codes: newCodes(),
		places: places{free: cfg.Processes, memory: cmp.Or(cfg.Budget, math.MaxInt64)},
		starts: make(chan start), closed: make(chan struct{}), processes: map[*process]struct{}{},
		failures: map[failureKey]failure{}, listings: map[key]*listing{}, lists: make(chan struct{}, listsAtOnce),
		times: times{
			hello: time.Minute, load: 5 * time.Minute, call: 5 * time.Minute, told: 10 * time.Second,
			grace: 2 * time.Second, idle: time.Minute, watch: 200 * time.Millisecond, failed: time.Minute,
			host: time.Second,
		},
	}, nil
}

// Functions returns the functions of the session that a ticket is of, as far as a program calls them. It fails with a
// *NeedCodeError if their code is not here, and with ErrCannotRun if they cannot run here at all.
func (p *Pool) Functions(t *pb.Ticket, program *pb.Program) (transform.Functions, error) {
	k, environment, err := p.allowed(t)
	if err != nil {
		return nil, err
	}
	wants := t.GetCode().GetIdentity()
	if k.codeKey, err = keyOf(t); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCannotRun, err)
	}
	if k.named && hasArguments(program) {
		k.session = t.GetSession()
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
	case !named && p.cfg.Namespace != "" && t.GetNamespace() != p.cfg.Namespace:
		return k, environment, fmt.Errorf("%w: it takes code of the namespace %s alone, by --code-namespace, and the "+
			"session is of %q", ErrCannotRun, p.cfg.Namespace, t.GetNamespace())
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
		q.cpu = max(q.cpu, q.child.cpu())
		sum += q.cpu
	}
	return sum
}

// Run runs processes, until ctx ends. When it returns none is left.
func (p *Pool) Run(ctx context.Context) error {
	if err := adopt(); err != nil {
		return err
	}
	stop := make(chan struct{})
	var own sync.WaitGroup
	own.Go(func() { p.startAll(stop) })
	own.Go(p.thread.run)
	own.Go(func() { p.watch(stop) })
	<-ctx.Done()
	p.mu.Lock()
	close(p.closed)
	for q := range p.processes {
		p.end(q)
	}
	p.mu.Unlock()
	p.tasks.Wait()
	close(stop)
	p.thread.end() // not before: the processes end with it
	own.Wait()
	return nil
}

// startAll has processes started, which takes longer where another host does it.
func (p *Pool) startAll(stop chan struct{}) {
	for {
		select {
		case s := <-p.starts:
			if !p.open(func() { p.tasks.Go(func() { p.hand(s, p.start(s)) }) }) {
				p.hand(s, started{nil, errClosed})
			}
		case <-stop:
			return
		}
	}
}

// hand gives what was started to who asked for it, who may have left.
func (p *Pool) hand(s start, has started) {
	select {
	case s.started <- has:
	case <-s.left:
		if has.process != nil {
			has.process.kill("was stopped: its caller has left")
			p.back(has.process, false)
		}
	}
}

// open does something if processes are still started, and says whether they are.
func (p *Pool) open(do func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		return false
	default:
		do()
		return true
	}
}

// maxIdle is how many processes may be idle for each that may be at work. Sessions take turns: if theirs had to end
// each time, they would do little but start new ones, which takes a quarter of a second and what their code takes.
const maxIdle = 2

// start starts a process and what goes with it. One of the tasks does.
func (p *Pool) start(s start) started {
	p.open(func() {
		if len(p.idle) >= maxIdle*p.cfg.Processes {
			p.end(p.idle[0])
		}
	})
	q, printed, err := begin(s.environment.host, s.key, p.cfg.Logger)
	if err != nil {
		return started{nil, fmt.Errorf("%w: %w", ErrNoProcess, err)}
	}
	p.mu.Lock()
	p.processes[q] = struct{}{}
	select {
	case <-p.closed: // meanwhile
		p.end(q)
	default:
	}
	p.mu.Unlock()
	p.tasks.Go(q.read)
	p.tasks.Go(func() { q.print(printed) })
	p.tasks.Go(func() {
		q.wait()
		_ = printed.SetReadDeadline(time.Now().Add(time.Second)) // one that left its group may have it still
		p.gone(q)
	})
	return started{q, nil}
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
	p.cpu += max(q.cpu, q.exit.cpu)
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
			q.had, q.has = true, 0
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
