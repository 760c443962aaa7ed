package python

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// Many chains call functions at once, of two keys, some of which fail, and leave in the middle: each call gets its own
// rows, and in the end all places are free.
func TestManyAtOnce(t *testing.T) {
	p, stop := running(t, func(*Config, *times) {})
	dir := t.TempDir()
	var chains sync.WaitGroup
	for i := range 6 {
		chains.Go(func() {
			draw := rand.New(rand.NewSource(int64(i)))
			namespace := fmt.Sprint("n", i%2)
			same := op{name: "same", from: namespace, in: []spec.Type{int64s}, out: []spec.Type{int64s}}
			f := same.open(t, p)
			defer f.Close()
			for call := range 40 {
				in := numbered(draw.Intn(2000) + 1)
				in.I64[0] = int64(1000*i + call)
				switch draw.Intn(8) {
				case 0:
					o := op{name: "bad", from: namespace, in: same.in, out: same.out}
					if err := o.open(t, p).Call(t.Context(), callOf(o.out, in)); err == nil {
						t.Error("a bad function does well")
					}
				case 1:
					ctx, leave := context.WithTimeout(t.Context(), time.Duration(draw.Intn(10))*time.Millisecond)
					o := op{name: "hang", from: namespace, in: []spec.Type{strings_}, out: same.out}
					err := o.open(t, p).Call(ctx, callOf(o.out, words(filepath.Join(dir, fmt.Sprint(i)))))
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					leave()
				default:
					c := callOf(same.out, in)
					if err := f.Call(t.Context(), c); err != nil || !slices.Equal(c.Out[0].I64, in.I64) {
						t.Errorf("call %d of chain %d: %v", call, i, err)
					}
				}
			}
		})
	}
	chains.Wait()
	stop()
	if p.places.free != p.cfg.Processes || len(p.places.queue) > 0 || len(p.processes) > 0 || len(p.idle) > 0 {
		t.Errorf("%d of %d places are free, %d wait, %d processes, %d idle", p.places.free, p.cfg.Processes,
			len(p.places.queue), len(p.processes), len(p.idle))
	}
}

// Who came first goes first, even if others need less; who leaves lets them pass.
func TestPlacesAreFair(t *testing.T) {
	p := &places{free: 3, memory: 2}
	var order []int
	var mu sync.Mutex
	var group sync.WaitGroup
	enter := func(ctx context.Context, who, n int) {
		before := len(p.queue)
		group.Go(func() {
			w := &waiter{ctx: ctx, tick: time.NewTicker(time.Hour)}
			defer w.tick.Stop()
			if turn, err := p.enter(w, n, 1); err == nil {
				mu.Lock()
				order = append(order, who)
				mu.Unlock()
				p.leave(turn)
			}
		})
		for { // until it stands in the queue
			p.mu.Lock()
			queued := len(p.queue) > before
			p.mu.Unlock()
			if queued {
				return
			}
		}
	}
	now := &waiter{ctx: t.Context(), tick: time.NewTicker(time.Hour)}
	defer now.tick.Stop()
	first, err := p.enter(now, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	enter(t.Context(), 1, 3)
	enter(ctx, 2, 3)
	enter(t.Context(), 3, 3)
	leave()
	for left := false; !left; { // until the second has left
		p.mu.Lock()
		left = len(p.queue) == 2
		p.mu.Unlock()
	}
	p.leave(first)
	group.Wait()
	if !slices.Equal(order, []int{1, 3}) || p.free != 3 || p.memory != 2 {
		t.Errorf("%v, and %d are free, %d bytes", order, p.free, p.memory)
	}
}

// What a pool cannot be made of.
func TestConfigsThatMakeNoSense(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no logger":          func(c *Config) { c.Logger = nil },
		"negative processes": func(c *Config) { c.Processes = -1 },
		"negative memory":    func(c *Config) { c.Memory = -1 },
		"no interpreter":     func(c *Config) { c.Environments = map[string]Environment{"a": {}} },
	} {
		cfg := config(ours.pool.cfg.Logger)
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: it is made", name)
		}
	}
}

// An interpreter that is not there, or has no penstock, is said; what a worker cannot start now, it may later on.
func TestInterpretersThatDoNot(t *testing.T) {
	for interpreter, c := range map[string]struct {
		err  error
		want string
	}{
		"/no/such/python": {ErrNoProcess, "no such file"},
		"/bin/false":      {ErrCannotRun, "its process ended by itself with exit status 1 while it loaded the code, twice"},
	} {
		p, _ := running(t, func(cfg *Config, _ *times) {
			cfg.Environments = map[string]Environment{Default: {Interpreter: interpreter}}
		})
		o := op{name: "same", in: []spec.Type{int64s}, out: []spec.Type{int64s}}
		err := o.open(t, p).Call(t.Context(), callOf(o.out, numbered(1)))
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", interpreter, err)
		}
	}
}

// A class is told which of its inputs are text, and what its results have to be.
func TestTextsAndShapes(t *testing.T) {
	in := words("a", "b")
	f, err := op{
		name: "texts", in: []spec.Type{strings_, strings_}, texts: []uint32{1},
		out: []spec.Type{{Kind: pb.Kind_INT32, List: true}}, shape: []int32{2, 1},
	}.try(ours.pool)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := callOf([]spec.Type{{Kind: pb.Kind_INT32, List: true}}, in, in)
	if err := f.Call(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := [2]string{show(c.Out[0], 0), show(c.Out[0], 1)}; got != [2]string{"2:0,1,", "2:2,3,"} {
		t.Error(got)
	}
}

// Who waits for memory for its results keeps nobody from calling functions, who may have that memory.
func TestNoPlaceIsHeldForMemory(t *testing.T) {
	p, _ := running(t, func(c *Config, _ *times) { c.Processes = 1 })
	o := op{name: "same", in: []spec.Type{int64s}, out: []spec.Type{int64s}}
	first, second := o.open(t, p), o.open(t, p)
	c := callOf(o.out, numbered(5))
	c.Room = func(int64) error { return second.Call(t.Context(), callOf(o.out, numbered(7))) }
	if err := first.Call(t.Context(), c); err != nil || !slices.Equal(c.Out[0].I64, []int64{0, 1, 2, 3, 4}) {
		t.Errorf("%v: %v", c.Out[0].I64, err)
	}
}
