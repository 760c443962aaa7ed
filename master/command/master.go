// Package command holds the master's commands: `penstock master`, which runs one, `penstock keys`, which makes what one
// needs, and `penstock session`, `top`, `explain` and `events`, which ask one. Each is used from one goroutine.
package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/access"
	"github.com/penstock-ml/penstock/master/store"
)

// etcdPatience is how long a master waits for the etcd that it embeds. One of its own may be away for longer: to end
// would help nobody.
const etcdPatience = 2 * time.Minute

// SessionTTL is how long a session is kept that nobody is in any more, where nobody says.
const SessionTTL = 7 * 24 * time.Hour

// masterFlags are the settings of `penstock master`.
type masterFlags struct {
	listen, advertise, http, dataDir, ticketKey string
	code                                        string
	lease, sessionTTL                           time.Duration
	access                                      accessFlags
	etcd                                        etcdFlags
	ports                                       cli.RPCFlags
	stores                                      cli.StorageFlags
	gossip                                      cli.FleetFlags
	scaling                                     scalingFlags
}

// Master returns `penstock master`, which runs a master until it is interrupted.
func Master(ops spec.Catalog, version string) *cobra.Command {
	var f masterFlags
	cmd := &cobra.Command{
		Use:   "master",
		Short: "Run a master: it plans, grants and records",
		Long: "Run a master. Without --etcd it embeds one, with its data in --data-dir. Several masters on one etcd " +
			"may run:\n" +
			"one leads, and another takes over when it dies. They must share the ticket key. With --scale the " +
			"leader keeps as many\n" +
			"workers as trainers can make use of.",
		Example: "  penstock master\n  penstock master --scale local --max-workers 4\n" +
			"  penstock master --listen 0.0.0.0:7070 --advertise 10.0.0.5:7070 --gossip 0.0.0.0:7946 --etcd " +
			"http://etcd-0:2379,http://etcd-1:2379 --ticket-key /etc/penstock/ticket.key",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, ops, version) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7070", "control address to listen on; port 0 takes a free one")
	flags.StringVar(&f.advertise, "advertise", "", "control address that others can reach (default: --listen)")
	flags.StringVar(&f.http, "http", "127.0.0.1:7072",
		"address of the dashboard, metrics, probes and profiles; \"\" for none; port 0 takes a free one")
	flags.StringVar(&f.dataDir, "data-dir", "penstock-data", "directory of the embedded etcd and the ticket key")
	flags.StringVar(&f.ticketKey, "ticket-key", "",
		"PEM file with the Ed25519 key that signs tickets, the same for all masters of one etcd; made if it does "+
			"not exist, and read anew when it changes: of several keys the first signs (default: ticket.key in "+
			"--data-dir)")
	flags.DurationVar(&f.lease, "lease", 90*time.Second, "how long a trainer goes on without reaching a master")
	flags.DurationVar(&f.sessionTTL, "session-ttl", SessionTTL,
		"how long after it was closed, or a trainer was heard of last, a session is deleted, with its checkpoints; "+
			"0: never")
	flags.StringVar(&f.code, "code", string(access.NoCode),
		"which Python functions sessions may have run on the workers: none; by-name, those that the workers' "+
			"environments have; or by-value, whatever a trainer sends, too; for namespaces of which --namespaces does "+
			"not say it")
	f.access.register(flags)
	f.etcd.register(flags)
	f.ports.RegisterPorts(flags)
	f.stores.Register(flags)
	f.gossip.Register(flags, "127.0.0.1:7946")
	f.scaling.register(flags)
	return cli.Setup(cmd)
}

func (f *masterFlags) run(cmd *cobra.Command, ops spec.Catalog, version string) (err error) {
	output, err := cli.Output(cmd)
	if err != nil {
		return err
	}
	cfg := master.Config{
		Advertise: f.advertise, Ops: ops, Lease: f.lease, SessionTTL: f.sessionTTL,
		KeepHistory: !f.etcd.compact, Code: access.Code(f.code),
	}
	if err := cfg.Code.Check(); err != nil {
		return fmt.Errorf("--code: %w", err)
	}
	if cfg.Logger, err = cli.Logger(cmd, cmd.ErrOrStderr()); err != nil {
		return err
	}
	if cfg.RPC, err = f.ports.Config(); err != nil {
		return err
	}
	if cfg.Access, err = f.access.open(cfg.RPC.Token, cfg.Logger); err != nil {
		return err
	}
	if f.access.workers != "" && cmd.Flags().Lookup("gossip-key-file").Value.String() == "" {
		return errors.New(
			"--worker-token-file: workers that do not know this master's token need a key of gossip's own; set " +
				"--gossip-key-file, here and on all workers")
	}
	if cfg.Fleet, err = f.gossip.Config(cfg.RPC.Token); err != nil {
		return err
	}
	cfg.Fleet.Self.Version = version
	if cfg.Storage, err = f.stores.Open(); err != nil {
		return err
	}
	key := cmp.Or(f.ticketKey, filepath.Join(f.dataDir, ticketKey))
	if cfg.Signer, err = signer(key, len(f.etcd.endpoints) > 0, cfg.Logger); err != nil {
		return err
	}
	etcd := f.etcd.config()
	if len(etcd.Endpoints) > 0 {
		if etcd.TLS, err = f.etcd.tls(); err != nil {
			return err
		}
	}
	ended, end, err := connect(cmd.Context(), &cfg, etcd, f.dataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	workers, scaling, err := f.scaling.actuator(cmd, f.dataDir, cfg.Logger)
	if err != nil {
		return err
	}
	cfg.Scaling = scaling
	if cfg.Listener, err = cli.Listen(cmd.Context(), "listen", f.listen); err != nil {
		return fmt.Errorf("master: %w", err)
	}
	if cfg.HTTP, err = cli.ListenHTTP(cmd, f.http, cfg.Logger); err != nil {
		return errors.Join(err, cfg.Listener.Close())
	}
	if cfg.HTTP != nil {
		defer cfg.HTTP.Close() //nolint:errcheck // fails where the master ran, which closes it
	}
	cfg.Up = func(address, gossip string) {
		if workers != nil {
			workers.Join(gossip)
		}
		if output == "json" {
			_ = cli.Announce(cmd.OutOrStdout(), address, gossip, cfg.HTTP)
		}
	}
	m, err := master.New(cfg)
	if err != nil {
		return errors.Join(err, cfg.Listener.Close())
	}
	return runUntil(cmd.Context(), ended, together(m, workers))
}

// Embedded runs a master with an etcd of its own until one of them ends, or ctx. The etcd's data and the key that signs
// tickets lie in dir; cfg says the rest.
func Embedded(ctx context.Context, dir string, cfg master.Config) (err error) {
	if cfg.Signer, err = signer(filepath.Join(dir, ticketKey), false, cfg.Logger); err != nil {
		return err
	}
	ended, end, err := connect(ctx, &cfg, store.Config{}, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	m, err := master.New(cfg) //nolint:contextcheck // what it registers is called later
	if err != nil {
		return err
	}
	return runUntil(ctx, ended, m.Run)
}

// connect has a master use the etcd that is named or, where none is, one that it embeds, with its data in dir. By ended
// an embedded one tells that it stopped by itself; end closes what was opened.
func connect(
	ctx context.Context, cfg *master.Config, etcd store.Config, dir string,
) (ended <-chan error, end func() error, err error) {
	etcd.Logger, etcd.Patience = cfg.Logger, math.MaxInt64
	var open []io.Closer
	if len(etcd.Endpoints) == 0 {
		embedded, err := store.Embedded(ctx, filepath.Join(dir, "etcd"), "", cfg.Logger)
		if err != nil {
			return nil, nil, err
		}
		open, ended = append(open, embedded), embedded.Err()
		etcd.Endpoints, etcd.Patience = embedded.Endpoints(), etcdPatience
	}
	cfg.Connect = func(ctx context.Context) (*store.Store, error) {
		opened, err := store.Open(ctx, etcd)
		if err == nil {
			open = append(open, opened)
		}
		return opened, err
	}
	return ended, func() error {
		var errs []error
		for _, c := range slices.Backward(open) {
			errs = append(errs, c.Close())
		}
		return errors.Join(errs...)
	}, nil
}

// runUntil runs until ctx ends, or something that run cannot do without.
func runUntil(ctx context.Context, ended <-chan error, run func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	finished := make(chan struct{})
	group.Go(func() error {
		defer close(finished)
		return run(ctx)
	})
	group.Go(func() error {
		select {
		case err := <-ended:
			return fmt.Errorf("the embedded etcd stopped: %w", err)
		case <-finished:
			return nil
		}
	})
	return group.Wait()
}

// etcdFlags are the settings of an etcd of one's own.
type etcdFlags struct {
	endpoints                               []string
	compact                                 bool
	prefix, user, password, ca, cert, keyOf string
}

func (f *etcdFlags) register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.endpoints, "etcd", nil, "etcd endpoints (default: an embedded etcd)")
	flags.StringVar(&f.prefix, "etcd-prefix", "penstock/", "prefix of all keys")
	flags.BoolVar(&f.compact, "etcd-compact", true,
		"let the leading master have etcd forget the history of its keys each minute, all of them, those of others "+
			"too; without it, etcd must do so by itself (--auto-compaction-retention=5m)")
	flags.StringVar(&f.user, "etcd-user", "", "user name")
	flags.StringVar(&f.password, "etcd-password-file", "", "file with the password of --etcd-user")
	flags.StringVar(&f.ca, "etcd-ca", "", "PEM authorities of etcd's certificate")
	flags.StringVar(&f.cert, "etcd-cert", "", "PEM client certificate")
	flags.StringVar(&f.keyOf, "etcd-key", "", "PEM key of --etcd-cert")
}

func (f *etcdFlags) config() store.Config {
	return store.Config{Endpoints: f.endpoints, Prefix: f.prefix, Username: f.user, PasswordFile: f.password}
}

// tls is nil where nothing but the system's defaults is asked for.
func (f *etcdFlags) tls() (*tls.Config, error) {
	if f.ca == "" && f.cert == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--etcd-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--etcd-ca: no PEM certificate in %s", f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.keyOf)
		if err != nil {
			return nil, fmt.Errorf("--etcd-cert: %w", err)
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if newest, err := tls.LoadX509KeyPair(f.cert, f.keyOf); err == nil {
				return &newest, nil
			}
			return &pair, nil // half of it is being renewed
		}
	}
	return cfg, nil
}
