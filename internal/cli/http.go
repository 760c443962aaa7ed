package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"

	"github.com/spf13/cobra"
)

// ListenHTTP binds the port of --http; it is nil where the flag is "". An address that was asked for must be free. In place of the
// default one that is taken, as by another process of the same machine, any free port is bound, and said.
func ListenHTTP(cmd *cobra.Command, address string, logger *slog.Logger) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) && !cmd.Flags().Changed("http") {
		host, _, _ := net.SplitHostPort(address)
		l, err = new(net.ListenConfig).Listen(cmd.Context(), "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("--http: %w; give a free address, or \"\" for none", err)
	}
	logger.Info("HTTP is up", "address", l.Addr())
	return l, nil
}
