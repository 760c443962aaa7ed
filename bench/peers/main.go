// Command peers is the Go part of the comparison of Penstock with other systems (`make bench-peers`): it makes the workloads'
// datasets, and is the trainer of the Go client. The rest is Python: package peers beside it measures, package bench/workload says what.
// Each of its processes has one user; nothing is shared.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "peers", Short: "The Go part of bench/peers", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(makeCommand(), readCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}
