// Package command holds the worker's commands, `penstock worker` and `penstock ops`, for main.go or a main of
// one's own with more ops.
package command

import (
	"fmt"
	"net"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/worker"
	"github.com/penstock-ml/penstock/worker/transform"
)

// overhead is what a worker takes besides its streams' memory: code, connections, footers.
const overhead = 96 << 20

// Worker returns `penstock worker`, which runs a worker with the given ops until it is interrupted.
func Worker(ops *transform.Registry, version string) *cobra.Command {
	var (
		listen, advertise string
		slots             int
		memory            = cli.Bytes(192 << 20)
		ports             cli.RPCFlags
		stores            cli.StorageFlags
		gossip            cli.FleetFlags
	)
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a worker: shards in, tensor batches out",
		Long: "Run a worker. It keeps no state: start and stop as many as you like, at any time. It finds the masters by\n" +
			"gossip, and drains on SIGTERM and SIGINT: its streams go on elsewhere, at the row.",
		Example: "  penstock worker --join 127.0.0.1:7946\n" +
			"  penstock worker --listen 0.0.0.0:7071 --advertise 10.0.0.7:7071 --gossip 0.0.0.0:7946 --join master:7946 --memory 2GiB",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", "127.0.0.1:0", "Flight address to listen on; port 0 takes a free one")
	flags.StringVar(&advertise, "advertise", "", "Flight address that trainers can reach (default: --listen)")
	flags.IntVar(&slots, "slots", 0, "streams served at once (default: two for each CPU)")
	flags.Var(&memory, "memory", "bytes that all streams may hold")
	ports.Register(flags)
	stores.Register(flags)
	gossip.Register(flags, "127.0.0.1:0", "127.0.0.1:7946")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		output, err := cli.Output(cmd)
		if err != nil {
			return err
		}
		if slots < 0 {
			return fmt.Errorf("--slots: want 0 or more, found %d", slots)
		}
		logger, err := cli.Logger(cmd, os.Stderr)
		if err != nil {
			return err
		}
		rpcConfig, err := ports.Config()
		if err != nil {
			return err
		}
		store, err := stores.Open()
		if err != nil {
			return err
		}
		listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", listen)
		if err != nil {
			return fmt.Errorf("worker: %w", err)
		}
		if os.Getenv("GOMEMLIMIT") == "" {
			// Collect in time: what streams hold is bounded, but without a limit garbage may be as much again.
			debug.SetMemoryLimit(int64(memory) + overhead)
		}
		w, err := worker.New(worker.Config{
			Listener: listener, Advertise: advertise, Fleet: gossip.Config(rpcConfig.Token), RPC: rpcConfig,
			Slots: slots, Memory: int64(memory), Storage: store, Ops: ops, Version: version, Logger: logger,
			Up: func(address, gossip string) {
				if output == "json" {
					_ = cli.Announce(cmd.OutOrStdout(), address, gossip)
				}
			},
		})
		if err != nil {
			return err
		}
		return w.Run(cmd.Context())
	}
	return cli.Setup(cmd)
}
