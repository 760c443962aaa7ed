// Package cache is `penstock cache`: a process that serves buckets of blobs (internal/cache/bucket), and finds the others
// of its fleet by gossip.
package cache

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cache/bucket"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/telemetry"
	mastercommand "github.com/penstock-ml/penstock/master/command"
)

// settings are the flags.
type settings struct {
	dir, listen, advertise, http string
	plain                        bool
	buckets                      []string
	ports                        cli.RPCFlags
	tokens                       mastercommand.TokenFlags
	gossip                       cli.FleetFlags
}

// Command is `penstock cache`.
func Command(version string) *cobra.Command {
	var f settings
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Keep blobs of any programs on local disks, by HTTP",
		Long: "Serve buckets: programs PUT what is costly to make or to fetch under a name, and GET it again, from " +
			"any cache process\n" +
			"of the fleet (see docs/how-to/buckets.md). A blob has one owner among them. What was wanted least " +
			"lately is evicted.\n\n" +
			"Callers show a token of --token-file, --tokens or --token-review, of which the namespace says which " +
			"buckets are theirs.\n" +
			"Without these only callers of this machine are let in. Each blob takes 160 bytes of memory.",
		Example: "  penstock cache --dir /mnt/ssd/buckets --bucket team-a=100GiB\n" +
			"  penstock cache --dir /mnt/ssd/buckets --bucket shared=1TiB,team-a,team-b --listen 0.0.0.0:7073 " +
			"--advertise 10.0.0.9:7073 --gossip 0.0.0.0:7946 --join master:7946 --tokens tokens.yaml --token-file " +
			"token --tls-cert tls.crt --tls-key tls.key --tls-ca ca.crt",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, version) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "dir", "",
		"directory on a local disk, for this process alone: each bucket has a folder in it")
	flags.StringArrayVar(&f.buckets, "bucket", nil,
		"NAME=BYTES[,NAMESPACE...]: a bucket, what it may take of this process's disk, and whose it is (default: that "+
			"of its name's namespace); as often as there are buckets, and the same on all cache processes")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7073", "HTTP address to listen on; port 0 takes a free one")
	flags.StringVar(&f.advertise, "advertise", "",
		"HTTP address that other cache processes can reach (default: --listen)")
	flags.BoolVar(&f.plain, "plain-http", false,
		"listen on other addresses than this machine's own without a certificate: who sees the traffic sees the tokens")
	flags.StringVar(&f.http, "http", "",
		"address of metrics, probes and profiles (default: none); port 0 takes a free one")
	f.ports.Register(flags)
	f.tokens.Register(flags)
	f.gossip.Register(flags, "127.0.0.1:0")
	return cli.Setup(cmd)
}

func (f *settings) run(cmd *cobra.Command, version string) (err error) {
	output, err := cli.Output(cmd)
	if err != nil {
		return err
	}
	logger, err := cli.Logger(cmd, os.Stderr)
	if err != nil {
		return err
	}
	n := node{logger: logger}
	defer func() { err = errors.Join(err, n.close()) }()
	if err := f.open(cmd, &n, version); err != nil {
		return err
	}
	if output == "json" {
		if err := cli.Announce(cmd.OutOrStdout(), n.self.Address, n.fleet.Address(), n.httpListener); err != nil {
			return err
		}
	}
	logger.Info("the cache is up", "address", n.self.Address, "gossip", n.fleet.Address())
	return n.run(cmd.Context())
}

// open prepares what the flags name. What it opened is in the node, also if it fails.
func (f *settings) open(cmd *cobra.Command, n *node, version string) error {
	ports, err := f.ports.Config()
	if err != nil {
		return err
	}
	cfg := bucket.Config{Logger: n.logger, Owner: n.owner}
	if cfg.TLS, err = rpc.HTTPTLS(ports); err != nil {
		return err
	}
	if cfg.TLS == nil && !f.plain && !isLocal(f.listen) {
		return fmt.Errorf("--listen: others on the way to %s would see the tokens; set --tls-cert and --tls-key, or "+
			"--plain-http where nobody else is", f.listen)
	}
	if cfg.TLS != nil {
		if cfg.Peers, err = peers(ports); err != nil {
			return err
		}
	}
	if cfg.Authenticator, err = f.tokens.Open(ports.Token, n.logger); err != nil {
		return err
	}
	if cfg.Buckets, err = openBuckets(f.dir, f.buckets, n); err != nil {
		return err
	}
	if n.listener, err = cli.Listen(cmd.Context(), "listen", f.listen); err != nil {
		return err
	}
	cfg.Listener = n.listener
	if n.server, err = bucket.New(cfg); err != nil {
		return err
	}
	if n.httpListener, err = cli.ListenHTTP(cmd, f.http, n.logger); err != nil {
		return err
	}
	if err := n.openHTTP(cfg.TLS, cfg.Authenticator, version); err != nil {
		return err
	}
	return f.join(n, ports, version)
}

// join has the node found by the others.
func (f *settings) join(n *node, ports rpc.Config, version string) error {
	cfg, err := f.gossip.Config(ports.Token)
	if err != nil {
		return err
	}
	cfg.Logger = n.logger
	self := &cfg.Self
	self.Role, self.Address, self.Version = fleet.Cache, f.advertise, version
	if self.Address == "" {
		self.Address = n.listener.Addr().String()
	}
	if self.Name == "" {
		self.Name = "cache-" + self.Address
	}
	n.self = *self
	if n.fleet, err = fleet.New(cfg); err != nil {
		return err
	}
	n.look()
	return nil
}

// isLocal reports whether only this machine reaches an address.
func isLocal(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// peers speaks to the other nodes by TLS, as --tls-ca and --tls-server-name say.
func peers(ports rpc.Config) (http.RoundTripper, error) {
	dial, err := rpc.TLSDialer(ports)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			return dial(ctx, network, address)
		},
		ResponseHeaderTimeout: 30 * time.Second, IdleConnTimeout: 2 * time.Minute, MaxIdleConnsPerHost: 64,
		DisableCompression: true,
	}, nil
}

const dialTimeout = 4 * time.Second

// openHTTP prepares the port of metrics, if there is one.
func (n *node) openHTTP(tls *tls.Config, known identity.Authenticator, version string) (err error) {
	if n.httpListener == nil {
		return nil
	}
	cfg := telemetry.Config{
		Listener: n.httpListener, TLS: tls, Logger: n.logger,
		Metrics: telemetry.NewRegistry(version, n.server.Metrics()...),
	}
	if known != nil {
		cfg.Web = identity.Web{Authenticator: known, Seal: identity.NewSeal()}
	}
	n.http, err = telemetry.New(cfg)
	return err
}
