package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// socketFolders is how the names of the folders begin in which Embedded makes its sockets.
const socketFolders = "penstock-etcd-"

// maxTemporary is how long the name of a folder may be in which Embedded makes its socket: macOS has room for 103
// bytes of a socket's path.
const maxTemporary = 103 - len("/"+socketFolders+"4294967295/client.sock")

// Embed is an etcd of one member in this process, for a single master, the demo and tests.
type Embed struct {
	etcd     *embed.Etcd
	lock     *fileutil.LockedFile
	endpoint string
	sockets  string               // private directory of the unix socket, or ""
	alive    *fileutil.LockedFile // in sockets: until this process ends
}

// Embedded starts an etcd that keeps its data in dir. It listens on listen ("127.0.0.1:0" takes an unused port),
// without TLS or password: a loopback port is open to every user of the machine. With "" it listens on a unix
// socket that only this user may open. It returns when etcd is ready.
func Embedded(ctx context.Context, dir, listen string, logger *slog.Logger) (*Embed, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: embedded etcd: %w", err)
	}
	// etcd itself would wait for a directory in use, without end.
	lock, err := fileutil.TryLockFile(filepath.Join(dir, "penstock.lock"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf(
			"store: embedded etcd: %s is in use by another process, such as a master that runs already: stop that "+
				"one, or give this one a --data-dir of its own"+
				" (masters of one fleet share an etcd: --etcd): %w", dir, err)
	}
	e := &Embed{lock: lock}
	if err := e.start(ctx, dir, listen, logger); err != nil {
		return nil, errors.Join(fmt.Errorf("store: embedded etcd in %s: %w", dir, err), e.Close())
	}
	return e, nil
}

func (e *Embed) start(ctx context.Context, dir, listen string, logger *slog.Logger) error {
	client, err := e.clientURL(listen)
	if err != nil {
		return err
	}
	if e.etcd, err = startEtcd(embedConfig(dir, client, logger)); err != nil {
		return err
	}
	select {
	case <-e.etcd.Server.ReadyNotify():
	case err := <-e.etcd.Err():
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
	e.endpoint = client.String()
	if client.Scheme == "http" {
		e.endpoint = "http://" + e.etcd.Clients[0].Addr().String()
	}
	return nil
}

// startEtcd also returns as an error that etcd panics where its folder cannot be written.
func startEtcd(cfg *embed.Config) (e *embed.Etcd, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v; the log says what to do", r)
		}
	}()
	return embed.StartEtcd(cfg)
}

func (e *Embed) clientURL(listen string) (url.URL, error) {
	if listen != "" {
		host, _, err := net.SplitHostPort(listen)
		if err != nil {
			return url.URL{}, err
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return url.URL{}, fmt.Errorf(
				"%s is no loopback address: an etcd that others can reach needs TLS and passwords; run one of its own",
				listen)
		}
		return url.URL{Scheme: "http", Host: listen}, nil
	}
	// Not in dir: a socket's path is short, and so must that of the temporary folder be.
	temporary := os.TempDir()
	if len(temporary) > maxTemporary {
		temporary = "/tmp"
	}
	sweepSockets(temporary)
	if err := e.makeSockets(temporary); err != nil {
		return url.URL{}, fmt.Errorf("folder of its socket: %w; set TMPDIR to a folder that can be written", err)
	}
	return url.URL{Scheme: "unix", Path: filepath.Join(e.sockets, "client.sock")}, nil
}

// aliveLock is a file beside the socket that is locked while its process lives.
const aliveLock = "alive.lock"

// socketTries bounds the folders that sweeps of other processes take away before they are locked.
const socketTries = 20

// makeSockets makes the folder of the socket.
func (e *Embed) makeSockets(temporary string) (err error) {
	for range socketTries {
		if e.sockets, err = os.MkdirTemp(temporary, socketFolders); err != nil {
			return err
		}
		if e.alive, err = lockAlive(filepath.Join(e.sockets, aliveLock)); err == nil {
			return nil
		}
		_ = os.RemoveAll(e.sockets) // as who swept it does
	}
	return err
}

// lockAlive makes a file and locks it. One that another process locked first, to sweep it, is an error, also where it
// is gone by now.
func lockAlive(file string) (*fileutil.LockedFile, error) {
	lock, err := fileutil.TryLockFile(file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	have, err := lock.Stat()
	if err == nil {
		var there os.FileInfo
		if there, err = os.Stat(file); err == nil && os.SameFile(have, there) {
			return lock, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("%s was swept", file), err, lock.Close())
}

// sweepSockets removes the folders that processes left that were killed. One without a lock is just being made.
func sweepSockets(temporary string) {
	left, _ := filepath.Glob(filepath.Join(temporary, socketFolders+"*", aliveLock)) // the pattern is well-formed
	for _, file := range left {
		lock, err := fileutil.TryLockFile(file, os.O_WRONLY, 0o600)
		if err != nil { // its process lives, or it is another user's
			continue
		}
		_ = os.RemoveAll(filepath.Dir(file)) // what stays is swept next time
		_ = lock.Close()
	}
}

func embedConfig(dir string, client url.URL, logger *slog.Logger) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = "penstock"
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = []url.URL{client}
	// The only member has no peers to listen to.
	cfg.ListenPeerUrls = nil
	cfg.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	// Short, for it has nobody to wait for: ready in some 25 ms. Shorter ones cost more: at 100 ticks a second an idle
	// master took a third more CPU time.
	cfg.TickMs, cfg.ElectionMs = 25, 125
	// etcd keeps this many transactions in memory, of up to 1 MiB each.
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 1000, 100
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, "5m"
	cfg.QuotaBackendBytes = 8 << 30
	cfg.EnableGRPCGateway = false
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(
		zap.New(&logCore{logger: logger.With("part", "etcd"), folder: dir}))
	return cfg
}

// Endpoints are for Config.Endpoints, in this process or another of the same machine.
func (e *Embed) Endpoints() []string { return []string{e.endpoint} }

// Err reports that etcd stopped by itself; it is closed by Close.
func (e *Embed) Err() <-chan error { return e.etcd.Err() }

// Close stops etcd; its data stays.
func (e *Embed) Close() error {
	if e.etcd != nil {
		e.etcd.Close()
	}
	var err error
	if e.sockets != "" {
		err = os.RemoveAll(e.sockets)
	}
	if e.alive != nil {
		err = errors.Join(err, e.alive.Close())
	}
	if err = errors.Join(err, e.lock.Close()); err != nil {
		return fmt.Errorf("store: close embedded etcd: %w", err)
	}
	return nil
}
