package python

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/penstock-ml/penstock/internal/shared"
)

// key is what processes serve: they are shared by no other namespace, nor by other code.
type key struct {
	codeKey
	environment string
	wants       string // what the environment has to have: the code may be that of sessions which differ in it
	threads     int
	// session is that of functions by name some of which have arguments, of which the code says nothing: what a process
	// made of those would stay in it while others' come. All functions of a session have one process, or they would
	// take turns.
	session string
}

// lists reports whether processes of a key say what functions there are by name, and call none.
func (k key) lists() bool { return k.named && k.sha256 == codeKey{}.sha256 }

// process is a Python process. Who has it from the pool sends to it and takes its answers; goroutines of its own read
// these, what it prints, and its end.
type process struct {
	key     key
	child   child
	conn    *net.UnixConn
	answers chan *answer // closed when it says no more
	dead    chan struct{}
	logger  *slog.Logger
	caller  atomic.Pointer[caller]
	said    tail

	// Of who has it:
	in, out *shared.Memory // nil: none yet. They are the process's memory, not what streams hold, nor the runtime's
	made    map[string]int // numbers of functions
	number  uint64         // of the last request

	mu    sync.Mutex
	gone  bool
	exit  exit   // once it is gone
	cause string // why it was killed

	// Under Pool.mu:
	had    bool // by a caller
	ending bool // it was asked to end
	since  time.Time
	share  share         // of its memory
	has    int64         // of that, as far as is known since it was given back
	cpu    time.Duration // as far as is known
}

// caller is for whom a process works, for what it prints.
type caller struct{ session, op string }

// begin has a host start a process, and returns what it prints.
func begin(h host, k key, logger *slog.Logger) (*process, *os.File, error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, nil, err
	}
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, err
	}
	printed, prints, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	defer prints.Close()
	c, err := h.start(launch{k.namespace, k.threads, theirs, prints})
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close(), printed.Close())
	}
	return &process{
		key: k, child: c, conn: conn.(*net.UnixConn), logger: logger, //nolint:forcetypeassert // it is one
		answers: make(chan *answer), dead: make(chan struct{}), made: map[string]int{}, had: true,
	}, printed, nil
}

// read hands on what the process answers.
func (p *process) read() {
	defer close(p.answers)
	for {
		a, err := receive(p.conn)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				p.kill("said what it may not: " + err.Error())
			}
			select {
			case <-p.dead: // how it ended says more
			case <-time.After(time.Second):
				p.kill("closed its connection")
			}
			return
		}
		select {
		case p.answers <- a:
		case <-p.dead:
			return
		}
	}
}

// kill ends the process and its group, at once. The first cause counts.
func (p *process) kill(cause string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return
	}
	if p.cause == "" {
		p.cause = cause
	}
	p.child.kill()
}

// wait waits for the process's end.
func (p *process) wait() {
	how := p.child.wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exit, p.gone = how, true
	_ = p.conn.Close()
}

// ended says how a dead process ended, and whether another than the worker killed it.
func (p *process) ended() (how string, killed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.exit.lost != "":
		return p.exit.lost, true
	case p.cause != "" && p.exit.signal == syscall.SIGKILL:
		return p.cause, false
	case p.exit.signal == syscall.SIGKILL:
		return "was killed (SIGKILL), which the system does where memory is short", true
	case p.exit.signal != 0:
		return fmt.Sprintf("died of signal %d (%v)", p.exit.signal, p.exit.signal), false
	}
	return fmt.Sprintf("ended by itself with exit status %d", p.exit.status), false
}

// free gives its segments back. Who has the process, or had it last, calls it.
func (p *process) free() {
	for _, m := range []*shared.Memory{p.in, p.out} {
		if m != nil {
			m.Free()
		}
	}
	p.in, p.out = nil, nil
}

// What a process prints is logged up to so many lines a second, and bytes of each.
const (
	linesASecond = 50
	maxLine      = 500
)

// print logs what the process prints, until it has ended. It reads on whatever comes, or the process would wait.
func (p *process) print(from *os.File) {
	defer from.Close()
	var line []byte
	var second time.Time
	lines, dropped := 0, 0
	log := func() {
		if now := time.Now(); now.Sub(second) >= time.Second {
			if dropped > 0 {
				p.log(printsMuch, "lines", dropped)
			}
			second, lines, dropped = now, 0, 0
		}
		if lines++; lines > linesASecond {
			dropped++
		} else if len(line) > 0 {
			p.log(printsLine, "text", strings.ToValidUTF8(string(line), "\uFFFD"))
		}
		line = line[:0]
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.said.add(buffer[:n])
		for _, b := range buffer[:n] {
			if b == '\n' {
				log()
			} else if len(line) < maxLine {
				line = append(line, b)
			}
		}
		if err != nil {
			if len(line) > 0 {
				log()
			}
			if dropped > 0 {
				p.log(printsMuch, "lines", dropped)
			}
			return
		}
	}
}

func (p *process) log(message string, args ...any) {
	c := p.caller.Load()
	if c == nil {
		c = &caller{}
	}
	p.logger.Info(message, append([]any{"session", c.session, "op", c.op, "pid", p.child.number()}, args...)...)
}

// tail is the last bytes that were added. Any goroutine may use it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const maxTail = 2 << 10

func (t *tail) add(text []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text[max(0, len(text)-maxTail):]...)
	if over := len(t.text) - maxTail; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.text), "\uFFFD"))
}
