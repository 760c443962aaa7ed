package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/worker/python"
)

// hostFlags are the settings of `penstock python-host`.
type hostFlags struct {
	socket, interpreter string
	path                []string
	workers             []uint
	users               string
}

// PythonHost returns `penstock python-host`, which starts Python processes for workers until it is interrupted.
func PythonHost() *cobra.Command {
	f := hostFlags{}
	cmd := &cobra.Command{
		Use:   "python-host",
		Short: "Run users' Python functions for a worker in another container",
		Long: "Run users' Python functions for a worker that has no Python, such as one in another container of\n" +
			"its pod. It runs where Python is, with penstock and the packages that functions import, and\n" +
			"listens at a socket in a folder that both have. The worker names the socket in place of an\n" +
			"interpreter: --python default=unix:PATH. Each process that is started for a worker ends with it,\n" +
			"at the latest.\n\n" +
			"Only this user and root may connect, and the users of --worker-user. On SIGTERM it waits for its\n" +
			"workers to end, for 20 seconds at most.",
		Example: "  penstock python-host --socket /run/penstock/python/default.sock --python python3\n" +
			"  penstock python-host --socket /run/penstock/python/default.sock --python /opt/venv/bin/python " +
			"--worker-user 65532",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.socket, "socket", "", "file of the socket to listen at, such as "+
		"/run/penstock/python/default.sock; its folder must exist")
	flags.StringVar(&f.interpreter, "python", "python3", "interpreter that functions run in, with the penstock package")
	flags.StringArrayVar(&f.path, "python-path", nil,
		"folder in which the interpreter looks for modules before its own; may be repeated")
	flags.UintSliceVar(&f.workers, "worker-user", nil,
		"id of another user that may connect, such as 65532: the worker's")
	flags.Lookup("worker-user").DefValue = "" // none
	usersFlag(flags, &f.users)
	return cli.Setup(cmd)
}

func (f *hostFlags) run(cmd *cobra.Command) error {
	if f.socket == "" {
		return errors.New("--socket: name a file, such as /run/penstock/python/default.sock")
	}
	cfg := python.HostConfig{}
	for _, id := range f.workers {
		if id > 1<<32-2 {
			return fmt.Errorf("--worker-user: want a user's id, found %d", id)
		}
		cfg.Workers = append(cfg.Workers, uint32(id))
	}
	var err error
	if cfg.Environment.Interpreter, err = interpreterAt(f.interpreter); err != nil {
		return fmt.Errorf("--python: %w; name an interpreter's file", err)
	}
	for _, dir := range f.path {
		if dir, err = filepath.Abs(dir); err != nil {
			return fmt.Errorf("--python-path: %w", err)
		}
		cfg.Environment.Path = append(cfg.Environment.Path, dir)
	}
	if cfg.Users, err = usersOf(f.users); err != nil {
		return err
	}
	if err := f.apart(cfg); err != nil {
		return err
	}
	if cfg.Logger, err = cli.Logger(cmd, os.Stderr); err != nil {
		return err
	}
	if err := python.Hide(); err != nil {
		return err
	}
	h, err := python.NewHost(cfg)
	if err != nil {
		return err
	}
	l, err := python.ListenHost(f.socket, len(f.workers) > 0)
	if err != nil {
		return fmt.Errorf("--socket: %w", err)
	}
	cfg.Logger.Info("the Python host is up", "socket", f.socket, "python", cfg.Environment.Interpreter)
	return h.Run(cmd.Context(), l)
}

// apart refuses settings by which a function with a user id of its own could be a worker to the host, or a host to the
// worker: it would get other namespaces' functions and rows.
func (f *hostFlags) apart(cfg python.HostConfig) error {
	if cfg.Users == (python.Users{}) {
		return nil
	}
	for _, id := range cfg.Workers {
		if cfg.Users.First <= id && id <= cfg.Users.Last {
			return fmt.Errorf("--worker-user: functions may run as user %d, which is of --python-users; take a range "+
				"without it", id)
		}
	}
	dir := filepath.Dir(f.socket)
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("--socket: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("--socket: any user may replace files in %s, and so may functions; chmod +t %[1]s, or let "+
			"its owner alone write to it", dir)
	}
	return nil
}

// usersOf are the user ids of a text such as 20000-29999; "" is none.
func usersOf(text string) (u python.Users, err error) {
	if text == "" {
		return u, nil
	}
	first, last, ok := strings.Cut(text, "-")
	a, err := strconv.ParseUint(first, 10, 32)
	b, err2 := strconv.ParseUint(last, 10, 32)
	if !ok || err != nil || err2 != nil || a == 0 || a > b {
		return u, fmt.Errorf("--python-users: want FIRST-LAST, such as 20000-29999, found %q", text)
	}
	return python.Users{First: uint32(a), Last: uint32(b)}, nil
}
