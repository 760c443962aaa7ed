package python

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// shared is the pool that most tests call functions in, so that they start few processes.
var ours struct {
	pool   *Pool
	log    *lines
	names  []string
	bundle []byte
}

func TestMain(m *testing.M) {
	if path := os.Getenv("TEST_HOST"); path != "" {
		worker(path)
		return
	}
	if dir := os.Getenv("TEST_USERS"); dir != "" {
		if err := tenants(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(func() int {
		interpreter, err := exec.LookPath("python")
		if err != nil {
			fmt.Println("there is no Python here")
			return 0
		}
		if err := bundle(interpreter); err != nil {
			fmt.Println("the tests' functions:", err)
			return 1
		}
		ours.log = &lines{}
		ours.pool, err = New(config(slog.New(slog.NewJSONHandler(ours.log, nil))))
		if err != nil {
			fmt.Println(err)
			return 1
		}
		quick(ours.pool)
		ctx, end := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- ours.pool.Run(ctx) }()
		failed := m.Run()
		end()
		if err := errors.Join(<-ended, goleak.Find()); err != nil {
			fmt.Println(err)
			return 1
		}
		return failed
	}())
}

// bundle makes the code of testdata/functions.py.
func bundle(interpreter string) error {
	text, err := exec.Command(interpreter, "testdata/functions.py").Output()
	if err != nil {
		return err
	}
	var made struct {
		Names  []string
		Bundle string
	}
	if err := json.Unmarshal(text, &made); err != nil {
		return err
	}
	ours.names = made.Names
	ours.bundle, err = hex.DecodeString(made.Bundle)
	return err
}

// config has the Python package of this tree.
func config(logger *slog.Logger) Config {
	interpreter, _ := exec.LookPath("python")
	source, _ := filepath.Abs("../../client/python/src")
	return Config{
		Environments: map[string]Environment{Default: {Interpreter: interpreter, Path: []string{source}}},
		ByValue:      true, Processes: 2, Memory: 300 << 20, Logger: logger,
	}
}

// quick has a pool wait for less.
func quick(p *Pool) {
	p.times.told = 10 * time.Millisecond
	p.times.grace = 500 * time.Millisecond
	p.times.watch = 10 * time.Millisecond
}

// running returns a pool of a test's own, and what ends it.
func running(t *testing.T, change func(*Config, *times)) (*Pool, func()) {
	t.Helper()
	cfg := config(slog.New(slog.NewTextHandler(io.Discard, nil)))
	p := &Pool{}
	change(&cfg, &p.times)
	waits := p.times
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	quick(p)
	if waits.idle != 0 {
		p.times.idle = waits.idle
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return p, stop
}

// lines is what was logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// ticketOf is a session's with some code.
func ticketOf(namespace string, data []byte) *pb.Ticket {
	return &pb.Ticket{Session: "s1", Namespace: namespace, Code: code.Of(data, nil)}
}

// partsOf are the parts of some code.
func partsOf(data []byte) []*pb.CodePart { return slices.Collect(code.Parts(code.Of(data, nil), data)) }

// op is a function of testdata/functions.py, as a step has it.
type op struct {
	name  string
	style pb.Style
	in    []spec.Type
	texts []uint32
	out   []spec.Type
	more  func(*pb.Function)
	shape []int32 // of the first result
	from  string  // namespace

	skip int // rows that may fail

	identity *pb.Code
}

// open makes it, of a pool.
func (o op) open(t testing.TB, p *Pool) transform.Function {
	t.Helper()
	f, err := o.try(p)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (o op) try(p *Pool) (transform.Function, error) {
	ticket := ticketOf(o.from, ours.bundle)
	ticket.Code.Identity = o.identity
	for _, part := range partsOf(ours.bundle) {
		if err := p.Keep(ticket, part); err != nil {
			return nil, err
		}
	}
	functions, err := p.Functions(ticket, nil)
	if err != nil {
		return nil, err
	}
	index := slices.Index(ours.names, o.name)
	if index < 0 {
		return nil, fmt.Errorf("no function %q", o.name)
	}
	step := &pb.Step{
		At: "transforms[1]", Outs: uint32(len(o.out)),
		Python: &pb.Function{Name: o.name, Index: uint32(index), Style: o.style, Texts: o.texts},
	}
	for i, typ := range o.out {
		if i == 0 {
			step.Type = typ.Proto()
		} else {
			step.More = append(step.More, typ.Proto())
		}
	}
	for range o.out {
		step.Results = append(step.Results, &pb.Result{Shape: o.shape})
	}
	if o.more != nil {
		o.more(step.Python)
	}
	return functions.Function(step, o.in)
}

var (
	int64s   = spec.Type{Kind: pb.Kind_INT64}
	strings_ = spec.Type{Kind: pb.Kind_BINARY}
)

// numbered is a column of 0, 1, ...
func numbered(n int) *vector.Vector {
	v := &vector.Vector{Type: int64s, Rows: n, I64: make([]int64, n)}
	for i := range v.I64 {
		v.I64[i] = int64(i)
	}
	return v
}

// words is a column of byte strings.
func words(texts ...string) *vector.Vector {
	v := &vector.Vector{Type: strings_, Rows: len(texts), Ends: []int32{0}}
	for _, text := range texts {
		v.Data = append(v.Data, text...)
		v.Ends = append(v.Ends, int32(len(v.Data)))
	}
	return v
}

// callOf is a call with columns.
func callOf(outs []spec.Type, in ...*vector.Vector) *transform.Call {
	c := &transform.Call{N: in[0].Rows, In: in}
	for _, typ := range outs {
		c.Out = append(c.Out, &vector.Vector{Type: typ})
	}
	return c
}

// call calls an op once, in the shared pool.
func (o op) call(t testing.TB, in ...*vector.Vector) (*transform.Call, error) {
	t.Helper()
	f := o.open(t, ours.pool)
	defer f.Close()
	c := callOf(o.out, in...)
	c.Skip = o.skip
	return c, f.Call(t.Context(), c)
}

// wholesome fails unless the shared pool can call a function.
func wholesome(t testing.TB) {
	t.Helper()
	c, err := op{name: "double", style: pb.Style_NUMPY, in: []spec.Type{int64s}, out: []spec.Type{int64s}}.call(t, numbered(4))
	if err != nil || !slices.Equal(c.Out[0].I64, []int64{0, 2, 4, 6}) {
		t.Fatalf("%v: %v", c.Out, err)
	}
}
