package command

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/client/feed"
	"github.com/penstock-ml/penstock/internal/cli"
)

// Feed returns `penstock feed`, the trainer of a program in another language, of a release.
func Feed(release string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "feed",
		Short: "Hand batches to the program that started this one, in shared memory",
		Long: "Hand batches to the program that started this one, in shared memory: standard input is a Unix socket, over which it\n" +
			"opens sessions (client/feed/README.md). The Python package runs one in the background for all loaders of a process.",
		Example: "  penstock feed <&3",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := cli.Logger(cmd, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			control, err := greet(release)
			if err != nil {
				return err
			}
			return feed.Serve(cmd.Context(), control, nil, logger)
		},
	}
	return cli.Setup(cmd)
}

// greet takes the control connection that standard input is, and says that this process is there.
func greet(release string) (*net.UnixConn, error) {
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		return nil, fmt.Errorf("feed: standard input: %w; it has to be a Unix socket", err)
	}
	control, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("feed: standard input is a socket, but no Unix socket"), conn.Close())
	}
	if err := feed.Greet(control, release); err != nil {
		return nil, errors.Join(err, control.Close())
	}
	return control, nil
}
