package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/process"
)

// children has a fleet be a master in a process of its own, which keeps its workers.
func (l *local) children(cmd *cobra.Command, f *fleet, data string) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	flags := append([]string{
		"master", "--listen=" + l.listen, "--gossip=127.0.0.1:0", "--join=", "--http=127.0.0.1:0", "--data-dir=" + data,
		"--scale=local", "--worker-dir=" + l.dir, fmt.Sprint("--min-workers=", l.workers), fmt.Sprint("--max-workers=", l.mostWorkers()),
		fmt.Sprint("--worker-flag=--slots=", slots(runtime.GOMAXPROCS(0), l.mostWorkers())), fmt.Sprint("--worker-cpus=", l.cpus()),
	}, l.commonFlags(cmd)...)
	if memory := l.workerMemory(cmd); memory != "" {
		flags = append(flags, "--worker-flag="+memory)
	}
	f.start = func(context.Context) (server, error) {
		return process.Start(process.Config{Name: "master", Binary: binary, Args: flags, Log: filepath.Join(l.dir, "master.log")})
	}
	return nil
}

func (l *local) mostWorkers() int { return max(l.workers, l.most) }

// cpus is how many each worker uses. Where their number changes, each has its part, so that more of them do more.
func (l *local) cpus() int {
	most := l.mostWorkers()
	if l.workers == most {
		return 0
	}
	return (runtime.GOMAXPROCS(0) + most - 1) / most
}

// workerMemory is the flag of each worker's memory. What streams may hold if they need it is an eighth of the memory that there is, the
// worker's default, or what of a quarter is left to each of several.
func (l *local) workerMemory(cmd *cobra.Command) string {
	if cmd.Flags().Changed("memory") {
		return fmt.Sprint("--memory=", int64(l.memory))
	}
	if most := l.mostWorkers(); most > 2 {
		return fmt.Sprint("--max-memory=", process.Memory(os.DirFS("/"))/4/int64(most))
	}
	return ""
}

// commonFlags are those of the master that it passes on to its workers.
func (l *local) commonFlags(cmd *cobra.Command) []string {
	flags := []string{"--token-file=" + l.tokenFile}
	for _, name := range []string{"log-level", "log-format", "storage-config"} {
		if f := cmd.Flags().Lookup(name); f.Value.String() != "" {
			flags = append(flags, "--"+name+"="+f.Value.String())
		}
	}
	return flags
}

// slots of each worker together keep all CPUs busy, as those of one worker alone would.
func slots(cpus, workers int) int { return max(2, (2*cpus+workers-1)/workers) }
