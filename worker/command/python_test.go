package command

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/penstock-ml/penstock/worker/python"
)

// of are the settings of flags.
func of(t *testing.T, args ...string) *PythonFlags {
	t.Helper()
	f := &PythonFlags{}
	flags := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	f.Register(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPythonFlags(t *testing.T) {
	interpreter := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(interpreter, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--code=by-value", "--python=default=" + interpreter, "--python=torch=" + interpreter,
		"--python-path=default=/a", "--python-path=default=/b=c", "--python-processes=3",
		"--python-modules=torch=mypkg.features", "--python-modules=torch=mypkg.*", "--python-modules=default=*",
	}
	want := &python.Config{
		Environments: map[string]python.Environment{
			"default": {Interpreter: interpreter, Path: []string{"/a", "/b=c"}, Modules: []string{"*"}},
			"torch":   {Interpreter: interpreter, Modules: []string{"mypkg.features", "mypkg.*"}},
		},
		ByValue: true, Processes: 3, Logger: slog.Default(),
	}
	f := of(t, args...)
	if cfg, err := f.Config(slog.Default()); err != nil || !reflect.DeepEqual(cfg, want) {
		t.Errorf("%+v, want %+v: %v", cfg, want, err)
	}
	again := of(t, append(f.Args(), "--code="+f.Code())...) // as a worker process gets them
	if cfg, err := again.Config(slog.Default()); err != nil || !reflect.DeepEqual(cfg, want) {
		t.Errorf("%+v, want %+v: %v", cfg, want, err)
	}
	named := of(t, "--code=by-name", "--python=default="+interpreter, "--python-modules=default=mypkg.features")
	if cfg, err := named.Config(slog.Default()); err != nil || cfg.ByValue {
		t.Errorf("by name: %+v, %v", cfg, err)
	}
	if cfg, err := of(t, "--python=default="+interpreter).Config(slog.Default()); cfg != nil || err != nil {
		t.Errorf("without --code it runs %+v: %v", cfg, err)
	}
}

func TestPythonFlagsThatMakeNoSense(t *testing.T) {
	for want, args := range map[string][]string{
		`want none, by-name or by-value, found "all"`:     {"--code=all"},
		"--python-modules=default=mypkg.features":         {"--code=by-name", "--python=a=/bin/sh"},
		"--python-modules: b has no interpreter":          {"--python=a=/bin/sh", "--python-modules=b=mypkg"},
		"--python-modules: want NAME=mypkg.features":      {"--python=a=/bin/sh", "--python-modules=a"},
		`found "a=mypkg*"`:                                {"--python=a=/bin/sh", "--python-modules=a=mypkg*"},
		"--python=default=/opt/venv/bin/python":           {"--code=by-value"},
		"want NAME=PATH":                                  {"--python=/usr/bin/python3"},
		"named twice":                                     {"--python=a=/bin/sh", "--python=a=/bin/sh"},
		"--python: a: ":                                   {"--python=a=/no/such/python"},
		"b has no interpreter; name one with --python=b=": {"--python-path=b=/x"},
		"--python-path: want NAME=DIR":                    {"--python=a=/bin/sh", "--python-path=a"},
		"--python-processes: want 0 or more, found -1":    {"--python-processes=-1"},
	} {
		if _, err := of(t, args...).Config(slog.Default()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
