// Command peers is the Go part of the comparison of Penstock with other systems (`make bench-peers`): it makes the
// workloads' datasets, and is the trainer of the Go client, which has its fleet profiled, too. The rest is Python:
// package peers beside it measures, package bench/workload says what. Each of its processes has one user; nothing is
// shared.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli"
)

func main() {
	root := &cobra.Command{Use: "peers", Short: "The Go part of bench/peers", SilenceUsage: true}
	root.AddCommand(makeCommand(), readCommand(), downloadCommand())
	os.Exit(cli.Main(root))
}
