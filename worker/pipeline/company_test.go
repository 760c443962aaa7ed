package pipeline

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// company is a file of some shape, and a program that makes so many rows of it.
type company struct {
	ticket  *pb.Ticket
	program *pb.Program
	rows    int
}

// TestStreamsInCompany: streams of all shapes that share some memory, which may grow while they run, all come to their
// end.
func TestStreamsInCompany(t *testing.T) {
	var store pipelinetest.Store
	var all []company
	for name, data := range map[string][]byte{
		"small row groups": pipelinetest.Texts(t, 1<<20, noise(600), slices.Repeat([]int{100}, 40)...),
		"long pages":       pipelinetest.Texts(t, 200<<10, noise(300), 8000, 8000, 100),
		"one that repeats": pipelinetest.Texts(t, 1<<20, func(int) string { return "x" }, 10, 20_000),
		"lists":            pipelinetest.Parquet(t, 3, 5000, 10, 4000),
		"many small lists": pipelinetest.Parquet(t, 4, slices.Repeat([]int{50}, 60)...),
	} {
		for _, filter := range []string{"", "label == 1"} {
			c := company{
				ticket:  pipelinetest.Ticket(t, &store, store.Put("mem://"+name, data), 700),
				program: pipelinetest.Program(),
			}
			c.ticket.ProgramDigest, c.program.Filter = []byte("filter "+filter), filter
			rows, _, err := collect(t.Context(), newPipeline(&store, 100_000), c.ticket, c.program, Cursor{})
			if err != nil {
				t.Fatal(err)
			}
			c.rows = len(rows)
			all = append(all, c)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		cfg := Config{
			Storage: &store, Ops: transform.Builtin(), BatchBytes: 100_000, MaxBatch: 8 << 20, OverRead: 10_000,
			Patience: time.Minute,
			Memory:   rapid.Int64Range(1<<20, 64<<20).Draw(rt, "memory"),
			Streams:  rapid.IntRange(1, 32).Draw(rt, "streams that are expected"),
		}
		cfg.MaxMemory = cfg.Memory * rapid.Int64Range(0, 8).Draw(rt, "times as much, if need be")
		runs := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, len(all)-1), 1, 3), 1, 8).Draw(rt,
			"who reads what, one after the other")
		synctest.Test(t, func(t *testing.T) {
			p := New(cfg)
			defer p.Close()
			var group sync.WaitGroup
			for trainer, files := range runs {
				group.Go(func() {
					pace := rand.New(rand.NewPCG(1, uint64(trainer)))
					for _, i := range files {
						for {
							n, err := all[i].read(t.Context(), p, pace)
							if errors.Is(err, ErrBusy) {
								time.Sleep(time.Second)
								continue
							}
							if enough := !errors.Is(err, ErrLimit); enough && (err != nil || n != all[i].rows) {
								t.Errorf("%s: %d of %d rows: %v", all[i].ticket.GetFile().GetUri(), n, all[i].rows, err)
							}
							break
						}
					}
				})
			}
			group.Wait() // synctest fails if all wait for ever
			if n := p.MemoryInUse(); n != 0 {
				t.Errorf("%d bytes are left in use", n)
			}
		})
	})
}

// read reads all of a file, now and then with a pause.
func (c company) read(ctx context.Context, p *Pipeline, pace *rand.Rand) (rows int, err error) {
	s, err := p.Open(ctx, c.ticket, c.program, Cursor{})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	err = s.Run(ctx, func(_ context.Context, b Batch) error {
		defer b.Release()
		rows += int(b.Meta.GetRows())
		if pace.IntN(4) == 0 {
			time.Sleep(time.Second)
		}
		return nil
	})
	return rows, err
}
