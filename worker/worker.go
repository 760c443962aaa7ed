// Package worker is the stateless process that turns (spec, shard, cursor) into streams of batches. It joins the
// fleet by gossip, learns from a master which keys sign tickets, and serves Flight. The path of the data, package
// by package: formats (files to vectors), filter, transform, tensor, joined in pipeline and sent by serve.
//
// A Worker's Run owns all of its goroutines.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/cache"
	"github.com/penstock-ml/penstock/internal/cache/reads"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/telemetry"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/python"
	"github.com/penstock-ml/penstock/worker/serve"
	"github.com/penstock-ml/penstock/worker/transform"
)

const (
	overRead = 256 << 10
	// minBatch and mostBatch bound the size of batches (batchBytes).
	minBatch, mostBatch = 1 << 20, 4 << 20
	// arrayBytes is what arrays of larger batches have: the worker and a trainer take a microsecond for each, and about
	// four to copy as much.
	arrayBytes = 16 << 10
	// maxBatch leaves room, below what a message may have (internal/rpc), for what stands around a batch.
	maxBatch = 240 << 20
	// maxRequest bounds what a caller shows: a ticket and a program, of which a spec has less than a megabyte of text.
	maxRequest = 8 << 20
	// patience is how long a trainer waits for memory before it is sent to the next worker.
	patience = 5 * time.Second
	// syncEvery is how often a worker tells the masters of itself, and syncTimeout how long it waits for the answer.
	syncEvery   = 2 * time.Second
	syncTimeout = 2 * time.Second
	// drainTimeout bounds how long running streams may take to reach a batch's end, and then to return from what they
	// are in.
	drainTimeout = 10 * time.Second
	// linger is how long a worker that a master told to drain waits to be stopped.
	linger = 2 * time.Minute
)

// DefaultMemory is what all streams of a worker may hold, in bytes, unless it is told otherwise.
const DefaultMemory = 192 << 20

// Config says how a worker runs. New fills in defaults and checks it.
type Config struct {
	// Listener is the Flight port, already bound.
	Listener net.Listener
	// Advertise is the address that trainers dial; "" is the listener's.
	Advertise string
	// Fleet is how it finds masters: Self is filled in from the other fields but for Name and Zone.
	Fleet fleet.Config
	// RPC is how its port is opened, to whoever has a ticket, and how it calls masters, who see its token.
	RPC rpc.Config
	// Slots is the number of streams served at once; 0 means two for each CPU.
	Slots int
	// Memory bounds the bytes of all streams; 0 means DefaultMemory. MaxMemory, if it is more, does from when on one
	// stream needs more than Memory; the runtime's memory limit, if one is set, then grows with it.
	Memory, MaxMemory int64
	// Linger is how long it waits to be stopped once a master told it to drain, and then ends by itself; 0 means two
	// minutes.
	Linger  time.Duration
	Storage storage.Storage
	// Cache keeps what the worker reads of Storage; nil: nothing does. It stays the caller's.
	Cache *cache.Cache
	// HTTP is the port of metrics, probes and profiles, already bound; nil: there is none.
	HTTP net.Listener
	// Network has batches go by network to trainers of this user on this machine, too, who else read them where the
	// worker made them.
	Network bool
	// Python says which functions of users it runs, and in what; nil: none. Its Logger is this one by default.
	Python *python.Config
	// Local, if set, lists this worker for trainers of the same process.
	Local   *Local
	Ops     *transform.Registry
	Version string
	Logger  *slog.Logger
	// Up, if set, is called once with the Flight and gossip addresses when both are open and a master is known.
	Up func(address, gossip string)
}

// Worker is a process's worker.
type Worker struct {
	cfg      Config
	pipeline *pipeline.Pipeline
	python   *python.Pool // or nil
	reads    *reads.Reads // or nil
	server   *serve.Server
	grpc     *grpc.Server
	health   *health.Server
	http     *telemetry.Server // or nil
	fleet    *fleet.Fleet
	cpus     float64 // that it may use
	drained  sync.Once
}

// New prepares a worker; Run runs it and closes its listener.
func New(cfg Config) (*Worker, error) {
	if cfg.Listener == nil || cfg.Storage == nil || cfg.Ops == nil || cfg.Logger == nil {
		return nil, errors.New("worker: Listener, Storage, Ops and Logger are needed")
	}
	if cfg.Slots < 0 || cfg.Memory < 0 || cfg.MaxMemory < 0 {
		return nil, fmt.Errorf("worker: %d slots and %d bytes of memory, at most %d; none may be negative",
			cfg.Slots, cfg.Memory, cfg.MaxMemory)
	}
	if cfg.Slots == 0 {
		cfg.Slots = 2 * runtime.GOMAXPROCS(0)
	}
	if cfg.Memory == 0 {
		cfg.Memory = DefaultMemory
	}
	if cfg.Linger == 0 {
		cfg.Linger = linger
	}
	if cfg.Advertise == "" {
		cfg.Advertise = cfg.Listener.Addr().String()
	}
	if cfg.Fleet.Self.Name == "" {
		cfg.Fleet.Self.Name = "worker-" + cfg.Advertise
	}
	self := &cfg.Fleet.Self
	self.Role, self.Address, self.Slots, self.Version = fleet.Worker, cfg.Advertise, cfg.Slots, cfg.Version
	cfg.Fleet.Logger = cfg.Logger
	w := &Worker{cfg: cfg, health: health.NewServer(), cpus: process.CPUs(os.DirFS("/"))}
	if err := w.newPipeline(); err != nil {
		return nil, err
	}
	w.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	links, err := rpc.Links(cfg.RPC, wire.Preface, w.server.Enter)
	if err != nil {
		return nil, err
	}
	bounded := cfg.RPC
	bounded.MaxMessage = maxRequest
	w.grpc, err = rpc.NewServer(bounded, grpc.ForceServerCodecV2(wire.NewCodec()), links,
		rpc.Guarded(rpc.Unguarded)) // a ticket opens it
	if err != nil {
		return nil, err
	}
	flight.RegisterFlightServiceServer(w.grpc, w.server)
	healthpb.RegisterHealthServer(w.grpc, w.health)
	if w.http, err = w.newHTTP(); err != nil {
		return nil, err
	}
	return w, nil
}

// newPipeline makes what streams come from, and what serves them.
func (w *Worker) newPipeline() (err error) {
	cfg := &w.cfg
	from := cfg.Storage
	if cfg.Cache != nil {
		w.reads = reads.New(cfg.Storage, cfg.Cache)
		from = w.reads
	}
	streams := pipeline.Config{
		Storage: from, Ops: cfg.Ops, Memory: cfg.Memory, MaxMemory: cfg.MaxMemory, Streams: cfg.Slots,
		Grown: func(bytes int64) {
			process.RaiseMemoryLimit(bytes)
			cfg.Logger.Info("a stream needs more than the usual memory: streams may hold more from now on",
				"usual_bytes", cfg.Memory, "bytes", cfg.MaxMemory)
		},
		Untrusted: func(t *pb.Ticket, why string) {
			cfg.Logger.Warn("a page index contradicts itself or the footer: it excludes nothing, so that more is read "+
				"than need be; write the file again",
				"session", t.GetSession(), "file", t.GetFile().GetUri(), "first", why)
		},
		BatchBytes: batchBytes(cfg.Memory, cfg.Slots), ArrayBytes: arrayBytes, MaxBatch: maxBatch,
		OverRead: overRead, Patience: patience, Zone: cfg.Fleet.Self.Zone,
	}
	var users serve.Functions
	if cfg.Python != nil {
		functions := *cfg.Python
		functions.Logger = cmp.Or(functions.Logger, cfg.Logger)
		if w.python, err = python.New(functions); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		streams.Python, users = w.python, w.python
	}
	w.pipeline = pipeline.New(streams)
	w.server = serve.New(w.pipeline, cfg.Slots, users, cfg.Logger)
	return nil
}

// batchBytes is about the size of a batch on the wire. Each array of a batch costs the worker and the trainer, above
// all in Python, so batches are as large as a stream can afford to have a few of.
func batchBytes(memory int64, slots int) int64 {
	return min(max(memory/int64(slots)/pipeline.BatchShares, minBatch), mostBatch)
}

// Run serves until ctx ends, then drains: it leaves the fleet's candidates, ends its streams between two batches and
// stops. A worker that drains by a master's order, and is not stopped, ends by itself: it takes no stream any more, and
// whoever keeps the process starts one that does.
func (w *Worker) Run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	group, ctx := errgroup.WithContext(ctx)
	functions, endFunctions := context.WithCancel(context.WithoutCancel(ctx)) // streams that drain call them
	defer endFunctions()
	defer w.pipeline.Close()
	if w.python != nil {
		group.Go(func() error { return w.python.Run(functions) })
	}
	if err := w.begin(ctx); err != nil {
		stopped := ctx.Err() != nil // meanwhile, which is no error
		endFunctions()
		if failed := group.Wait(); failed != nil || stopped {
			err = failed
		}
		return errors.Join(err, w.close())
	}
	defer w.cfg.Local.add(w.cfg.Advertise, w.server)()
	w.cfg.Logger.Info("worker is up", "address", w.cfg.Advertise, "gossip", w.fleet.Address(), "slots", w.cfg.Slots)
	near := w.listenNear(ctx) // before anybody knows of the worker
	group.Go(func() error { return w.fleet.Run(ctx) })
	group.Go(func() error {
		defer end()
		return w.sync(ctx)
	})
	if w.http != nil {
		group.Go(func() error { return w.http.Run(ctx) })
	}
	if w.reads != nil {
		group.Go(func() error {
			w.reads.Run(ctx)
			return nil
		})
	}
	group.Go(func() error {
		// It has been stopped before it began if ctx ended at once.
		if err := w.grpc.Serve(rpc.LimitStrangers(w.cfg.Listener)); err != nil &&
			!errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("worker: serve: %w", err)
		}
		return nil
	})
	if near != nil {
		group.Go(func() error {
			w.server.ServeNear(ctx, near)
			return nil
		})
	}
	group.Go(func() error {
		defer endFunctions()
		<-ctx.Done()
		return w.stop(context.WithoutCancel(ctx))
	})
	return errors.Join(group.Wait(), w.fleet.Close())
}

// begin has the worker known to the fleet, once the modules of functions by name have been imported.
func (w *Worker) begin(ctx context.Context) (err error) {
	if w.python != nil {
		if err := w.python.Check(ctx); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
	}
	w.fleet, err = fleet.New(w.cfg.Fleet)
	return err
}

// listenNear listens for trainers on this machine, where that can be had.
func (w *Worker) listenNear(ctx context.Context) net.Listener {
	if w.cfg.Network {
		return nil
	}
	l, err := wire.ListenNear(ctx, w.cfg.Advertise)
	if err != nil {
		w.cfg.Logger.Info("trainers on this machine get batches by network", "error", err)
		return nil
	}
	return l
}

// close closes what Run would have served.
func (w *Worker) close() error {
	err := w.cfg.Listener.Close()
	if w.cfg.HTTP != nil {
		err = errors.Join(err, w.cfg.HTTP.Close())
	}
	return err
}

// drain makes trainers go elsewhere. It may be called by several goroutines, and again.
func (w *Worker) drain() {
	w.drained.Do(func() {
		w.health.Shutdown()
		if err := w.fleet.Update(func(m *fleet.Member) { m.Draining = true }); err != nil {
			w.cfg.Logger.Warn("could not tell the fleet of the drain", "error", err)
		}
		w.server.Drain()
	})
}

// stop drains and waits for the streams to end, for calls and then for what they ran.
func (w *Worker) stop(ctx context.Context) error {
	w.drain()
	hard := time.AfterFunc(drainTimeout, w.grpc.Stop)
	defer hard.Stop()
	w.grpc.GracefulStop()
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := w.server.Wait(ctx); err != nil {
		return fmt.Errorf("worker: stopped all the same: %w", err)
	}
	return nil
}

// sync tells the masters of this worker again and again, and takes their orders, until ctx ends or an order to drain is
// some time ago.
func (w *Worker) sync(ctx context.Context) (err error) {
	masters := rpc.NewPool(w.cfg.RPC)
	defer func() { err = errors.Join(err, masters.Close()) }()
	var unneeded <-chan time.Time
	var failed failures
	for known := false; ; {
		orders, err := w.syncOnce(ctx, masters)
		switch {
		case err == nil:
			failed = failures{}
			w.server.SetKeys(orders.GetKeys())
			if !known {
				w.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
				if w.cfg.Up != nil {
					w.cfg.Up(w.cfg.Advertise, w.fleet.Address())
				}
			}
			known = true
			if orders.GetDrain() && unneeded == nil {
				w.drain()
				unneeded = time.After(w.cfg.Linger)
			}
		case ctx.Err() != nil:
			return nil
		default:
			w.warn(&failed, err)
		}
		wait, joined := syncEvery, (<-chan struct{})(nil)
		if !known { // a master that comes into sight is asked at once
			wait, joined = syncEvery/10, w.fleet.Changed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-unneeded:
			w.cfg.Logger.Info("the worker ends by itself: a master told it to drain, and nothing has stopped it since",
				"waited", w.cfg.Linger)
			return nil
		case <-joined:
		case <-time.After(wait):
		}
	}
}

// failures are reports in a row that no master took.
type failures struct {
	count int
	told  string
}

// silences is how many reports nobody answers before that is told: a master may be about to start, or to lead.
const silences = 10

// warn says once why no master takes this worker's reports. Streams go on meanwhile.
func (w *Worker) warn(f *failures, err error) {
	f.count++
	switch {
	case refused(err) && err.Error() != f.told:
		f.told = err.Error()
		w.cfg.Logger.Warn(
			"the masters refuse this worker, which gets no streams until they take it: does --token-file hold the "+
				"fleet's token, and are both of one release?", "error", err)
	case f.count == silences && f.told == "":
		w.cfg.Logger.Warn(
			"no master answers this worker, which gets no new streams until one does: are the masters up, does --join "+
				"reach the fleet's gossip, and does --tls fit it? `penstock doctor` checks each hop", "error", err)
	default:
		w.cfg.Logger.Debug("no master answered; streams go on", "error", err)
	}
}

// refused reports whether a master has answered that it does not take this worker.
func refused(err error) bool {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented, codes.InvalidArgument,
		codes.FailedPrecondition:
		return true
	}
	return false
}

// state is what the worker says of itself, to the masters and to Prometheus.
func (w *Worker) state() *pb.WorkerReport {
	counters, sessions := w.pipeline.Sessions()
	counters.CpuNs = process.CPU().Nanoseconds()
	if w.python != nil {
		counters.CpuNs += w.python.CPU().Nanoseconds()
	}
	return &pb.WorkerReport{
		Name: w.cfg.Fleet.Self.Name, Address: w.cfg.Advertise, Zone: w.cfg.Fleet.Self.Zone,
		Streams: uint32(w.server.Streams()), Slots: uint32(w.cfg.Slots),
		MemoryBytes: w.pipeline.MemoryInUse(), MemoryLimit: w.pipeline.MemoryLimit(), Cpus: w.cpus, Counters: counters,
		Sessions: sessions,
	}
}

// syncOnce reports to all masters at once, since any of them may come to lead and should know the fleet's load then.
// The keys are those of all that answer.
func (w *Worker) syncOnce(ctx context.Context, masters *rpc.Pool) (*pb.WorkerOrders, error) {
	report := w.state()
	var addresses []string
	for _, m := range w.fleet.Members(fleet.Master) {
		addresses = append(addresses, m.Address)
	}
	if err := masters.Keep(addresses); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	orders, errs := make([]*pb.WorkerOrders, len(addresses)), make([]error, len(addresses))
	var group sync.WaitGroup
	for i, address := range addresses {
		group.Go(func() { orders[i], errs[i] = w.report(ctx, masters, address, report) })
	}
	group.Wait()
	var out *pb.WorkerOrders
	for i, o := range orders {
		if errs[i] != nil {
			continue
		}
		if out == nil {
			out = &pb.WorkerOrders{Keys: map[string][]byte{}}
		}
		maps.Copy(out.Keys, o.GetKeys()) // masters may be in the middle of changing them
		out.Drain = out.Drain || o.GetDrain()
	}
	if out == nil {
		return nil, errors.Join(append(errs, errors.New("worker: no master of the fleet answered"))...)
	}
	return out, nil
}

func (w *Worker) report(
	ctx context.Context, masters *rpc.Pool, address string, report *pb.WorkerReport,
) (*pb.WorkerOrders, error) {
	conn, err := masters.Get(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	return pb.NewMasterClient(conn).SyncWorker(ctx, report)
}
