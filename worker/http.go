package worker

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/telemetry"
)

// newHTTP is the HTTP port, nil if there is none.
func (w *Worker) newHTTP() (*telemetry.Server, error) {
	if w.cfg.HTTP == nil {
		return nil, nil
	}
	metrics := []prometheus.Collector{w.metrics()}
	if w.reads != nil {
		metrics = append(metrics, w.reads.Metrics())
	}
	cfg := telemetry.Config{
		Listener: w.cfg.HTTP, Logger: w.cfg.Logger, Ready: w.ready,
		Metrics: telemetry.NewRegistry(w.cfg.Version, metrics...),
	}
	if !w.cfg.RPC.Token.IsZero() {
		cfg.Web.Authenticator, cfg.Web.Seal = identity.Fleet{Token: w.cfg.RPC.Token}, identity.NewSeal()
	}
	var err error
	if cfg.TLS, err = rpc.HTTPTLS(w.cfg.RPC); err != nil {
		return nil, err
	}
	return telemetry.New(cfg)
}

// ready says why trainers get nothing from this worker.
func (w *Worker) ready() error {
	reply, err := w.health.Check(context.Background(), &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if reply.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return errors.New("no master is known yet, or the worker drains")
	}
	return nil
}

// workerMetrics are what a worker tells Prometheus. Their number depends on the ops in its sessions alone.
type workerMetrics struct {
	streams, slots, memory, memoryLimit, ready                                        telemetry.Metric
	rows, sent, ways, crossZone, read, needed, requests, stages, ops, opened, blocked telemetry.Metric
	untrusted, badRows                                                                telemetry.Metric
}

// metrics collects what the worker reports to the masters.
func (w *Worker) metrics() prometheus.Collector {
	const name = "worker_"
	m := workerMetrics{
		streams:     telemetry.Gauge(name+"streams", "Streams that are open."),
		slots:       telemetry.Gauge(name+"stream_slots", "Streams that can be served at once."),
		memory:      telemetry.Gauge(name+"memory_bytes", "Bytes that streams hold."),
		memoryLimit: telemetry.Gauge(name+"memory_limit_bytes", "Bytes that streams may hold together."),
		ready: telemetry.Gauge(name+"ready",
			"1 while the worker takes streams; 0 while it knows no master, or drains."),
		rows: telemetry.Counter(name+"sent_rows_total", "Rows sent to trainers."),
		sent: telemetry.Counter(name+"sent_bytes_total", "Bytes of tensors sent to trainers."),
		ways: telemetry.Counter(name+"sent_bytes_by_way_total",
			"Bytes of tensors sent to trainers: in memory that trainers on this machine read where it is, by link, "+
				"or by gRPC.", "way"),
		crossZone: telemetry.Counter(name+"cross_zone_bytes_total",
			"Bytes of tensors sent to trainers of another zone."),
		read: telemetry.Counter(name+"storage_read_bytes_total", "Bytes read from storage."),
		needed: telemetry.Counter(name+"storage_needed_bytes_total",
			"Bytes of the column chunks decoded, from storage or from the cache."),
		requests: telemetry.Counter(name+"storage_requests_total", "Requests to storage."),
		untrusted: telemetry.Counter(name+"untrusted_indexes_total",
			"Page indexes that contradict themselves or the footer: all of their pages were read."),
		badRows: telemetry.Counter(name+"bad_rows_total",
			"Rows left out of streams because their own bytes make them fail (on_error: skip_rows); those of a stream "+
				"that is opened again count again."),
		stages: telemetry.Counter(name+"stage_seconds_total",
			"Time of streams by stage: storage, decode, transform, tensor, send.", "stage"),
		ops: telemetry.Counter(name+"op_seconds_total",
			"Time of streams in each op; part of the stage transform.", "op"),
		opened: telemetry.Counter(name+"streams_open_seconds_total",
			"Time that streams were open, of all together."),
		blocked: telemetry.Counter(name+"streams_blocked_seconds_total",
			"Part of the streams' open time in which the trainer or the network took no more."),
	}
	return telemetry.Func(func(ch chan<- prometheus.Metric) { m.write(ch, w.state(), w.ready() == nil) })
}

// maxOps bounds the series of ops; those that took least are left out.
const maxOps = 100

func (m workerMetrics) write(ch chan<- prometheus.Metric, r *pb.WorkerReport, ready bool) {
	c := r.GetCounters()
	m.streams.Write(ch, float64(r.GetStreams()))
	m.slots.Write(ch, float64(r.GetSlots()))
	m.memory.Write(ch, float64(r.GetMemoryBytes()))
	m.memoryLimit.Write(ch, float64(r.GetMemoryLimit()))
	m.ready.Write(ch, telemetry.Bool(ready))
	m.rows.Write(ch, float64(c.GetRows()))
	m.sent.Write(ch, float64(c.GetBytesSent()))
	m.ways.Write(ch, float64(c.GetBytesLent()), "memory")
	m.ways.Write(ch, float64(c.GetBytesLinked()), "link")
	m.ways.Write(ch, float64(c.GetBytesSent()-c.GetBytesLent()-c.GetBytesLinked()), "grpc")
	m.crossZone.Write(ch, float64(c.GetBytesCrossZone()))
	m.read.Write(ch, float64(c.GetBytesRead()))
	m.needed.Write(ch, float64(c.GetBytesNeeded()))
	m.requests.Write(ch, float64(c.GetRequests()))
	m.untrusted.Write(ch, float64(c.GetUntrustedIndexes()))
	m.badRows.Write(ch, float64(c.GetBadRows()))
	for stage, ns := range map[string]int64{
		"storage": c.GetStorageNs(), "decode": c.GetDecodeNs(), "transform": c.GetTransformNs(),
		"tensor": c.GetTensorNs(), "send": c.GetSendNs(),
	} {
		m.stages.Write(ch, seconds(ns), stage)
	}
	ops := slices.Clone(c.GetOps())
	slices.SortFunc(ops, func(a, b *pb.OpTime) int { return cmp.Compare(b.GetNs(), a.GetNs()) })
	for _, op := range ops[:min(maxOps, len(ops))] {
		m.ops.Write(ch, seconds(op.GetNs()), op.GetOp())
	}
	m.opened.Write(ch, seconds(c.GetOpenNs()))
	m.blocked.Write(ch, seconds(c.GetBlockedNs()))
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
