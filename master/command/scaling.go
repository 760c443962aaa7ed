package command

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/autoscale"
	"github.com/penstock-ml/penstock/master/autoscale/kubernetes"
	"github.com/penstock-ml/penstock/master/autoscale/local"
)

// scalingFlags say how many workers there should be, and who keeps them.
type scalingFlags struct {
	by          string
	limits      autoscale.Config
	kube        kubernetes.Config
	workerDir   string
	workerFlags []string
	workerCPUs  int
}

func (f *scalingFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.by, "scale", "none",
		"who keeps the workers, as many as their sessions need: none (you do), local (this master, as processes of "+
			"this machine) or kubernetes (a Deployment)")
	flags.IntVar(&f.limits.MinWorkers, "min-workers", 1, "fewest workers, with --scale")
	flags.IntVar(&f.limits.MaxWorkers, "max-workers", 0,
		"most workers, with --scale (default: 1,000; with --scale local one for each CPU)")
	flags.Float64Var(&f.limits.Utilisation, "target-utilisation", autoscale.Utilisation,
		"share of their time for which workers should be busy")
	flags.DurationVar(&f.limits.UpAfter, "scale-up-after", 10*time.Second,
		"how long to measure before there are more workers")
	flags.DurationVar(&f.limits.DownAfter, "scale-down-after", 2*time.Minute,
		"for how long fewer workers must have been enough")
	flags.DurationVar(&f.limits.StartUp, "worker-start-up", time.Minute,
		"how long a worker may take until it serves; before that, more workers are not found to be of no help")
	flags.StringVar(&f.kube.Deployment, "kube-deployment", "penstock-worker",
		"Deployment of the workers, with --scale kubernetes; a worker's --name is its pod's")
	flags.StringVar(&f.kube.Namespace, "kube-namespace", "",
		"namespace of --kube-deployment (default: this pod's, or the kubeconfig's)")
	flags.StringVar(&f.kube.Kubeconfig, "kubeconfig", "",
		"file that says how to reach Kubernetes (default: the cluster that this master runs in)")
	flags.StringVar(&f.workerDir, "worker-dir", "",
		"directory of workers' logs and process numbers, with --scale local (default: workers in --data-dir)")
	flags.StringArrayVar(&f.workerFlags, "worker-flag", nil,
		"flag for each worker, such as --worker-flag=--memory=1GiB, with --scale local; may be repeated")
	flags.IntVar(&f.workerCPUs, "worker-cpus", 0,
		"CPUs that each worker uses, with --scale local (default: its part of all, if there are --max-workers)")
}

// passedOn are the settings that workers of --scale local have from their master.
func passedOn() []string {
	return []string{
		"token-file", "tls", "tls-cert", "tls-key", "tls-ca", "tls-client-ca", "tls-server-name", "gossip-key-file",
		"storage-config", "log-level", "log-format", "zone",
	}
}

// actuator is who keeps the workers, and what is to run beside the master for it; nil for none.
func (f *scalingFlags) actuator(
	cmd *cobra.Command, dataDir string, logger *slog.Logger,
) (*local.Fleet, master.Scaling, error) {
	out := master.Scaling{Config: f.limits}
	out.TrimAfter = max(7*out.DownAfter, out.UpAfter)
	switch f.by {
	case "none":
		return nil, out, nil
	case "kubernetes":
		a, err := kubernetes.New(f.kube)
		out.Actuator = a
		return nil, out, err
	case "local":
		all := runtime.GOMAXPROCS(0)
		out.MaxWorkers = cmp.Or(out.MaxWorkers, max(out.MinWorkers, all))
		fleet, err := f.local(cmd, dataDir, cmp.Or(f.workerCPUs, part(all, out.MaxWorkers)), logger)
		out.Actuator = fleet
		return fleet, out, err
	}
	return nil, out, fmt.Errorf("--scale: want one of none, local, kubernetes, found %q", f.by)
}

// part is the CPUs that each of so many workers may use of all. Each would take itself for idle otherwise, while others
// are busy.
func part(cpus, workers int) int { return max(1, cpus/max(1, workers)) }

func (f *scalingFlags) local(cmd *cobra.Command, dataDir string, cpus int, logger *slog.Logger) (*local.Fleet, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("--scale local: %w", err)
	}
	dir := cmp.Or(f.workerDir, filepath.Join(dataDir, "workers"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--worker-dir: %w", err)
	}
	var args []string
	if token := cmd.Flags().Lookup("worker-token-file").Value.String(); token != "" {
		args = append(args, "--token-file="+token)
	}
	for _, name := range passedOn() {
		if name == "token-file" && len(args) > 0 {
			continue
		}
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Value.String() != flag.DefValue {
			args = append(args, "--"+name+"="+flag.Value.String())
		}
	}
	return local.New(local.Config{
		Binary: binary, Args: append(args, f.workerFlags...), CPUs: cpus, Dir: dir,
		Logger: logger,
	}), nil
}

// together runs a master and the workers of this machine, if it has any, until one of them ends.
func together(m *master.Master, workers *local.Fleet) func(context.Context) error {
	if workers == nil {
		return m.Run
	}
	return func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var group errgroup.Group
		group.Go(func() error {
			defer cancel() // nobody else would keep workers
			return workers.Run(ctx)
		})
		group.Go(func() error {
			defer cancel()
			return m.Run(ctx)
		})
		return group.Wait()
	}
}
