package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// values are a command's settings.
type values struct {
	listen string
	join   []string
	lease  time.Duration
	memory Bytes
	tls    bool
	slots  int
}

// tree is a root with two commands that share some settings.
func tree(v *values) *cobra.Command {
	root := &cobra.Command{Use: "root", Version: "1", SilenceErrors: true}
	run := func(*cobra.Command, []string) error { return nil }
	a := &cobra.Command{Use: "a", RunE: run}
	a.Flags().StringVar(&v.listen, "listen", "default", "")
	a.Flags().StringSliceVar(&v.join, "join", []string{"default"}, "")
	a.Flags().DurationVar(&v.lease, "lease", time.Second, "")
	a.Flags().Var(&v.memory, "memory", "")
	a.Flags().BoolVar(&v.tls, "tls", false, "")
	a.Flags().IntVar(&v.slots, "slots", 0, "")
	b := &cobra.Command{Use: "b", RunE: run}
	b.PersistentFlags().String("only-b", "", "")
	root.AddCommand(Setup(a), Setup(b), Setup(&cobra.Command{Use: "none", RunE: run}))
	return root
}

func execute(t *testing.T, file string, env map[string]string, args ...string) (*values, error) {
	t.Helper()
	for k, x := range env {
		t.Setenv(k, x)
	}
	if file != "" {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	v := &values{}
	root := tree(v)
	root.SetArgs(args)
	return v, root.ExecuteContext(t.Context())
}

func TestPrecedence(t *testing.T) {
	file := "listen: file\njoin: [f1, 'f,2']\nlease: 3s\nmemory: 1GiB\ntls: true\nslots: 7\nonly-b: x\n"
	env := map[string]string{
		"PENSTOCK_LISTEN": "env", "PENSTOCK_JOIN": "e1,e2", "PENSTOCK_LEASE": "2s",
		"PENSTOCK_MEMORY": "2MiB", "PENSTOCK_TLS": "false", "PENSTOCK_SLOTS": "5",
	}
	for _, c := range []struct {
		name, file string
		env        map[string]string
		args       []string
		want       values
	}{
		{"defaults", "", nil, nil, values{"default", []string{"default"}, time.Second, 0, false, 0}},
		{"file", file, nil, nil, values{"file", []string{"f1", "f,2"}, 3 * time.Second, 1 << 30, true, 7}},
		{
			"file's text and empty lists", "join: []\nmemory: 4096\n", nil, nil,
			values{"default", nil, time.Second, 4096, false, 0},
		},
		{"file's text as a list", "join: a,b\n", nil, nil, values{
			"default",
			[]string{"a", "b"},
			time.Second, 0,
			false, 0,
		}},
		{"environment over file", file, env, nil, values{
			"env",
			[]string{"e1", "e2"},
			2 * time.Second, 2 << 20, false,
			5,
		}},
		{
			"flags over both", file, env,
			[]string{"--listen=flag", "--join=x", "--lease=1m", "--memory=3kB", "--tls", "--slots=0"},
			values{"flag", []string{"x"}, time.Minute, 3000, true, 0},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := execute(t, c.file, c.env, append([]string{"a"}, c.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if got.listen != c.want.listen || !slices.Equal(got.join, c.want.join) || got.lease != c.want.lease ||
				got.memory != c.want.memory || got.tls != c.want.tls || got.slots != c.want.slots {
				t.Errorf("got %+v, want %+v", *got, c.want)
			}
		})
	}
}

// A flag of a call is its own, whatever the setting of the same name is.
func TestFlagsOfACall(t *testing.T) {
	t.Setenv("PENSTOCK_SLOTS", "7")
	for want, args := range [][]string{{"a"}, {"a", "--slots=1"}} {
		a := &cobra.Command{Use: "a", RunE: func(*cobra.Command, []string) error { return nil }}
		slots := a.Flags().Int("slots", 0, "")
		PerCall(a.Flags(), "slots")
		root := &cobra.Command{Use: "root"}
		root.AddCommand(Setup(a))
		root.SetArgs(args)
		if err := root.ExecuteContext(t.Context()); err != nil || *slots != want {
			t.Errorf("%q: %d, %v", args, *slots, err)
		}
	}
}

func TestMistakesInSettings(t *testing.T) {
	for _, c := range []struct {
		name, file string
		env        map[string]string
		want       []string
	}{
		{"unknown keys", "listen: x\nlisen: y\njoyn: z\n", nil, []string{`"lisen"`, `"joyn"`}},
		{"nested", "tls: {cert: x}\n", nil, []string{`"tls.cert"`}},
		{"no file", "", map[string]string{"PENSTOCK_CONFIG": "/nowhere.yaml"}, []string{"/nowhere.yaml"}},
		{"no YAML", "a: [", nil, []string{"--config"}},
		{"bad values", "lease: 90\nmemory: much\n", nil, []string{"setting lease", "setting memory", "256MiB"}},
		{"bad environment", "", map[string]string{"PENSTOCK_SLOTS": "many"}, []string{"PENSTOCK_SLOTS"}},
		{"a list for one", "listen: [a, b]\n", nil, []string{"setting listen", "found a list"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := execute(t, c.file, c.env, "a")
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
		})
	}
}

func TestSharedFileAndOtherCommands(t *testing.T) {
	env := map[string]string{"PENSTOCK_VERSION": "1.2", "PENSTOCK_HELP": "yes please"}
	for _, args := range [][]string{{"b"}, {"none"}, {"__complete", "a", ""}, {"completion", "bash"}, {"help", "a"}} {
		t.Run(args[0], func(t *testing.T) {
			file := "listen: x\nonly-b: y\n"
			if args[0] != "b" && args[0] != "none" { // cobra's own
				file = ""
			}
			if _, err := execute(t, file, env, args...); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMisused(t *testing.T) {
	for words, args := range map[string][]string{
		"unknown flag: --nets; want root group one ID [flags]: see root group one --help":                                                {"group", "one", "x", "--nets"},
		"accepts 1 arg(s), received 0; want root group one ID [flags]: see root group one --help":                                        {"group", "one"},
		`invalid argument "x" for "--slots" flag: strconv.ParseInt: parsing "x": invalid syntax; want root a [flags]: see root a --help`: {"a", "--slots", "x"},
	} {
		root := tree(&values{})
		group := &cobra.Command{Use: "group"}
		group.AddCommand(&cobra.Command{
			Use: "one ID", Args: cobra.ExactArgs(1),
			RunE: func(*cobra.Command, []string) error { return nil },
		})
		root.AddCommand(Setup(group))
		root.SetArgs(args)
		if err := root.Execute(); err == nil || err.Error() != words {
			t.Errorf("%v: %v", args, err)
		}
		root.SetArgs([]string{"group", "one", "x"})
		if err := root.Execute(); err != nil {
			t.Error(err)
		}
	}
}

func TestOutput(t *testing.T) {
	t.Setenv("PENSTOCK_OUTPUT", "json")
	root := tree(&values{})
	got := ""
	root.AddCommand(Setup(&cobra.Command{Use: "c", RunE: func(cmd *cobra.Command, _ []string) (err error) {
		got, err = Output(cmd, "parquet")
		return err
	}}))
	root.SetArgs([]string{"c"})
	if err := root.Execute(); err != nil || got != "json" {
		t.Errorf("%q, %v", got, err)
	}
	root.SetArgs([]string{"c", "-o", "xml"})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "text, json, parquet") {
		t.Errorf("%v", err)
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "4096": 4096, "1kB": 1000, "256MiB": 256 << 20, "2 GiB": 2 << 30,
		"-1": -1, "x": -1, "9EiB": -1, "": -1,
	} {
		var b Bytes
		if err := b.Set(text); (err == nil) != (want >= 0) || err == nil && b != want {
			t.Errorf("%q: %d, %v", text, b, err)
		}
	}
	b := Bytes(256 << 20)
	if b.String() != "256MiB" {
		t.Error(b.String())
	}
}
