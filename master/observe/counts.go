package observe

import (
	"maps"

	"github.com/penstock-ml/penstock/api/pb"
)

// counts are a worker's counters, or those of one session on it, or how much they grew.
type counts struct {
	rows, requests, bytesRead, bytesNeeded, bytesSent, crossZone int64
	lent, linked                                                 int64 // of bytesSent, by way
	storage, decode, transform, tensor, send, open, blocked, cpu int64 // nanoseconds
	ops                                                          map[string]int64
}

func countsOf(c *pb.WorkerCounters) counts {
	out := counts{
		rows: c.GetRows(), requests: c.GetRequests(), bytesRead: c.GetBytesRead(), bytesNeeded: c.GetBytesNeeded(),
		bytesSent: c.GetBytesSent(), crossZone: c.GetBytesCrossZone(), lent: c.GetBytesLent(),
		linked:  c.GetBytesLinked(),
		storage: c.GetStorageNs(), decode: c.GetDecodeNs(), transform: c.GetTransformNs(), tensor: c.GetTensorNs(),
		send: c.GetSendNs(), open: c.GetOpenNs(), blocked: c.GetBlockedNs(), cpu: c.GetCpuNs(),
	}
	if len(c.GetOps()) > 0 {
		out.ops = make(map[string]int64, len(c.GetOps()))
		for _, op := range c.GetOps() {
			out.ops[op.GetOp()] += op.GetNs()
		}
	}
	return out
}

func (c counts) minus(b counts) counts {
	out := counts{
		rows: c.rows - b.rows, requests: c.requests - b.requests, bytesRead: c.bytesRead - b.bytesRead,
		bytesNeeded: c.bytesNeeded - b.bytesNeeded,
		bytesSent:   c.bytesSent - b.bytesSent, crossZone: c.crossZone - b.crossZone, storage: c.storage - b.storage,
		decode:    c.decode - b.decode,
		transform: c.transform - b.transform, tensor: c.tensor - b.tensor, send: c.send - b.send, open: c.open - b.open,
		blocked: c.blocked - b.blocked, cpu: c.cpu - b.cpu, lent: c.lent - b.lent, linked: c.linked - b.linked,
	}
	if len(c.ops) > 0 || len(b.ops) > 0 {
		out.ops = make(map[string]int64, max(len(c.ops), len(b.ops)))
		maps.Copy(out.ops, c.ops)
		for op, ns := range b.ops {
			out.ops[op] -= ns
		}
	}
	return out
}

// fell reports whether something is below zero.
func (c counts) fell() bool {
	return min(c.rows, c.requests, c.bytesRead, c.bytesNeeded, c.bytesSent, c.crossZone, c.storage, c.decode,
		c.transform, c.tensor,
		c.send, c.open, c.blocked, c.cpu, c.lent, c.linked) < 0
}

// active is the time in which streams were open and their trainers would have taken more.
func (c counts) active() float64 { return max(0, float64(c.open-c.blocked)) / 1e9 }

// stages is the time by stage, in seconds.
func (c counts) stages(into map[string]float64, scale float64) {
	add := func(name string, ns int64) {
		if ns > 0 {
			into[name] += float64(ns) / 1e9 * scale
		}
	}
	rest := c.transform
	for op, ns := range c.ops {
		add(op, ns)
		rest -= ns
	}
	add("storage", c.storage)
	add("decode", c.decode)
	add("transform", rest)
	add("tensor", c.tensor)
	add("send", c.send-c.blocked)
}
