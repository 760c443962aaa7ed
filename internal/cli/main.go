package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/terminal"
)

// Main runs a program's command until it ends, or until SIGINT or SIGTERM interrupts it; the second one kills it. It
// prints the error that it ends with, and returns the exit status.
func Main(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends what does not end at the first
	root.SilenceErrors = true
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	terminal.Printf(os.Stderr, "%s: %s\n", root.Name(), terminal.Lines(err.Error()))
	return 1
}
