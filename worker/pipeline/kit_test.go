package pipeline

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// run takes a stream to its end.
func run(t *testing.T, p *Pipeline, ticket *pb.Ticket, program *pb.Program) error {
	t.Helper()
	_, err := read(t.Context(), p, ticket, program)
	return err
}

// withMemory has a pipeline without streams share so many bytes, and keep no kits.
func withMemory(p *Pipeline, limit, max int64) *Pipeline {
	p.memory = memory.New(memory.Config{Limit: limit, Max: max, Cache: p.files})
	return p
}

// growMemory has a pipeline's memory become what it may become.
func growMemory(t *testing.T, p *Pipeline) {
	t.Helper()
	a := p.memory.Open()
	defer a.Close(nil)
	mustGrow(t, a, p.MemoryLimit()+1)
}

func mustGrow(t *testing.T, a *memory.Account, n int64) {
	t.Helper()
	if err := a.Grow(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// kept is how many kits a pipeline keeps, and of how many bytes.
func kept(p *Pipeline) (n int, bytes int64) {
	p.memory.Pool(func(pool *memory.Pool) { n, bytes = pool.Len(), pool.Size() })
	return n, bytes
}

// latest is the latest kit of a ticket's program.
func latest(p *Pipeline, ticket *pb.Ticket) (k *kit) {
	p.memory.Pool(func(pool *memory.Pool) {
		k = pool.Take(kitKey(ticket, "Parquet")).(*kit)
		pool.Put(k)
	})
	return k
}

// keep adds to the kits of a pipeline.
func keep(p *Pipeline, k *kit) { p.memory.Pool(func(pool *memory.Pool) { pool.Put(k) }) }

// expire has a pipeline give up the kits that are older than so long.
func expire(p *Pipeline, age time.Duration) {
	p.memory.Pool(func(pool *memory.Pool) { pool.Expire(time.Now().Add(-age)) })
}

// Streams that go on with what others of their program left send the rows that those send that begin with nothing,
// whatever the files are like.
func TestKitsChangeNothing(t *testing.T) {
	var store pipelinetest.Store
	program := pipelinetest.Program()
	program.Filter, program.Shuffle = "label = 1", true
	var tickets []*pb.Ticket
	for i, data := range [][]byte{
		pipelinetest.Parquet(t, 1, 900, 1000, 950), pipelinetest.Parquet(t, 2, 1000), pipelinetest.Texts(t, 1<<20,
			noise(50), 700),
		pipelinetest.Parquet(t, 3, 200, 2000),
	} {
		ticket := pipelinetest.Ticket(t, &store, store.Put("mem://"+string(rune('a'+i)), data), 300)
		ticket.ProgramDigest = []byte("digest")
		tickets = append(tickets, ticket)
	}
	p := newPipeline(&store, 10_000)
	var before *kit
	sent := 0
	for i, ticket := range slices.Concat(tickets, tickets) {
		for _, at := range []Cursor{{}, {Window: 1, K: 17}} {
			if i%4 == 2 { // one row of it passes
				at.K = 0
			}
			got, lasts, err := collect(t.Context(), p, ticket, program, at)
			if err != nil {
				t.Fatal(err)
			}
			want, wantLasts, err := collect(t.Context(), newPipeline(&store, 10_000), ticket, program, at)
			if err != nil {
				t.Fatal(err)
			}
			if sent += len(want); !slices.Equal(got, want) || !slices.Equal(lasts, wantLasts) {
				t.Errorf("stream %d from %v: %d rows, which are not the %d of a stream of its own",
					i, at, len(got), len(want))
			}
			if n, _ := kept(p); n != 1 || before != nil && latest(p, ticket).chain != before.chain {
				t.Fatalf("stream %d from %v: %d kits, or another one than before", i, at, n)
			}
			before = latest(p, ticket)
		}
	}
	if sent < 1000 {
		t.Errorf("%d rows are sent", sent)
	}
	other := tickets[0]
	other.ProgramDigest = []byte("another")
	err := run(t, p, other, program)
	if n, _ := kept(p); err != nil || n != 2 {
		t.Errorf("%v; %d kits after a stream of another program", err, n)
	}
}

// countingCompiles is a program and its ops, of which one counts how often it is compiled.
func countingCompiles(t *testing.T) (_ *transform.Registry, _ *pb.Program, compiled *int) {
	t.Helper()
	compiled = new(int)
	ops, err := transform.Builtin().With(transform.Op{
		Name: "same", Version: 1,
		Infer: func(_ transform.Params, in []spec.Type) (spec.Type, error) { return in[0], nil },
		New: func(transform.Params, []spec.Type) (transform.Kernel, error) {
			*compiled++
			return transform.Elementwise(func(dst, src []int32) { copy(dst, src) }), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	program := pipelinetest.Program()
	program.Steps = []*pb.Step{{
		At: "transforms[0]", Op: "same", Version: 1, Name: "same", In: []uint32{pipelinetest.Label}, Outs: 1,
		Type: &pb.Type{Kind: pb.Kind_INT32},
	}}
	return ops, program, compiled
}

// A stream that works with a kit compiles nothing, and takes no fresh memory to speak of, though row groups differ a
// little.
func TestKitsAreWorkedWith(t *testing.T) {
	ops, program, compiled := countingCompiles(t)
	var store pipelinetest.Store
	p := newPipeline(&store, 100_000)
	p.cfg.Ops = ops
	var buffer []byte
	for i, rows := range []int{20_000, 20_100, 19_900, 20_050} {
		ticket := pipelinetest.Ticket(t, &store,
			store.Put("mem://"+string(rune('a'+i)), pipelinetest.Texts(t, 1<<20, noise(100), rows)), 2000)
		ticket.ProgramDigest = []byte("digest")
		if err := run(t, p, ticket, program); err != nil {
			t.Fatal(err)
		}
		if *compiled != 1 {
			t.Fatalf("file %d: the program was compiled %d times", i, *compiled)
		}
		buffers := latest(p, ticket).buffers
		if len(buffers) != 1 || buffer != nil && &buffers[0][0] != &buffer[0] {
			t.Fatalf("file %d: %d buffers of column chunks, or another one than before", i, len(buffers))
		}
		buffer = buffers[0]
	}
}

// A stream that waits for the memory of another one of its program compiles nothing, and works with what that one
// leaves.
func TestKitsAreWaitedFor(t *testing.T) {
	ops, program, compiled := countingCompiles(t)
	var store pipelinetest.Store
	p := newPipeline(&store, 10_000)
	p.cfg.Ops = ops
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f", pipelinetest.Parquet(t, 1, 2000)), 300)
	ticket.ProgramDigest = []byte("digest")
	first, err := p.Open(t.Context(), ticket, program, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	a := p.memory.Open()
	defer a.Close(nil)
	mustGrow(t, a, p.cfg.Memory-p.MemoryInUse()-2*p.files.Size())
	ran := make(chan error)
	go func() { ran <- run(t, p, ticket, program) }()
	for !p.memory.Pressed() {
		select {
		case err := <-ran:
			t.Fatalf("the second stream did not wait: %v", err)
		default:
			runtime.Gosched()
		}
	}
	runtime.GC() // what streams have stays
	if err := first.Run(t.Context(), func(_ context.Context, b Batch) error { b.Release(); return nil }); err != nil {
		t.Fatal(err)
	}
	first.Close()
	if err := <-ran; err != nil || *compiled != 1 {
		t.Errorf("%v; the program was compiled %d times", err, *compiled)
	}
}

// A kit holds what the streams held that had it, however many they were, and however little was expected of them.
func TestKitsDoNotSwell(t *testing.T) {
	var store pipelinetest.Store
	p := newPipeline(&store, 10_000)
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f", pipelinetest.Parquet(t, 1, 8)), 8)
	ticket.ProgramDigest = []byte("digest")
	program := pipelinetest.Program()
	step(program, "fill_null", map[string]*pb.Value{"value": num(0)}, pipelinetest.Label)
	var first int64
	for i := range 40 {
		if err := run(t, p, ticket, program); err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
		if i == 0 {
			_, first = kept(p)
		}
	}
	if _, now := kept(p); first == 0 || now > first {
		t.Errorf("the kit has %d bytes in place of %d", now, first)
	}
}

// onlyKit is a pipeline that has one kit, that one's size, and how to run the stream that left it and to count kits.
func onlyKit(t *testing.T, store *pipelinetest.Store) (p *Pipeline, bytes int64, again func() error, kits func() int) {
	t.Helper()
	ticket := pipelinetest.Ticket(t, store, store.Put("mem://f", pipelinetest.Parquet(t, 1, 2000)), 300)
	ticket.ProgramDigest = []byte("digest")
	p = newPipeline(store, 10_000)
	again = func() error { return run(t, p, ticket, pipelinetest.Program()) }
	kits = func() int {
		n, _ := kept(p)
		return n
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
	_, bytes = kept(p)
	if kits() != 1 || bytes <= 0 || p.MemoryInUse() != 0 {
		t.Fatalf("%d kits of %d bytes, %d bytes in use", kits(), bytes, p.MemoryInUse())
	}
	return p, bytes, again, kits
}

// Kits are there only while nobody needs the memory, and not for ever; streams that failed leave none.
func TestKitsGiveWay(t *testing.T) {
	var store pipelinetest.Store
	p, bytes, again, kits := onlyKit(t, &store)
	a := p.memory.Open()
	mustGrow(t, a, p.cfg.Memory-bytes-p.files.Size())
	if kits() != 1 {
		t.Error("a kit is dropped for which there is room")
	}
	mustGrow(t, a, 1)
	if n, bytes := kept(p); n != 0 || bytes != 0 {
		t.Error("a kit is kept for which there is no room")
	}
	a.Close(nil)
	if err := again(); err != nil {
		t.Fatal(err)
	}
	expire(p, time.Hour)
	if kits() != 1 {
		t.Error("a kit is dropped too early")
	}
	expire(p, 0)
	if kits() != 0 {
		t.Error("a kit is kept for ever")
	}
	store.Hook = func(context.Context, *pb.File, int64, int64) error { return errors.New("broken disk") }
	err := again()
	if err == nil || !strings.Contains(err.Error(), "broken disk") || kits() != 0 {
		t.Errorf("%v; %d kits", err, kits())
	}
}

// A kit that a stream waits to work with gives way, too.
func TestKitsThatAreWaitedForGiveWay(t *testing.T) {
	var store pipelinetest.Store
	p, bytes, again, kits := onlyKit(t, &store)
	a := p.memory.Open()
	mustGrow(t, a, p.cfg.Memory-bytes-2*p.files.Size()) // a footer is kept, and the stream holds it, too
	ran := make(chan error)
	go func() { ran <- again() }()
	for !p.memory.Pressed() {
		select {
		case err := <-ran:
			t.Fatalf("the stream did not wait: %v", err)
		default:
			runtime.Gosched()
		}
	}
	if kits() != 1 {
		t.Error("a kit is dropped though there is room for it")
	}
	mustGrow(t, a, 1) // while the stream waits that has seen the kit
	if kits() != 0 {
		t.Error("a kit is kept that a stream waits to work with, though there is no room for it")
	}
	a.Close(nil)
	if err := <-ran; err != nil || kits() != 1 {
		t.Errorf("a stream whose kit has gone: %v; %d kits", err, kits())
	}
}
