package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"

	"github.com/spf13/cobra"
)

// Listen binds the port that a flag names.
func Listen(ctx context.Context, flag, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf(
			"--%s: another process has %s, such as a master or a worker that runs already: stop that one, or give "+
				"--%s another address (port 0 takes a free one): %w",
			flag, address, flag, err)
	}
	if err != nil {
		return nil, fmt.Errorf("--%s: %w; give HOST:PORT of this machine (port 0 takes a free one)", flag, err)
	}
	return l, nil
}

// ListenHTTP binds the port of --http; it is nil where the flag is "". An address that was asked for must be free. In
// place of the default one that is taken, as by another process of the same machine, any free port is bound, and said.
func ListenHTTP(cmd *cobra.Command, address string, logger *slog.Logger) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := Listen(cmd.Context(), "http", address)
	if errors.Is(err, syscall.EADDRINUSE) && !cmd.Flags().Changed("http") {
		host, _, _ := net.SplitHostPort(address)
		l, err = Listen(cmd.Context(), "http", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("%w; --http \"\" does without", err)
	}
	logger.Info("HTTP is up", "address", l.Addr())
	return l, nil
}
