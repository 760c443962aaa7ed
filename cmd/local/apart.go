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

// Apart is a master in a process of its own that keeps workers in processes of theirs, all on loopback. They end with
// this process, however that ends.
type Apart struct {
	Listen    string // the master's address
	TokenFile string // what all of them ask for
	Data      string // folder of the master's data
	Logs      string // folder of the processes' logs and, of each worker, a file with its process's number
	// How many workers there are.
	MinWorkers, MaxWorkers int
	Flags                  []string // of the master besides
}

// Start starts the master, as a command of this binary.
func (a Apart) Start() (*process.Process, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	flags := append([]string{
		"master", "--listen=" + a.Listen, "--gossip=127.0.0.1:0", "--join=", "--http=127.0.0.1:0",
		"--data-dir=" + a.Data, "--token-file=" + a.TokenFile, "--scale=local", "--worker-dir=" + a.Logs,
		fmt.Sprint("--min-workers=", a.MinWorkers), fmt.Sprint("--max-workers=", a.MaxWorkers),
	}, a.Flags...)
	return process.Start(process.Config{
		Name: "master", Binary: binary, Args: flags, Log: filepath.Join(a.Logs, "master.log"),
	})
}

// apart has a fleet be such a master.
func (l *local) apart(cmd *cobra.Command, f *fleet, data string) {
	maxWorkers := max(l.workers, l.maxWorkers)
	flags := append([]string{
		fmt.Sprint("--worker-flag=--slots=", slots(runtime.GOMAXPROCS(0), maxWorkers)), fmt.Sprint("--worker-cpus=",
			l.cpus(maxWorkers)),
	}, passedOn(cmd)...)
	if memory := l.workerMemory(cmd, maxWorkers); memory != "" {
		flags = append(flags, "--worker-flag="+memory)
	}
	for _, arg := range l.cache.Args() {
		flags = append(flags, "--worker-flag="+arg)
	}
	code := "--code=" + l.functions.Code()
	flags = append(flags, code, "--worker-flag="+code)
	for _, arg := range l.functions.Args() {
		flags = append(flags, "--worker-flag="+arg)
	}
	f.start = func(context.Context) (server, error) {
		return Apart{
			Listen: l.listen, TokenFile: l.tokenFile, Data: data, Logs: l.dir,
			MinWorkers: l.workers, MaxWorkers: maxWorkers, Flags: flags,
		}.Start()
	}
}

// cpus is how many each worker uses. Where their number changes, each has its part, so that more of them do more.
func (l *local) cpus(maxWorkers int) int {
	if l.workers == maxWorkers {
		return 0
	}
	return (runtime.GOMAXPROCS(0) + maxWorkers - 1) / maxWorkers
}

// workerMemory is the flag of each worker's memory. What streams may hold if they need it is an eighth of the memory
// that there is, the worker's default, or what of a quarter is left to each of several.
func (l *local) workerMemory(cmd *cobra.Command, maxWorkers int) string {
	if cmd.Flags().Changed("memory") {
		return fmt.Sprint("--memory=", int64(l.memory))
	}
	if maxWorkers > 2 {
		return fmt.Sprint("--max-memory=", process.Memory(os.DirFS("/"))/4/int64(maxWorkers))
	}
	return ""
}

// passedOn are settings of this command that are the master's, too, which passes them on to its workers.
func passedOn(cmd *cobra.Command) (flags []string) {
	for _, name := range []string{"log-level", "log-format", "storage-config"} {
		if f := cmd.Flags().Lookup(name); f.Value.String() != "" {
			flags = append(flags, "--"+name+"="+f.Value.String())
		}
	}
	return flags
}

// slots of each worker together keep all CPUs busy, as those of one worker alone would.
func slots(cpus, workers int) int { return max(2, (2*cpus+workers-1)/workers) }
