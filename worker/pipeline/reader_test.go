package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
)

// pieced is a pipeline of little memory for many streams.
func pieced(store *pipelinetest.Store, memory int64, streams int) *Pipeline {
	return New(Config{
		Storage: store, Ops: transform.Builtin(), Memory: memory, Streams: streams, BatchBytes: 10_000,
		MaxBatch: 1 << 20,
		OverRead: 100, Patience: time.Minute,
	})
}

// noise is a text that does not compress.
func noise(length int) func(row int) string {
	r := rand.New(rand.NewPCG(1, 2))
	return func(int) string {
		b := make([]byte, length)
		for i := range b {
			b[i] = byte('a' + r.IntN(26))
		}
		return string(b)
	}
}

// What is read at once fits into what the stream has for it, also where its share has grown since it was opened, or row
// groups that are larger than what it reads as a whole are small all the same.
func TestSmallRowGroupsAreReadTogetherAsFarAsThereIsRoom(t *testing.T) {
	var store pipelinetest.Store
	groups := slices.Repeat([]int{100}, 30)
	ticket := pipelinetest.Ticket(t, &store,
		store.Put("mem://f.parquet", pipelinetest.Texts(t, 200<<10, noise(600), groups...)), 100)
	for name, change := range map[string]func(*Pipeline, *Stream){
		"the share grows":       func(p *Pipeline, _ *Stream) { growMemory(t, p) },
		"they are in pieces":    func(_ *Pipeline, s *Stream) { s.reader.limit = 1 },
		"nothing of it happens": func(*Pipeline, *Stream) {},
	} {
		t.Run(name, func(t *testing.T) {
			p := withMemory(pieced(&store, 24<<20, 16), 24<<20, 1<<30)
			s, err := p.Open(t.Context(), ticket, pipelinetest.Program(), Cursor{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			base := s.quota.buffers.Base()
			s.quota.buffers = memory.NewBuffers(s.quota.Account, base, base) // nothing is read ahead
			change(p, s)
			if u := s.reader.unit(1, len(groups), s.reader.limit); u.size > base {
				t.Errorf("%d row groups of %d bytes are read at once, with room for %d", len(u.groups), u.size, base)
			} else if len(u.groups) < 2 {
				t.Errorf("a row group of %d bytes is read alone, with room for %d", u.size, base)
			}
			rows := 0
			err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
				rows += int(b.Meta.GetRows())
				b.Release()
				return nil
			})
			if err != nil || rows != 100*len(groups) {
				t.Errorf("%d of %d rows: %v", rows, 100*len(groups), err)
			}
		})
	}
}

// Row groups that are larger than the memory give the same rows as in memory, wherever a stream begins, with pages
// shorter and longer than what is read at once.
func TestRowGroupsInPieces(t *testing.T) {
	for name, data := range map[string][]byte{
		"many columns, short pages": pipelinetest.Parquet(t, 3, 20_000, 10, 15_000),
		"long pages":                pipelinetest.Texts(t, 200<<10, noise(300), 10, 8000, 100),
	} {
		t.Run(name, func(t *testing.T) {
			var store pipelinetest.Store
			ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", data), 700)
			program := pipelinetest.Program()
			want, wantLasts, err := collect(t.Context(), newPipeline(&store, 10_000), ticket, program, Cursor{})
			if err != nil {
				t.Fatal(err)
			}
			p := pieced(&store, 8<<20, 16)
			inPieces := func(s *Stream) bool {
				r := s.reader
				return slices.ContainsFunc([]int{0, 1},
					func(i int) bool { return r.unit(i, 1, r.limit).pieces.size > 0 })
			}
			if s := mustOpen(t, p, ticket); !inPieces(s) {
				t.Fatalf("row groups of a file of %d bytes are read whole", len(data))
			}
			for _, at := range []Cursor{{}, {Window: 3, K: 17}, {Window: 11}} {
				rows, lasts, err := collect(t.Context(), p, ticket, program, at)
				if err != nil {
					t.Fatal(err)
				}
				isBefore := func(r row) bool { return r.window < at.Window || r.window == at.Window && r.k < at.K }
				if want := slices.DeleteFunc(slices.Clone(want), isBefore); !slices.Equal(rows, want) {
					t.Errorf("from %v: %d rows, which are not the %d of the row group in memory",
						at, len(rows), len(want))
				}
				if want := wantLasts[at.Window:]; !slices.Equal(lasts, want) {
					t.Errorf("from %v: windows end at %v, want %v", at, lasts, want)
				}
				if used := p.MemoryInUse(); used != 0 {
					t.Errorf("%d bytes are left in use", used)
				}
			}
		})
	}
}

// A piece that cannot be read fails where its rows are.
func TestPieceThatCannotBeRead(t *testing.T) {
	var store pipelinetest.Store
	data := pipelinetest.Texts(t, 4<<10, noise(300), 10, 8000)
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", data), 700)
	p := pieced(&store, 8<<20, 16)
	mustOpen(t, p, ticket)
	store.Hook = func(_ context.Context, _ *pb.File, offset, length int64) error {
		if offset+length > int64(len(data))/2 && offset < int64(len(data))*2/3 {
			return fmt.Errorf("broken disk")
		}
		return nil
	}
	rows, _, err := collect(t.Context(), p, ticket, pipelinetest.Program(), Cursor{})
	if err == nil || !strings.Contains(err.Error(), "row group 1 column text: page at byte ") ||
		!strings.Contains(err.Error(), "broken disk") ||
		len(rows) < 10 || len(rows) > 6000 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

// A slow storage is hidden as far as there is memory: row groups are asked for while others are under way, and small
// ones together.
func TestReadAheadByMemory(t *testing.T) {
	const latency = 100 * time.Millisecond
	data := pipelinetest.Texts(t, 1<<20, noise(100), slices.Repeat([]int{2000}, 20)...) // row groups of 220 KB
	for _, c := range []struct {
		memory           int64
		requests, flying int64 // in all, and at most at once
		atLeast, atMost  time.Duration
	}{
		{1850 << 10, 21, 3, 8 * latency, 21 * latency},
		{2600 << 10, 21, 7, 4 * latency, 5 * latency},
		// the footer; the first row group, and all others in three requests
		{256 << 20, 5, 4, 2 * latency, 2 * latency},
	} {
		synctest.Test(t, func(t *testing.T) {
			var store pipelinetest.Store
			ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", data), 2000)
			p := pieced(&store, c.memory, 1)
			var flying, most, used atomic.Int64
			store.Hook = func(context.Context, *pb.File, int64, int64) error {
				raise(&most, flying.Add(1))
				raise(&used, p.MemoryInUse())
				time.Sleep(latency)
				flying.Add(-1)
				return nil
			}
			began := time.Now()
			rows, _, err := collect(t.Context(), p, ticket, pipelinetest.Program(), Cursor{})
			took, requests := time.Since(began), p.Counters().GetRequests()
			if err != nil || len(rows) != 40_000 || used.Load() > c.memory {
				t.Errorf("%d bytes of memory: %d rows, up to %d bytes in use, %v", c.memory, len(rows), used.Load(),
					err)
			}
			if requests != c.requests || most.Load() != c.flying || took < c.atLeast || took > c.atMost {
				t.Errorf("%d bytes of memory: %d requests, up to %d at once, took %v; want %d, %d, %v to %v",
					c.memory, requests, most.Load(), took, c.requests, c.flying, c.atLeast, c.atMost)
			}
		})
	}
}

func raise(most *atomic.Int64, n int64) {
	for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
	}
}

// The memory that a row group's long pages took serves the next one's: the decoder refers to it until then.
func TestLongPagesHaveTheSameMemory(t *testing.T) {
	var store pipelinetest.Store
	data := pipelinetest.Texts(t, 1<<20, noise(300), 3000, 3000, 3000)
	p := pieced(&store, 8<<20, 16)
	s, err := p.Open(t.Context(), pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", data), 500),
		pipelinetest.Program(), Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	group, ctx := errgroup.WithContext(t.Context())
	var fronts []*byte
	extents := func(yield func(*extent, error) bool) {
		for g, err := range s.reader.extents(ctx, s.reader.start(ctx, group)) {
			for _, own := range s.reader.fronts {
				if cap(own) > 0 {
					fronts = append(fronts, unsafe.SliceData(own))
				}
			}
			if !yield(g, err) {
				return
			}
		}
	}
	err = s.computer.eachWindow(ctx, extents, func(*tensor.Window) error { return nil })
	if err := errors.Join(err, group.Wait()); err != nil {
		t.Fatal(err)
	}
	if len(fronts) != 2 || fronts[0] != fronts[1] {
		t.Errorf("the first two row groups left the memory %v", fronts)
	}
}
