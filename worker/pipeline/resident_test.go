package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

const (
	residentMemory   = 128 << 20
	residentOverhead = 96 << 20 // as `penstock worker` has it, and the percentage too
	residentGarbage  = 400
	residentProcess  = "PENSTOCK_TEST_RESIDENT"
)

// A process of many streams stays within the memory, and what a worker has besides, as the operating system counts it:
// with rows of 100 KB in a row group that is larger than the memory.
func TestResidentMemory(t *testing.T) {
	if os.Getenv(residentProcess) != "" {
		readResident(t, residentFile(t))
		return
	}
	// The race detector, with which this one may have been built, has memory of its own.
	binary := filepath.Join(t.TempDir(), "plain.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-race=false", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the test: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^TestResidentMemory$", "-test.v")
	cmd.Env = append(os.Environ(), residentProcess+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "resident: ") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// residentFile writes a file, a text in four of which is new: the others are in the dictionary, or compressed away.
func residentFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "f.parquet")
	text, last := noise(100_000), ""
	data := pipelinetest.Texts(t, 1<<20, func(row int) string {
		if row%4 == 0 {
			last = text(row)
		}
		return last
	}, 2000, 100)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readResident(t *testing.T, path string) {
	debug.SetMemoryLimit(residentMemory + residentOverhead)
	debug.SetGCPercent(residentGarbage)
	store, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	files, err := store.List(t.Context(), "", []string{path})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var copied pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &copied, copied.Put("mem://f.parquet", data), 40)
	ticket.File, copied = files[0], pipelinetest.Store{}
	ticket.ProgramDigest = []byte("texts")
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins anew
		t.Skip(err)
	}
	p := New(Config{
		Storage: store, Ops: transform.Builtin(), Memory: residentMemory, Streams: 4, BatchBytes: 1 << 20,
		MaxBatch: 240 << 20,
		OverRead: 256 << 10, Patience: 100 * time.Millisecond,
	})
	var group errgroup.Group
	for range 6 {
		group.Go(func() error {
			at := Cursor{}
			for {
				s, err := p.Open(t.Context(), ticket, pipelinetest.Program(), at)
				if err == nil {
					err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
						defer b.Release()
						at = Cursor{Window: b.Meta.GetWindow(), K: b.Meta.GetK() + uint64(b.Meta.GetRows())}
						return nil
					})
					s.Close()
				}
				if !errors.Is(err, ErrBusy) { // else as a trainer that comes again
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(peak, &kib); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("resident: %d MiB, of %d MiB and %d MiB\n", kib>>10, residentMemory>>20, residentOverhead>>20)
	// The runtime's limit is a soft one: on a busy machine the collector lags behind it.
	if kib<<10 > (residentMemory+residentOverhead)*5/4 || p.MemoryInUse() != 0 {
		t.Errorf("%d MiB were resident; %d bytes are left in use", kib>>10, p.MemoryInUse())
	}
}
