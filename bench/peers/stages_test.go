package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

func TestStageOf(t *testing.T) {
	stack := func(names ...string) (lines []profile.Line) {
		for _, n := range names { // the innermost first
			name, file, _ := strings.Cut(n, " ")
			lines = append(lines, profile.Line{Function: &profile.Function{Name: name, Filename: file}})
		}
		return lines
	}
	const columns, pipeline = module + "worker/formats/parquet.", module + "worker/pipeline."
	for want, stacks := range map[stage][][]profile.Line{
		decode: {stack(columns+"spread", pipeline+"(*Stream).Next"), stack("runtime.memmove", columns+"spread")},
		decompress: {
			stack(columns+"snappyDecode /src/worker/formats/parquet/snappy.go", columns+"open"),
			stack("github.com/klauspost/compress/zstd.(*Decoder).DecodeAll", columns+"open"),
		},
		storage: {stack("syscall.Syscall6", "os.(*File).ReadAt", module+"internal/storage.(*local).ReadAt",
			pipeline+"fetch")},
		memory: {
			stack("runtime.memclrNoHeapPointers", "runtime.mallocgcLarge", "runtime.makeslice",
				columns+"grow"), stack("runtime.lock2", "runtime.mallocgc", columns+"grow"),
			stack("runtime.gcDrain", "runtime.gcBgMarkWorker", "runtime.goexit"),
		},
		scheduler: {
			stack("runtime.futex", "runtime.findRunnable", "runtime.schedule", "runtime.mcall"),
			stack("runtime.futex", "runtime.ready", module+"internal/wire.(*Link).send"),
		},
		send:    {stack("syscall.Syscall", "net.(*conn).Write", module+"internal/wire.(*Link).send")},
		rebatch: {stack("runtime.memmove", module+"client.(*builder).copy /src/client/rebatch.go")},
		control: {
			stack(module + "client.(*Session).sync /src/client/control.go"),
			stack("go.etcd.io/bbolt.(*Tx).Commit"), stack("main.main"), nil,
		},
	} {
		for _, s := range stacks {
			if got := stageOf(s); got != want {
				t.Errorf("%v: found %s, want %s", s, got, want)
			}
		}
	}
}

// Rules name packages that there are.
func TestRules(t *testing.T) {
	for _, r := range rules {
		name, ours := strings.CutPrefix(r.name, module)
		if !ours {
			continue
		}
		name, _, _ = strings.Cut(name, ".")
		if _, err := os.Stat(filepath.Join("../..", name)); err != nil {
			t.Errorf("stage %s: %v", r.stage, err)
		}
		if found, err := filepath.Glob(filepath.Join("../..", r.file+"*")); r.file != "" && len(found) == 0 {
			t.Errorf("stage %s: no file %s: %v", r.stage, r.file, err)
		}
	}
}

func TestFunction(t *testing.T) {
	line := func(name string) profile.Line { return profile.Line{Function: &profile.Function{Name: name}} }
	ours, outer := line(module+"client.copy"), line(module+"client.next")
	for want, stack := range map[string][]profile.Line{
		"client.copy": {ours, outer}, "runtime.memmove for client.copy": {
			line("runtime.memmove"), line("io.Copy"),
			ours, outer,
		},
		"runtime.scan": {line("runtime.scan"), line("runtime.goexit")}, "": nil,
	} {
		if got := function(stack); got != want {
			t.Errorf("%v: found %q, want %q", stack, got, want)
		}
	}
}

// All time is some stage's, and each process's counts as much as the OS says.
func TestAdd(t *testing.T) {
	sample := func(name string, n int64) *profile.Sample {
		return &profile.Sample{
			Value:    []int64{n, 0},
			Location: []*profile.Location{{Line: []profile.Line{{Function: &profile.Function{Name: name}}}}},
		}
	}
	r := newShares()
	r.add("worker-1", 6,
		&profile.Profile{Sample: []*profile.Sample{
			sample(module+"worker/formats/parquet.a", 2),
			sample(module+"internal/wire.b", 1),
		}})
	r.add(trainerName, 3, &profile.Profile{Sample: []*profile.Sample{sample(module+"internal/wire.c", 7)}})
	r.add("master-1", 1, &profile.Profile{})
	for s, want := range map[stage]float64{decode: 4, send: 2, receive: 3, control: 1} {
		if got := r.Stages[s]; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: found %g seconds, want %g", s, got, want)
		}
	}
	r.rank()
	if got, want := r.Hottest, []hot{
		{"worker/formats/parquet.a", 0.4},
		{"internal/wire.c", 0.3},
		{"internal/wire.b", 0.2},
	}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}
