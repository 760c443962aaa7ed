package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/master/store"
	"github.com/penstock-ml/penstock/master/store/storetest"
)

const (
	etcdMembers = 3
	// etcdDisk is the size of a member's disk, where it has one of its own.
	etcdDisk = 512 << 20
	// extraWorker joins and leaves.
	extraWorker = "extra"
	storageName = "storage"
)

// place is where a process listens.
type place struct{ grpc, gossip, http string }

// fleet is all processes but the trainers, which are job's.
type fleet struct {
	options
	binary string
	lan    *lan // or nil: all on loopback
	units  map[string]*unit
	places map[string]place
	etcd   *storetest.Cluster
	store  *store.Store
	keys   secrets
	mounts []string // file systems of etcd's members
	called *called  // or nil: no functions

	mu     sync.Mutex
	ends   map[string]int // how often each process ended by itself
	leader string         // who led last
	peaks  map[string]vitals
	hit    map[syscall.Signal]int // processes of functions that faults sent it
}

// names lists a kind of process: names("worker", 2) is worker-1 and worker-2.
func names(kind string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", kind, i+1)
	}
	return out
}

// maxWorld is the largest number of trainers that the job may have.
func (o *options) maxWorld() int { return o.trainers + 1 }

// newFleet prepares the fleet's places. keep runs it.
func newFleet(ctx context.Context, o options, isolated bool) (*fleet, error) {
	f := &fleet{
		options: o, units: map[string]*unit{}, places: map[string]place{}, ends: map[string]int{},
		leader: "master-1", peaks: map[string]vitals{}, hit: map[syscall.Signal]int{},
	}
	var err error
	if f.binary, err = os.Executable(); err != nil {
		return nil, err
	}
	all := append(append(names("master", o.masters), names("worker", o.workers)...), extraWorker, storageName)
	all = append(append(all, names("etcd", etcdMembers)...), names("trainer", o.maxWorld())...)
	if isolated {
		if f.lan, err = newLAN(ctx, all); err != nil {
			return nil, fmt.Errorf("chaos: network: %w", err)
		}
	}
	for _, name := range all {
		if f.places[name], err = f.place(ctx, name); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// place finds addresses for a process: fixed ones in a network of its own, else ports that are free.
func (f *fleet) place(ctx context.Context, name string) (place, error) {
	if f.lan != nil {
		host := f.lan.hosts[name]
		return place{grpc: host + ":7070", gossip: host + ":7946", http: host + ":7072"}, nil
	}
	var listeners [3]net.Listener
	for i := range listeners {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return place{}, err
		}
		listeners[i] = l
	}
	p := place{
		grpc: listeners[0].Addr().String(), gossip: listeners[1].Addr().String(),
		http: listeners[2].Addr().String(),
	}
	return p, errors.Join(listeners[0].Close(), listeners[1].Close(), listeners[2].Close())
}

// enter is the command that a process of a name is run by.
func (f *fleet) enter(name string) []string {
	if f.lan == nil {
		return nil
	}
	return f.lan.enter(name)
}

// run starts a role of this program as a process.
func (f *fleet) run(name string, args ...string) (*process.Process, error) {
	return f.start(name, append([]string{f.binary}, args...))
}

// runPython starts a Python script as a process.
func (f *fleet) runPython(name, script string, args ...string) (*process.Process, error) {
	return f.start(name, append([]string{f.python, "-c", script}, args...), "PENSTOCK_BINARY="+f.binary,
		f.modulePath())
}

func (f *fleet) start(name string, command []string, env ...string) (*process.Process, error) {
	command = append(f.enter(name), command...)
	return process.Start(process.Config{
		Name: name, Binary: command[0], Args: command[1:], Log: filepath.Join(f.dir, name+".log"),
		Env: append(env,
			"AWS_ENDPOINT_URL=http://"+f.places[storageName].grpc, "AWS_REGION=us-east-1",
			"AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+secretKey, "AWS_EC2_METADATA_DISABLED=true",
		),
	})
}

// add makes a unit of a role of this program.
func (f *fleet) add(name string, args func(lean bool) []string) {
	f.units[name] = newUnit(name, func(lean bool) (*process.Process, error) { return f.run(name, args(lean)...) },
		f.ended)
}

// ended counts a process that ended by itself.
func (f *fleet) ended(name, _ string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends[name]++
}

// prepare uploads the dataset, starts etcd and all other processes, which group keeps.
func (f *fleet) prepare(ctx context.Context, group *errgroup.Group, files []string) error {
	minio, err := findMinIO()
	if err != nil {
		return err
	}
	key := filepath.Join(f.dir, "ticket.key")
	if f.full {
		if f.keys, err = makeSecrets(ctx, filepath.Join(f.dir, "keys")); err != nil {
			return err
		}
		key = f.keys.in("master/ticket.key")
	} else if err := writeTicketKey(key); err != nil {
		return err
	}
	if f.functions {
		if err := f.makeFunctions(ctx); err != nil {
			return err
		}
	}
	f.add(storageName, func(bool) []string {
		return []string{"storage", "--minio=" + minio, "--data=" + filepath.Join(f.dir, "minio"), "--address=" +
			f.places[storageName].grpc}
	})
	group.Go(func() error { return f.units[storageName].keep(ctx) })
	if err := upload(ctx, f.places[storageName].grpc, files); err != nil {
		return err
	}
	if err := f.startEtcd(ctx); err != nil {
		return err
	}
	if f.store, err = store.Open(ctx, store.Config{Endpoints: f.etcd.Endpoints()}); err != nil {
		return err
	}
	f.addMasters(key)
	f.addWorkers()
	for name, u := range f.units {
		if name != storageName {
			group.Go(func() error { return u.keep(ctx) })
		}
	}
	for _, name := range append(names("trainer", f.maxWorld()), functions) {
		f.units[name] = newUnit(name, nil, nil) // for faults to take; its processes are job's, or workers'
	}
	return nil
}

// close ends what is left when all units have ended.
func (f *fleet) close() error {
	var errs []error
	if f.store != nil {
		errs = append(errs, f.store.Close())
	}
	if f.etcd != nil {
		errs = append(errs, f.etcd.Close())
	}
	for _, dir := range f.mounts {
		errs = append(errs, unmount(dir))
	}
	return errors.Join(errs...)
}

func (f *fleet) startEtcd(ctx context.Context) (err error) {
	cfg := storetest.Config{Dir: f.dir}
	all := names("etcd", etcdMembers)
	if f.lan != nil {
		places := map[string]string{}
		for _, name := range all {
			places[f.lan.hosts[name]] = name
			cfg.Hosts = append(cfg.Hosts, f.lan.hosts[name])
			if err := os.MkdirAll(f.etcdDir(name), 0o700); err != nil {
				return err
			}
			if err := mountTmpfs(f.etcdDir(name), etcdDisk); err != nil {
				return err
			}
			f.mounts = append(f.mounts, f.etcdDir(name))
		}
		cfg.Command = func(host string) []string { return f.lan.enter(places[host]) }
	}
	ctx, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	if f.etcd, err = storetest.Start(ctx, cfg); err != nil {
		return err
	}
	for i, m := range f.etcd.Members() {
		u := newUnit(all[i], func(bool) (*process.Process, error) {
			err := m.Restart()
			return m.Process(), err
		}, f.ended)
		u.process = m.Process()
		go discard(u.process)
		f.units[all[i]] = u
	}
	return nil
}

func (f *fleet) etcdDir(name string) string { return filepath.Join(f.dir, name) }

func (f *fleet) addMasters(key string) {
	for _, name := range names("master", f.masters) {
		at := f.places[name]
		f.add(name, func(bool) []string {
			return slices.Concat([]string{
				"master", "--name=" + name, "--listen=" + at.grpc, "--gossip=" + at.gossip, "--http=" +
					at.http, "--join=" + f.seeds(),
				"--etcd=" + strings.Join(f.etcd.Endpoints(), ","), "--ticket-key=" + key, "--lease=" + f.lease.String(),
				"--data-dir=" + filepath.Join(f.dir, name),
			}, f.keys.master(), f.masterFlags())
		})
	}
}

func (f *fleet) addWorkers() {
	for _, name := range append(names("worker", f.workers), extraWorker) {
		at := f.places[name]
		f.add(name, func(lean bool) []string {
			args := []string{"worker", "--name=" + name, "--listen=" + at.grpc, "--gossip=" + at.gossip, "--http=" +
				at.http, "--join=" + f.seeds()}
			args = slices.Concat(args, f.keys.worker(), f.workerFlags())
			if lean {
				args = append(args, "--memory=16MiB", "--slots=1")
			}
			return args
		})
	}
	f.units[extraWorker].down = true
}

// seeds are the masters' gossip addresses.
func (f *fleet) seeds() string {
	var out []string
	for _, name := range names("master", f.masters) {
		out = append(out, f.places[name].gossip)
	}
	return strings.Join(out, ",")
}

// masterAddresses are where trainers find masters.
func (f *fleet) masterAddresses() []string {
	var out []string
	for _, name := range names("master", f.masters) {
		out = append(out, f.places[name].grpc)
	}
	return out
}

// leads returns the name of the master that leads, or led last if etcd does not tell.
func (f *fleet) leads(ctx context.Context) string {
	address, err := f.store.Leader(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names("master", f.masters) {
		if err == nil && f.places[name].grpc == address {
			f.leader = name
		}
	}
	return f.leader
}

// writeTicketKey makes the key that all masters share.
func writeTicketKey(path string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("chaos: ticket key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("chaos: ticket key: %w", err)
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}
