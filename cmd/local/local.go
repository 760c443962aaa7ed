// Package local is `penstock local`, a fleet for the trainers of this machine: a master that keeps its workers as
// processes, or a master and a worker within this process, which `penstock read` uses, too. Everything that runs has
// one owner, fleet.run, which waits for it.
package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/client/feed"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/worker"
	workercommand "github.com/penstock-ml/penstock/worker/command"
	"github.com/penstock-ml/penstock/worker/transform"
)

// local is `penstock local`.
type local struct {
	release                string
	ops                    *transform.Registry
	listen, tokenFile, dir string
	stores                 cli.StorageFlags
	cache                  workercommand.CacheFlags
	functions              workercommand.PythonFlags
	workers, maxWorkers    int
	memory                 cli.Bytes
	feeds                  bool
	list                   *worker.Local // takes the worker in this process, if there is one
	prints                 *prints       // takes what functions print there; nil: nothing does
}

// Command returns `penstock local` of a release, which runs a fleet on this machine until it is interrupted.
func Command(release string, ops *transform.Registry) *cobra.Command {
	l := &local{release: release, ops: ops, list: &worker.Local{}}
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Run a fleet on this machine: a master and workers",
		Long: "Run a fleet on this machine, for trainers on this machine: a master with an embedded etcd, and " +
			"workers, as\n" +
			"processes of their own on loopback. A worker that dies is replaced. The fleet ends with this command, " +
			"however\n" +
			"that ends, and so do its sessions: nothing is kept. One worker uses all CPUs; with several, " +
			"streams go on\n" +
			"while one that died is replaced. With --max-workers there are as many, from --workers on, as trainers " +
			"can make\n" +
			"use of, each with its part of the CPUs. With --output json, one line tells programs where the " +
			"fleet is:\n" +
			"{\"address\": the master's, \"gossip\": for further workers to --join, \"token_file\": what all of " +
			"them ask for}.\n" +
			"With --feed it is `penstock feed` besides, and ends with the program. With --workers 0 all of it\n" +
			"is this one process, and batches come to the program without a network between.",
		Example: "  penstock local\n  penstock local --workers 2 --memory 1GiB --dir logs\n  penstock local " +
			"--max-workers 4\n" +
			"  penstock local --code by-value --python default=python3\n" +
			"  penstock local --code by-name --python default=python3 --python-modules default=mypkg.features\n" +
			"  penstock local --output json --end-with-stdin",
		Args: cobra.NoArgs,
		RunE: l.run,
	}
	flags := cmd.Flags()
	flags.StringVar(&l.listen, "listen", "127.0.0.1:0", "loopback address of the master; port 0 takes a free one")
	flags.IntVar(&l.workers, "workers", 1,
		"worker processes; they share the CPUs. 0, with --feed: all is in this process")
	flags.IntVar(&l.maxWorkers, "max-workers", 0,
		"most worker processes, of which there are --workers at least (default: no more than these)")
	flags.Var(&l.memory, "memory", "bytes that all streams of a worker may hold (default: as for penstock worker)")
	flags.Lookup("memory").DefValue = "" // the worker's
	flags.StringVar(&l.tokenFile, "token-file", "",
		"file with the token that callers must show (default: a new one, in a private directory)")
	l.stores.Register(flags)
	l.cache.Register(flags)
	l.functions.Register(flags)
	flags.StringVar(&l.dir, "dir", "",
		"directory for the processes' logs (default: a temporary one, kept only after a failure)")
	flags.BoolVar(&l.feeds, "feed", false,
		"hand batches to the program that started this one, over standard input, as penstock feed does")
	return cli.Setup(cmd)
}

func (l *local) run(cmd *cobra.Command, _ []string) (err error) {
	output, err := cli.Output(cmd)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	var control *net.UnixConn
	if l.feeds {
		os.Stdout = os.Stderr // what ops print is for the log: the program reads no more than the announcement
		if control, err = feed.FromStdin(l.release); err != nil {
			return err
		}
		defer control.Close() //nolint:errcheck // feeding has closed it
	}
	if err := l.check(); err != nil {
		return err
	}
	f := &fleet{}
	if f.logger, err = cli.Logger(cmd, cmd.ErrOrStderr()); err != nil {
		return err
	}
	if l.feeds {
		var here client.Local
		if l.workers == 0 {
			here = l.list
		}
		f.feed = func(ctx context.Context) error { return feed.Serve(ctx, control, here, f.logger) }
		l.prints = newPrints(out)
		defer l.prints.close() // what prints has ended by then
	}
	return l.keep(cmd, f, func(a process.Announcement) error { return l.announce(out, a, output) })
}

// keep runs a fleet, with directories of its own, until it ends; up is told where it is.
func (l *local) keep(cmd *cobra.Command, f *fleet, up func(process.Announcement) error) (err error) {
	if err := removeAbandoned(); err != nil {
		f.logger.Warn("could not remove what a killed fleet left", "error", err)
	}
	private, lock, err := newDir()
	if err != nil {
		return err
	}
	defer lock.Close()
	defer func() { err = errors.Join(err, l.clean(private, err != nil)) }()
	if err := l.prepare(private); err != nil {
		return err
	}
	if f.token, err = rpc.ReadSecret(l.tokenFile); err != nil {
		return err
	}
	f.workers = max(1, l.workers)
	if data := filepath.Join(private, "master"); l.workers > 0 {
		l.apart(cmd, f, data)
	} else if err := l.here(cmd, f, data); err != nil {
		return err
	}
	return f.run(cmd.Context(), func(a process.Announcement) error {
		a.TokenFile = l.tokenFile
		return up(a)
	})
}

func (l *local) check() error {
	if l.workers < 0 || l.workers == 0 && !l.feeds {
		return fmt.Errorf("--workers: want 1 or more, found %d", l.workers)
	}
	if _, err := l.functions.Config(nil); err != nil {
		return err
	}
	if l.maxWorkers != 0 && l.workers == 0 {
		return errors.New("--max-workers: is of worker processes; with --workers 0 there are none")
	}
	if l.maxWorkers != 0 && l.maxWorkers < l.workers {
		return fmt.Errorf("--max-workers: want %d or more, which --workers asks for, found %d", l.workers, l.maxWorkers)
	}
	host, _, err := net.SplitHostPort(l.listen)
	if err != nil {
		return fmt.Errorf("--listen: want an address such as 127.0.0.1:0: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("--listen: %s is no loopback address: a local fleet serves its own machine; "+
			"for others run `penstock master` and `penstock worker`", l.listen)
	}
	return nil
}

// prepare makes the directories and the token, and paths absolute, since they are told to others.
func (l *local) prepare(private string) (err error) {
	if l.dir == "" {
		l.dir = filepath.Join(private, "logs")
	}
	if l.dir, err = filepath.Abs(l.dir); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	if l.tokenFile == "" {
		l.tokenFile = filepath.Join(private, "token")
		if err := os.WriteFile(l.tokenFile, []byte(rand.Text()), 0o600); err != nil {
			return fmt.Errorf("local: token: %w", err)
		}
	}
	if l.tokenFile, err = filepath.Abs(l.tokenFile); err != nil {
		return fmt.Errorf("--token-file: %w", err)
	}
	return nil
}

// clean removes what the fleet kept, but for the logs of processes of one that failed.
func (l *local) clean(private string, failed bool) error {
	if !failed || l.workers == 0 || l.dir != filepath.Join(private, "logs") {
		return os.RemoveAll(private)
	}
	var errs []error
	for _, name := range []string{"master", "token", lockName} {
		errs = append(errs, os.RemoveAll(filepath.Join(private, name)))
	}
	return errors.Join(errs...)
}

// dashboard says where to look at the fleet, and what to show there.
func dashboard(a process.Announcement) string {
	if a.HTTP == "" {
		return ""
	}
	return fmt.Sprintf("The dashboard is at http://%s; it asks for the token, which is in %s\n", a.HTTP, a.TokenFile)
}

func (l *local) announce(out io.Writer, a process.Announcement, output string) error {
	if output == "json" {
		return cli.PrintJSON(out, a)
	}
	_, err := fmt.Fprintf(out, "A fleet of 1 master and %s is up at %s, until this command ends (Ctrl-C).\n\n"+
		"  penstock read spec.yaml --master %s --token-file %s\n"+
		"  penstock.DataLoader(..., master=%q, connection=penstock.Connection(token_file=%q))  # in Python\n\n"+
		"%sLogs are in %s\n",
		english.Plural(max(1, l.workers), "worker", ""), a.Address, a.Address, a.TokenFile, a.Address,
		a.TokenFile, dashboard(a), l.dir)
	return err
}
