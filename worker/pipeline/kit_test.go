package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// run takes a stream to its end.
func run(t *testing.T, p *Pipeline, ticket *pb.Ticket, program *pb.Program) error {
	t.Helper()
	s, err := p.Open(t.Context(), ticket, program, Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Run(t.Context(), func(_ context.Context, b Batch) error { b.Release(); return nil })
}

// Streams that go on with what others of their program left send the rows that those send that begin with nothing, whatever the files
// are like.
func TestKitsChangeNothing(t *testing.T) {
	var store pipelinetest.Store
	program := pipelinetest.Program()
	program.Filter, program.Shuffle = "label = 1", true
	var tickets []*pb.Ticket
	for i, data := range [][]byte{
		pipelinetest.Parquet(t, 1, 900, 1000, 950), pipelinetest.Parquet(t, 2, 1000), pipelinetest.Texts(t, 1<<20, noise(50), 700),
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
			got, lasts, err := collect(t.Context(), p, ticket, program, at)
			if err != nil {
				t.Fatal(err)
			}
			want, wantLasts, err := collect(t.Context(), newPipeline(&store, 10_000), ticket, program, at)
			if err != nil {
				t.Fatal(err)
			}
			if sent += len(want); !slices.Equal(got, want) || !slices.Equal(lasts, wantLasts) {
				t.Errorf("stream %d from %v: %d rows, which are not the %d of a stream of its own", i, at, len(got), len(want))
			}
			if len(p.memory.kits.of) != 1 || before != nil && p.memory.kits.of[0].chain != before.chain {
				t.Fatalf("stream %d from %v: %d kits, or another one than before", i, at, len(p.memory.kits.of))
			}
			before = p.memory.kits.of[0]
		}
	}
	if sent < 1000 {
		t.Errorf("%d rows are sent", sent)
	}
	other := tickets[0]
	other.ProgramDigest = []byte("another")
	if err := run(t, p, other, program); err != nil || len(p.memory.kits.of) != 2 {
		t.Errorf("%v; %d kits after a stream of another program", err, len(p.memory.kits.of))
	}
}

// A stream that works with a kit takes no fresh memory to speak of, though row groups differ a little.
func TestKitsAreWorkedWith(t *testing.T) {
	var store pipelinetest.Store
	p := newPipeline(&store, 100_000)
	var buffer []byte
	for i, rows := range []int{20_000, 20_100, 19_900, 20_050} {
		ticket := pipelinetest.Ticket(t, &store, store.Put("mem://"+string(rune('a'+i)), pipelinetest.Texts(t, 1<<20, noise(100), rows)), 2000)
		ticket.ProgramDigest = []byte("digest")
		if err := run(t, p, ticket, pipelinetest.Program()); err != nil {
			t.Fatal(err)
		}
		buffers := p.memory.kits.of[0].buffers
		if len(buffers) != 1 || buffer != nil && &buffers[0][0] != &buffer[0] {
			t.Fatalf("file %d: %d buffers of column chunks, or another one than before", i, len(buffers))
		}
		buffer = buffers[0]
	}
}

// Kits are there only while nobody needs the memory, and not for ever; streams that failed leave none.
func TestKitsGiveWay(t *testing.T) {
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f", pipelinetest.Parquet(t, 1, 2000)), 300)
	ticket.ProgramDigest = []byte("digest")
	p := newPipeline(&store, 10_000)
	kept := func() int {
		t.Helper()
		if err := run(t, p, ticket, pipelinetest.Program()); err != nil {
			t.Fatal(err)
		}
		return len(p.memory.kits.of)
	}
	if n := kept(); n != 1 || p.memory.kits.bytes <= 0 || p.MemoryInUse() != 0 {
		t.Fatalf("%d kits of %d bytes, %d bytes in use", n, p.memory.kits.bytes, p.MemoryInUse())
	}
	a := p.memory.open()
	mustGrow(t, a, p.cfg.Memory-p.memory.kits.bytes-p.footers.Size())
	if len(p.memory.kits.of) != 1 {
		t.Error("a kit is dropped for which there is room")
	}
	mustGrow(t, a, 1)
	if len(p.memory.kits.of) != 0 || p.memory.kits.bytes != 0 {
		t.Error("a kit is kept for which there is no room")
	}
	a.close()
	kept()
	p.memory.expire(time.Now().Add(-time.Hour))
	if len(p.memory.kits.of) != 1 {
		t.Error("a kit is dropped too early")
	}
	p.memory.expire(time.Now())
	if len(p.memory.kits.of) != 0 {
		t.Error("a kit is kept for ever")
	}
	store.Hook = func(context.Context, *pb.File, int64, int64) error { return errors.New("broken disk") }
	if err := run(t, p, ticket, pipelinetest.Program()); err == nil || !strings.Contains(err.Error(), "broken disk") || len(p.memory.kits.of) != 0 {
		t.Errorf("%v; %d kits", err, len(p.memory.kits.of))
	}
}
