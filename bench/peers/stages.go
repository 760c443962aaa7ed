package main

import (
	"strings"

	"github.com/google/pprof/profile"
)

// stage is what CPU time is taken for.
type stage string

// Stages in the order in which rows meet them.
const (
	storage    stage = "storage"    // reading files
	decompress stage = "decompress" // zstd and other codecs, and their checksums
	decode     stage = "decode"     // levels, dictionaries, nulls and lists, filters
	pictures   stage = "pictures"   // JPEG to pixels of the size asked for
	transform  stage = "transform"  // ops
	tensor     stage = "tensor"     // the dense matrix, ids and offsets as they are sent
	windows    stage = "windows"    // which rows come next, and memory for them
	send       stage = "send"       // batches to the socket, by the worker
	receive    stage = "receive"    // batches from the socket, by the trainer
	rebatch    stage = "rebatch"    // copies to the trainer's batches
	memory     stage = "memory"     // allocating and collecting; faults count where memory is touched
	scheduler  stage = "scheduler"  // Go's scheduler and monitor, and waking others
	control    stage = "control"    // gRPC, etcd, gossip, Syncs, and what else there is
)

const module = "github.com/penstock-ml/penstock/"

// rule gives a stage the time of functions whose name, or file, is so, and that of what they call and no rule knows.
type rule struct {
	stage
	name string // what it begins with
	file string // what it has, if not ""
}

// rules in the order in which they are asked. The wire's functions send, but in a trainer.
//
//nolint:gochecknoglobals // never changed
var rules = []rule{
	{decompress, module, "worker/formats/parquet/snappy"},
	{decompress, "github.com/klauspost/compress/", ""},
	{decompress, "github.com/pierrec/lz4/", ""},
	{decompress, "github.com/cespare/xxhash/", ""}, // zstd's checksum
	{decode, module + "worker/formats/", ""},
	{decode, module + "worker/filter.", ""},
	{decode, module + "worker/vector.", ""},
	{decode, "github.com/apache/arrow/go/v15/parquet", ""},
	{pictures, module + "worker/images", ""},
	{transform, module + "worker/transform.", ""},
	{transform, module + "worker/lookup.", ""},
	{transform, module + "worker/python.", ""},
	{tensor, module + "worker/tensor.", ""},
	{memory, module + "worker/garbage.", ""},
	{windows, module + "worker/pipeline.", ""},
	{storage, module + "internal/storage", ""},
	{send, module + "internal/wire.", ""},
	{send, module + "worker/serve.", ""},
	{rebatch, module + "client.", "client/rebatch"},
	{rebatch, module + "client.", "client/widen"},
	{rebatch, module + "client.", "client/pad"},
	{rebatch, module + "client.", "client/layout"},
	{rebatch, module + "client.", "client/pool"},
	{memory, "runtime.malloc", ""},
	{memory, "runtime.newobject", ""},
	{memory, "runtime.makeslice", ""},
	{memory, "runtime.growslice", ""},
	{memory, "runtime.gc", ""},
	{memory, "runtime.bg", ""},
	{memory, "runtime.(*mheap)", ""},
	{memory, "runtime.(*mcache)", ""},
	{memory, "runtime.(*mcentral)", ""},
	{memory, "runtime.(*scavenge", ""},
	{memory, "runtime.wbBuf", ""},
	{scheduler, "runtime.mcall", ""},
	{scheduler, "runtime.park", ""},
	{scheduler, "runtime.schedule", ""},
	{scheduler, "runtime.findRunnable", ""},
	{scheduler, "runtime.sysmon", ""},
	{scheduler, "runtime.mstart", ""},
	{scheduler, "runtime.futex", ""},
	{scheduler, "runtime.note", ""},
	{scheduler, "runtime.ready", ""},
	{scheduler, "runtime.goready", ""},
	{scheduler, "runtime.wakep", ""},
	{scheduler, "runtime.startm", ""},
	{scheduler, "runtime.usleep", ""},
	{scheduler, "runtime.netpoll", ""},
	{scheduler, "runtime.reentersyscall", ""},
	{scheduler, "runtime.entersyscall", ""},
	{scheduler, "runtime.exitsyscall", ""},
	{scheduler, "runtime.chan", ""},
	{scheduler, "runtime.selectgo", ""},
	{scheduler, "runtime.lock", ""},
	{scheduler, "runtime.unlock", ""},
	{scheduler, "runtime.sem", ""},
	{scheduler, "runtime.newproc", ""},
	{scheduler, "runtime.gopark", ""},
	{scheduler, "runtime.gosched", ""},
	{scheduler, "runtime.(*timer", ""},
}

// stageOf returns the stage of a stack's innermost function that a rule knows. What the runtime waits for while it
// allocates is memory's.
func stageOf(stack []profile.Line) stage {
	found := control
	for _, line := range stack {
		own := strings.HasPrefix(line.Function.Name, "runtime.")
		if found == scheduler && !own {
			break
		}
		for _, r := range rules {
			if !strings.HasPrefix(line.Function.Name, r.name) || !strings.Contains(line.Function.Filename, r.file) {
				continue
			}
			if found = r.stage; found != scheduler {
				return found
			}
			break
		}
	}
	return found
}

// divide returns which part of a profile's samples each stage has, and each function by itself.
func divide(p *profile.Profile) (parts map[stage]float64, functions map[string]float64, samples int64) {
	parts, functions = map[stage]float64{}, map[string]float64{}
	for _, s := range p.Sample {
		samples += s.Value[0]
	}
	for _, s := range p.Sample {
		var stack []profile.Line
		for _, l := range s.Location {
			stack = append(stack, l.Line...)
		}
		share := float64(s.Value[0]) / float64(samples)
		parts[stageOf(stack)] += share
		functions[function(stack)] += share
	}
	return parts, functions, samples
}

// function names a stack's innermost function, and the innermost one of ours, if that is another.
func function(stack []profile.Line) string {
	name := ""
	for _, line := range stack {
		ours := strings.HasPrefix(line.Function.Name, module)
		switch short := strings.TrimPrefix(line.Function.Name, module); {
		case name == "":
			name = short
		case ours:
			name += " for " + short
		}
		if ours {
			break
		}
	}
	return name
}
