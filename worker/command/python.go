package command

import (
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

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
}

// Register adds the flags.
func (f *PythonFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.code, "code", noCode,
		"which Python functions are run: none; by-name, those that the modules of --python-modules have; or by-value, "+
			"whatever a session brings, as this user, and those by name, too")
	flags.StringArrayVar(&f.interpreters, "python", nil,
		"interpreter that functions run in, as NAME=PATH, with the penstock package in it; sessions use the one named "+
			python.Default+"; may be repeated")
	flags.StringArrayVar(&f.paths, "python-path", nil,
		"folder in which the interpreter of a name looks for modules before its own, as NAME=DIR; may be repeated")
	flags.StringArrayVar(&f.modules, "python-modules", nil,
		"module of functions that sessions may name, as NAME=mypkg.features; NAME=mypkg.* is a package and all modules "+
			"in it, NAME=* all that there are; may be repeated")
	flags.IntVar(&f.processes, "python-processes", 0,
		"processes that run functions at once (default: one for each CPU)")
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
	return &python.Config{
		Environments: environments, ByValue: f.code == byValue, Processes: f.processes, Logger: logger,
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
		found, err := exec.LookPath(path)
		if err == nil {
			found, err = filepath.Abs(found)
		}
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
		e.Path = append(e.Path, dir)
		out[name] = e
	}
	for _, flag := range f.modules {
		name, module, err := ofEnvironment(out, "--python-modules", "mypkg.features", flag)
		if err != nil {
			return nil, err
		}
		if !isModules(module) {
			return nil, fmt.Errorf("--python-modules: want a module such as %s=mypkg.features, %[1]s=mypkg.* or "+
				"%[1]s=*, found %[2]q", name, flag)
		}
		e := out[name]
		e.Modules = append(e.Modules, module)
		out[name] = e
	}
	return out, nil
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
	if f.processes != 0 {
		args = append(args, fmt.Sprint("--python-processes=", f.processes))
	}
	return args
}

// Code is which functions are run, as --code says it.
func (f *PythonFlags) Code() string { return f.code }
