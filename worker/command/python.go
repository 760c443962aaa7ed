package command

import (
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/penstock-ml/penstock/worker/python"
)

// What --code takes.
const (
	noCode  = "none"
	byValue = "by-value"
)

// PythonFlags are the settings of users' functions, of a worker and of whoever starts workers.
type PythonFlags struct {
	interpreters, paths []string
	code                string
	processes           int
	users               string
}

// Register adds the flags.
func (f *PythonFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.code, "code", noCode,
		"which Python functions of trainers' are run: none, or by-value, whatever a session brings, as this user")
	flags.StringArrayVar(&f.interpreters, "python", nil,
		"interpreter that functions run in, as NAME=PATH, with the penstock package in it, or the socket of a "+
			"penstock python-host, as NAME=unix:PATH; sessions use the one named "+python.Default+"; may be repeated")
	flags.StringArrayVar(&f.paths, "python-path", nil,
		"folder in which the interpreter of a name looks for modules before its own, as NAME=DIR; may be repeated")
	flags.IntVar(&f.processes, "python-processes", 0,
		"processes that run functions at once (default: one for each CPU)")
}

// RegisterWorker adds those that concern one worker alone.
func (f *PythonFlags) RegisterWorker(flags *pflag.FlagSet) { usersFlag(flags, &f.users) }

func usersFlag(flags *pflag.FlagSet, users *string) {
	flags.StringVar(users, "python-users", "",
		"user ids of which each namespace's processes get one, as FIRST-LAST, such as 20000-29999; nobody else on this "+
			"machine, or in this container, may have them, and it takes root or CAP_SETUID, CAP_SETGID, CAP_KILL and "+
			"CAP_CHOWN (default: all run as this user)")
}

// Config is what a worker is to run; nil: no functions.
func (f *PythonFlags) Config(logger *slog.Logger) (*python.Config, error) {
	environments, err := f.environments()
	if err != nil {
		return nil, err
	}
	_, hasDefault := environments[python.Default]
	switch {
	case f.processes < 0:
		return nil, fmt.Errorf("--python-processes: want 0 or more, found %d", f.processes)
	case f.code == noCode, f.code == "":
		return nil, nil //nolint:nilnil // documented
	case f.code != byValue:
		return nil, fmt.Errorf("--code: want %s or %s, found %q", noCode, byValue, f.code)
	case !hasDefault:
		return nil, fmt.Errorf("--code: %s needs an interpreter; name it, as in --python=%s=/opt/venv/bin/python",
			byValue, python.Default)
	}
	users, err := usersOf(f.users)
	if err != nil {
		return nil, err
	}
	return &python.Config{
		Environments: environments, ByValue: true, Processes: f.processes, Users: users, Logger: logger,
	}, nil
}

// environments are those of the flags, of which each has an interpreter.
func (f *PythonFlags) environments() (map[string]python.Environment, error) {
	out := map[string]python.Environment{}
	for _, flag := range f.interpreters {
		name, path, ok := strings.Cut(flag, "=")
		if !ok || name == "" || path == "" {
			return nil, fmt.Errorf("--python: want NAME=PATH, such as %s=/opt/venv/bin/python, found %q",
				python.Default, flag)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("--python: %s is named twice", name)
		}
		if socket, ok := strings.CutPrefix(path, "unix:"); ok {
			if !filepath.IsAbs(socket) {
				return nil, fmt.Errorf("--python: %s: want the whole path of a host's socket, such as "+
					"unix:/run/penstock/python/default.sock, found %q", name, path)
			}
			out[name] = python.Environment{Socket: socket}
			continue
		}
		found, err := interpreterAt(path)
		if err != nil {
			return nil, fmt.Errorf("--python: %s: %w; name an interpreter's file", name, err)
		}
		out[name] = python.Environment{Interpreter: found}
	}
	for _, flag := range f.paths {
		name, dir, ok := strings.Cut(flag, "=")
		e, known := out[name]
		if !ok || dir == "" {
			return nil, fmt.Errorf("--python-path: want NAME=DIR, found %q", flag)
		}
		if !known {
			return nil, fmt.Errorf("--python-path: %s has no interpreter; name one with --python=%s=PATH", name, name)
		}
		if e.Socket != "" {
			return nil, fmt.Errorf("--python-path: %s is of a host; give it --python-path=%s", name, dir)
		}
		dir, err := filepath.Abs(dir)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--python-path: %s", name), err)
		}
		e.Path = append(e.Path, dir)
		out[name] = e
	}
	return out, nil
}

// interpreterAt is the whole path of an interpreter.
func interpreterAt(name string) (string, error) {
	found, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	return filepath.Abs(found)
}

// Args are the same settings as flags of a worker, but for which code it runs.
func (f *PythonFlags) Args() (args []string) {
	for _, flag := range f.interpreters {
		args = append(args, "--python="+flag)
	}
	for _, flag := range f.paths {
		args = append(args, "--python-path="+flag)
	}
	if f.processes != 0 {
		args = append(args, fmt.Sprint("--python-processes=", f.processes))
	}
	return args
}

// Code is which functions are run, as --code says it.
func (f *PythonFlags) Code() string { return f.code }
