package command

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/worker/python"
)

// of are the settings of flags.
func of(t *testing.T, args ...string) *PythonFlags {
	t.Helper()
	f := &PythonFlags{}
	flags := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	f.Register(flags)
	f.RegisterWorker(flags)
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
		"--python-path=default=/a", "--python-path=default=/b=c", "--python-processes=3", "--python-memory=2GiB",
		"--python-modules=torch=mypkg.features,mypkg.text", "--python-modules=torch=mypkg.*", "--python-modules=default=*",
	}
	want := &python.Config{
		Environments: map[string]python.Environment{
			"default": {Interpreter: interpreter, Path: []string{"/a", "/b=c"}, Modules: []string{"*"}},
			"torch":   {Interpreter: interpreter, Modules: []string{"mypkg.features", "mypkg.text", "mypkg.*"}},
		},
		ByValue: true, Namespace: identity.DefaultNamespace, Processes: 3, Budget: 2 << 30, Logger: slog.Default(),
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

// Namespaces whose functions would run as the same user share no worker, unless that is asked for.
func TestNamespacesOfCodeByValue(t *testing.T) {
	for flags, want := range map[string]string{
		"": "default", "--code-namespace=team-a": "team-a", "--code-namespace=*": "",
		"--python-users=20000-20009": "", "--python-users=20000-20009 --code-namespace=team-a": "team-a",
	} {
		args := append(strings.Fields(flags), "--code=by-value", "--python=default=/bin/sh")
		cfg, err := of(t, args...).Config(slog.Default())
		if err != nil || cfg.Namespace != want {
			t.Errorf("%q: %+v, %v; want the namespace %q", flags, cfg, err, want)
		}
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
		"--python-memory: want 512MiB or more":            {"--python-memory=1MiB"},
		"want the whole path of a host's socket":          {"--python=a=unix:python.sock"},
		"a is of a host; give that --python-path=/x":      {"--python=a=unix:/s", "--python-path=a=/x"},
	} {
		if _, err := of(t, args...).Config(slog.Default()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// A container's limit holds for the worker and its processes, unless these are a host's.
func TestMemoryWithinALimit(t *testing.T) {
	for _, c := range []struct {
		limit, want, cache cli.Bytes
		err                string
		args               []string
	}{
		{limit: 1 << 30, want: 1<<30 - overhead - 1<<26},
		{limit: 100 << 20, err: "100MiB leaves too little for streams; want 128MiB or more"},
		{limit: 1 << 30, cache: 64 << 20, want: 1<<30 - overhead - 1<<26 - 64<<20},
		{
			limit: 128 << 20, cache: 75 << 20,
			err: "streams: the cache takes 75MiB; want 208MiB or more, or a smaller --cache-bytes",
		},
		{limit: 208 << 20, cache: 75 << 20, want: 24 << 20},
		{limit: 2 << 30, want: 1<<30 - overhead - 1<<27, args: []string{"--python=default=/bin/sh", "--python-processes=2"}},
		{
			limit: 1 << 30, args: []string{"--python=default=/bin/sh", "--python-processes=4"},
			err: "1.0GiB leaves too little for streams: Python processes may take 2.0GiB, 512MiB for each CPU unless " +
				"--python-processes or --python-memory says otherwise; want 2.3GiB or more",
		},
		{limit: 1 << 30, want: 1<<30 - overhead - 1<<26, args: []string{"--python=default=unix:/s"}},
	} {
		f := workerFlags{limit: c.limit}
		flags := pflag.NewFlagSet("worker", pflag.ContinueOnError)
		f.functions.Register(flags)
		if len(c.args) > 0 {
			c.args = append(c.args, "--code=by-value")
		}
		if err := flags.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		functions, err := f.functions.Config(slog.Default())
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.within(f.functions.within(functions), int64(c.cache))
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v of %q: %v, want %v: %v", &c.limit, c.args, &got, &c.want, err)
		}
	}
}

func TestUsers(t *testing.T) {
	if u, err := usersOf("20000-29999"); err != nil || u != (python.Users{First: 20000, Last: 29999}) {
		t.Errorf("%v: %v", u, err)
	}
	for _, text := range []string{"20000", "0-5", "6-5", "a-b", "1-99999999999", "-"} {
		if _, err := usersOf(text); err == nil || !strings.Contains(err.Error(), "such as 20000-29999") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Functions with user ids of their own can be neither a worker to the host nor a host to the worker.
func TestHostsOfUsers(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		mode os.FileMode
		user uint32
		want string
	}{
		{mode: 0o755, user: 65532},
		{mode: 0o777 | os.ModeSticky, user: 65532},
		{mode: 0o777, user: 65532, want: "any user may replace files in " + dir + ", and so may functions; chmod +t " + dir},
		{mode: 0o755, user: 20000, want: "functions may run as user 20000, which is of --python-users"},
	} {
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		f := hostFlags{socket: filepath.Join(dir, "s")}
		cfg := python.HostConfig{Workers: []uint32{c.user}}
		if err := f.apart(cfg); err != nil {
			t.Errorf("without users: %v", err)
		}
		cfg.Users = python.Users{First: 20000, Last: 29999}
		if err := f.apart(cfg); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v and user %d: %v, want %q", c.mode, c.user, err, c.want)
		}
	}
}
