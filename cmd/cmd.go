// Package cmd is the command line of Penstock: all that its one binary does. Each folder below has a command, but for
// generate.
package cmd

import (
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	clientcommand "github.com/penstock-ml/penstock/client/command"
	"github.com/penstock-ml/penstock/cmd/apply"
	"github.com/penstock-ml/penstock/cmd/cache"
	"github.com/penstock-ml/penstock/cmd/demo"
	"github.com/penstock-ml/penstock/cmd/doctor"
	"github.com/penstock-ml/penstock/cmd/fit"
	"github.com/penstock-ml/penstock/cmd/local"
	"github.com/penstock-ml/penstock/cmd/offline"
	"github.com/penstock-ml/penstock/cmd/read"
	"github.com/penstock-ml/penstock/internal/cli"
	mastercommand "github.com/penstock-ml/penstock/master/command"
	workercommand "github.com/penstock-ml/penstock/worker/command"
	"github.com/penstock-ml/penstock/worker/transform"
)

// Main runs the command that the process was started with, on workers and masters that have these ops, and ends the
// process: with status 1 if it failed. Release is what --version prints; "" is the version of the main module.
func Main(release string, ops *transform.Registry) {
	os.Exit(cli.Main(Command(version(release), ops)))
}

// Command is `penstock`, with all its commands.
func Command(version string, ops *transform.Registry) *cobra.Command {
	root := &cobra.Command{
		Use:     "penstock",
		Short:   "Preprocess training data on a fleet of workers, and stream tensors to trainers",
		Example: "  penstock demo",
		Version: version,
	}
	root.AddCommand(
		demo.Command(),
		mastercommand.Master(ops, root.Version),
		workercommand.Worker(ops, root.Version),
		workercommand.PythonHost(),
		cache.Command(root.Version),
		local.Command(root.Version, ops),
		mastercommand.Keys(),
		mastercommand.Session(),
		mastercommand.Top(),
		mastercommand.Explain(),
		mastercommand.Events(),
		mastercommand.Features(),
		offline.Validate(ops),
		offline.Plan(ops),
		read.Command(root.Version, ops),
		apply.Command(ops),
		apply.Serve(ops),
		fit.Command(root.Version, ops),
		clientcommand.Feed(root.Version),
		offline.Convert(),
		offline.Index(),
		offline.Diff(),
		doctor.Command(root.Version),
		offline.Show(),
		offline.Ops(ops),
		offline.Try(ops),
	)
	return root
}

func version(release string) string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
