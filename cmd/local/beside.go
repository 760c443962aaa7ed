package local

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// Beside runs do with a fleet in this process, at an address and with a token of its own, and ends the fleet with it. It does so once.
func (o Own) Beside(cmd *cobra.Command, do func(ctx context.Context, master string, cfg rpc.Config) error) (err error) {
	l := &local{Own: o, listen: "127.0.0.1:0", quiet: true}
	f := &localFleet{}
	if f.logger, err = cli.Logger(cmd, cmd.ErrOrStderr()); err != nil {
		return err
	}
	up := make(chan process.Announcement, 1)
	f.feed = func(ctx context.Context) error {
		select {
		case a := <-up:
			return do(ctx, a.Address, rpc.Config{Token: f.token})
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return l.keep(cmd, f, func(a process.Announcement) error {
		up <- a
		return nil
	})
}
