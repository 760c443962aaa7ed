// Penstock brings data to trainers: a fleet of workers reads, decodes and transforms training data away from the
// accelerators and streams ready tensors to them. This is its one binary.
//
// To run it with ops of your own, copy this file into a module of yours and add them to the registry:
//
//	ops, err := transform.Builtin().With(myOp)
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	clientcommand "github.com/penstock-ml/penstock/client/command"
	"github.com/penstock-ml/penstock/cmd/demo"
	"github.com/penstock-ml/penstock/cmd/doctor"
	"github.com/penstock-ml/penstock/cmd/local"
	"github.com/penstock-ml/penstock/cmd/offline"
	"github.com/penstock-ml/penstock/cmd/read"
	mastercommand "github.com/penstock-ml/penstock/master/command"
	workercommand "github.com/penstock-ml/penstock/worker/command"
	"github.com/penstock-ml/penstock/worker/transform"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends what does not end at the first
	if err := command(transform.Builtin()).ExecuteContext(ctx); err != nil {
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		fmt.Fprintln(os.Stderr, "penstock:", err)
		os.Exit(1)
	}
}

func command(ops *transform.Registry) *cobra.Command {
	root := &cobra.Command{
		Use:     "penstock",
		Short:   "Preprocess training data on a fleet of workers, and stream tensors to trainers",
		Example: "  penstock demo",
		Version: version(),
		// main prints errors.
		SilenceErrors: true,
	}
	root.AddCommand(
		demo.Command(),
		mastercommand.Master(ops, root.Version),
		workercommand.Worker(ops, root.Version),
		local.Command(root.Version, ops),
		mastercommand.Keys(),
		mastercommand.Session(),
		mastercommand.Top(),
		mastercommand.Explain(),
		mastercommand.Events(),
		offline.Validate(ops),
		offline.Plan(ops),
		read.Command(root.Version, ops),
		clientcommand.Feed(root.Version),
		offline.Convert(),
		doctor.Command(root.Version),
		offline.Show(),
		offline.Ops(ops),
	)
	return root
}

// release is set by builds of packages (-ldflags "-X main.release=1.2.3").
var release string //nolint:gochecknoglobals // the linker's way in

func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
