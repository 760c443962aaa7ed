// Package command holds `penstock feed`, the trainer of a program in another language. It is used from one goroutine.
package command

import (
	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/client/feed"
	"github.com/penstock-ml/penstock/internal/cli"
)

// Feed returns `penstock feed`, the trainer of a program in another language, of a release.
func Feed(release string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "feed",
		Short: "Hand batches to the program that started this one, in shared memory",
		Long: "Hand batches to the program that started this one, in shared memory: standard input is a Unix " +
			"socket, over which it\n" +
			"opens sessions (docs/internals/feed.md). The Python package runs one in the background for all loaders " +
			"of a process.",
		Example: "  penstock feed <&3",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := cli.Logger(cmd, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			control, err := feed.FromStdin(release)
			if err != nil {
				return err
			}
			return feed.Serve(cmd.Context(), control, nil, logger)
		},
	}
	return cli.Setup(cmd)
}
