package command

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/worker/python"
)

// What --code takes.
const (
	noCode  = "none"
	byName  = "by-name"
	byValue = "by-value"
)

// PythonFlags are the settings of users' functions, of a worker and of whoever starts workers.
type PythonFlags struct {
	interpreters, paths, modules []string
	code                         string
	processes                    int
	namespace, users             string
	memory                       cli.Bytes
}

// Register adds the flags.
func (f *PythonFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.code, "code", noCode,
		"which Python functions are run: none; by-name, those that the modules of --python-modules have; or by-value, "+
			"whatever a session brings, as this user, and those by name, too")
	f.registerEnvironments(flags)
	flags.StringArrayVar(&f.modules, "python-modules", nil,
		"module of functions that sessions may name, as NAME=mypkg.features; NAME=mypkg.* is a package and all "+
			"modules in it, NAME=* all that there are; may be repeated")
	flags.IntVar(&f.processes, "python-processes", 0,
		"processes that run functions at once (default: one for each CPU)")
	flags.Var(&f.memory, "python-memory",
		"bytes that all processes of functions may take together; one at work takes 512MiB, unless its op says more "+
			"(default: so much for each that may be at work, or three quarters of the memory that there is without "+
			"--memory-limit, if that is more)")
	flags.Lookup("python-memory").DefValue = "" // said above
}

func (f *PythonFlags) registerEnvironments(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.interpreters, "python", nil,
		"interpreter that functions run in, as NAME=PATH, with the penstock package in it, or the socket of a "+
			"penstock python-host, as NAME=unix:PATH; sessions use the one named "+python.Default+"; may be repeated")
	flags.StringArrayVar(&f.paths, "python-path", nil,
		"folder in which the interpreter of a name looks for modules before its own, as NAME=DIR; may be repeated")
}

// RegisterTrial adds those of who tries functions by name, of any module, without a worker.
func (f *PythonFlags) RegisterTrial(flags *pflag.FlagSet) {
	f.registerEnvironments(flags)
}

// Trial is what functions are tried in; nil: no environment is named.
func (f *PythonFlags) Trial(logger *slog.Logger) (*python.Config, error) {
	return f.Own(false).Config(logger)
}

// Own are the settings of who runs the functions for themselves: those by name are of any module, and a session may
// bring others, if it says so. Without an environment none are run.
func (f *PythonFlags) Own(brings bool) *PythonFlags {
	own := *f
	own.modules = nil
	for _, flag := range f.interpreters {
		name, _, _ := strings.Cut(flag, "=")
		own.modules = append(own.modules, name+"="+python.AnyModule)
	}
	switch {
	case len(f.interpreters) == 0:
		own.code = noCode
	case brings:
		own.code = byValue
	default:
		own.code = byName
	}
	return &own
}

// Any reports whether an environment is named.
func (f *PythonFlags) Any() bool { return len(f.interpreters) > 0 }

// RegisterWorker adds those that concern one worker alone.
func (f *PythonFlags) RegisterWorker(flags *pflag.FlagSet) {
	usersFlag(flags, &f.users)
	flags.StringVar(&f.namespace, "code-namespace", "",
		"the one namespace whose sessions may bring functions, with --code by-value, such as team-a; '*': all, which "+
			"takes a python-host with --python-users, or trust among them, as their functions run as the same user "+
			"(default: "+identity.DefaultNamespace+"; all with --python-users)")
}

func usersFlag(flags *pflag.FlagSet, users *string) {
	flags.StringVar(users, "python-users", "",
		"user ids of which each namespace's processes get one, as FIRST-LAST, such as 20000-29999; nobody else on "+
			"this machine, or in this container, may have them, and it takes root or CAP_SETUID, CAP_SETGID, CAP_KILL "+
			"and CAP_CHOWN (default: all run as this user)")
}

// Config is what a worker is to run; nil: no functions.
func (f *PythonFlags) Config(logger *slog.Logger) (*python.Config, error) {
	environments, err := f.environments()
	if err != nil {
		return nil, err
	}
	switch {
	case f.processes < 0:
		return nil, fmt.Errorf("--python-processes: want 0 or more, found %d", f.processes)
	case f.memory != 0 && f.memory < python.DefaultMemory:
		return nil, fmt.Errorf("--python-memory: want 512MiB or more, which one process may take, found %v", &f.memory)
	case f.code == noCode, f.code == "":
		return nil, nil //nolint:nilnil // documented
	case f.code != byName && f.code != byValue:
		return nil, fmt.Errorf("--code: want %s, %s or %s, found %q", noCode, byName, byValue, f.code)
	case len(environments) == 0:
		return nil, fmt.Errorf("--code: %s needs an interpreter; name it, as in --python=%s=/opt/venv/bin/python",
			f.code, python.Default)
	case f.code == byName && len(f.modules) == 0:
		return nil, fmt.Errorf("--code: %s needs modules of functions; list them, as in "+
			"--python-modules=%s=mypkg.features", byName, python.Default)
	}
	users, err := usersOf(f.users)
	if err != nil {
		return nil, err
	}
	memory := max(f.least(), int64(float64(process.Memory(os.DirFS("/")))*0.75))
	if f.memory > 0 {
		memory = int64(f.memory)
	}
	return &python.Config{
		Environments: environments, ByValue: f.code == byValue, Namespace: f.one(users), Processes: f.processes,
		Budget: memory, Users: users, Logger: logger,
	}, nil
}

// one is the namespace whose sessions may bring functions; "": all may.
func (f *PythonFlags) one(users python.Users) string {
	switch {
	case f.namespace == "*", f.namespace == "" && users != (python.Users{}):
		return ""
	}
	return cmp.Or(f.namespace, identity.DefaultNamespace)
}

// least is what as many processes may take as may be at work, if their functions do not say.
func (f *PythonFlags) least() int64 {
	return int64(cmp.Or(f.processes, runtime.GOMAXPROCS(0))) * python.DefaultMemory
}

// within has a worker's processes keep to a limit of its container's, and returns what of that is theirs: nothing, if
// hosts start them all, which have containers of their own.
func (f *PythonFlags) within(cfg *python.Config) int64 {
	if cfg == nil {
		return 0
	}
	cfg.Budget = cmp.Or(int64(f.memory), f.least())
	for _, e := range cfg.Environments {
		if e.Socket == "" {
			return cfg.Budget
		}
	}
	return 0
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
		name, dir, err := ofEnvironment(out, "--python-path", "DIR", flag)
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err != nil {
			return nil, err
		}
		e := out[name]
		if e.Socket != "" {
			return nil, fmt.Errorf("--python-path: %s is of a host; give that --python-path=%s", name, dir)
		}
		e.Path = append(e.Path, dir)
		out[name] = e
	}
	for _, flag := range f.modules {
		name, module, err := ofEnvironment(out, "--python-modules", "mypkg.features", flag)
		if err != nil {
			return nil, err
		}
		e := out[name]
		for module := range strings.SplitSeq(module, ",") {
			if !isModules(module) {
				return nil, fmt.Errorf("--python-modules: want modules such as %s=mypkg.features, %[1]s=mypkg.* or "+
					"%[1]s=*, found %[2]q", name, flag)
			}
			e.Modules = append(e.Modules, module)
		}
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

// isModules reports whether a text is a module's name, one with all in it, or all.
func isModules(s string) bool {
	return s == "*" || !slices.ContainsFunc(strings.Split(strings.TrimSuffix(s, ".*"), "."), func(part string) bool {
		return part == "" || unicode.IsDigit(rune(part[0])) || strings.ContainsFunc(part, func(r rune) bool {
			return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
		})
	})
}

// ofEnvironment takes what a flag says of one of the environments.
func ofEnvironment(known map[string]python.Environment, flag, what, text string) (name, value string, err error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || value == "" {
		return "", "", fmt.Errorf("%s: want NAME=%s, found %q", flag, what, text)
	}
	if _, ok := known[name]; !ok {
		return "", "", fmt.Errorf("%s: %s has no interpreter; name one with --python=%s=PATH", flag, name, name)
	}
	return name, value, nil
}

// Args are the same settings as flags of a worker, but for which code it runs.
func (f *PythonFlags) Args() (args []string) {
	for _, flag := range f.interpreters {
		args = append(args, "--python="+flag)
	}
	for _, flag := range f.paths {
		args = append(args, "--python-path="+flag)
	}
	for _, flag := range f.modules {
		args = append(args, "--python-modules="+flag)
	}
	if f.memory != 0 {
		args = append(args, fmt.Sprint("--python-memory=", int64(f.memory)))
	}
	if f.processes != 0 {
		args = append(args, fmt.Sprint("--python-processes=", f.processes))
	}
	return args
}

// Code is which functions are run, as --code says it.
func (f *PythonFlags) Code() string { return f.code }
