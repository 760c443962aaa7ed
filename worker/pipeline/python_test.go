package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform"
)

// fakePython runs functions that tests write, by their names, and knows what they were called with.
type fakePython struct {
	functions map[string]func(ctx context.Context, c *transform.Call) error
	err       error // of all
	mu        sync.Mutex
	program   *pb.Program // that it was last asked for
	made      []*fakeFunction
	calls     []fakeCall
}

// fakeCall is a call of a function: the rows of the file.
type fakeCall struct {
	name string
	rows []int64
}

func (p *fakePython) Functions(_ *pb.Ticket, program *pb.Program) (transform.Functions, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.program = program
	return p, p.err
}

func (p *fakePython) Function(s *pb.Step, _ []spec.Type) (transform.Function, error) {
	name := s.GetPython().GetName()
	call := p.functions[name]
	if call == nil {
		return nil, errNoModule
	}
	f := &fakeFunction{python: p, name: name, call: call}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made = append(p.made, f)
	return f, nil
}

var errNoModule = errors.New("no module named torch")

// open is how many functions are not closed yet; each may be closed once.
func (p *fakePython) open(t testing.TB) (n int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.made {
		if n += 1 - f.closed; f.closed > 1 {
			t.Errorf("function %s was closed %d times", f.name, f.closed)
		}
	}
	return n
}

// took returns the calls since the last time.
func (p *fakePython) took() []fakeCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls
	p.calls = nil
	return calls
}

type fakeFunction struct {
	python *fakePython
	name   string
	call   func(ctx context.Context, c *transform.Call) error
	closed int
}

func (f *fakeFunction) Call(ctx context.Context, c *transform.Call) error {
	made := fakeCall{name: f.name}
	for i := range c.N {
		made.rows = append(made.rows, c.Rows.Row(i))
	}
	f.python.mu.Lock()
	f.python.calls = append(f.python.calls, made)
	f.python.mu.Unlock()
	for _, v := range c.In {
		if v.Rows != c.N || v.Codes != nil || v.U32 != nil || v.Early {
			return fmt.Errorf("an input has %d rows, not %d, or no plain values", v.Rows, c.N)
		}
	}
	return f.call(ctx, c)
}

func (f *fakeFunction) Close() {
	f.python.mu.Lock()
	defer f.python.mu.Unlock()
	f.closed++
}

// withPython has a pipeline run functions.
func withPython(p *Pipeline, python Python) *Pipeline {
	p.cfg.Python = python
	return p
}

// call adds a step that calls a function, and returns its first slot.
func call(p *pb.Program, name string, in []uint32, out ...*pb.Type) uint32 {
	slot := uint32(len(p.Sources))
	for _, s := range p.Steps {
		slot += s.Outs
	}
	p.Steps = append(p.Steps, &pb.Step{
		Op: "python", Version: 1, In: in, Outs: uint32(len(out)), Type: out[0], More: out[1:], Name: "out",
		At: fmt.Sprintf("transforms[%d]", len(p.Steps)), Python: &pb.Function{Name: name},
	})
	return slot
}
