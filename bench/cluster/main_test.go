package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/master/store/storetest"
)

// binary is the penstock binary under test, built once.
var binary string

func TestMain(m *testing.M) {
	storetest.Main()
	if task, ok := os.LookupEnv(trainerRole); ok {
		if err := beTrainer(task); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "penstock-test-*")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if binary, err = cluster.Build(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// run runs the binary and returns what it printed. It fails the test unless the exit status is as said.
func run(t *testing.T, status int, env []string, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Fatalf("penstock %s: exit status %d, want %d (%v)\n%s\n%s", strings.Join(args, " "), got, status, err,
			out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// report is the demo's, as users see it.
type report struct {
	OK                bool      `json:"ok"`
	RowsExpected      int64     `json:"rows_expected"`
	RowsDelivered     int64     `json:"rows_delivered"`
	ChecksumExpected  string    `json:"checksum_expected"`
	ChecksumDelivered string    `json:"checksum_delivered"`
	RowsPerSecond     float64   `json:"rows_per_second"`
	BytesPerSecond    float64   `json:"bytes_per_second"`
	StallShare        []float64 `json:"stall_share"`
	Kills             int       `json:"kills"`
	LongestPauseMs    float64   `json:"longest_pause_ms"`
}

// runDemo runs the demo and returns its report, from the last line that it printed.
func runDemo(t *testing.T, env []string, args ...string) report {
	t.Helper()
	out, _ := run(t, 0, env, append([]string{"demo", "--output=json"}, args...)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var r report
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
		t.Fatalf("the last line is no report: %v\n%s", err, out)
	}
	if !r.OK || r.RowsDelivered != r.RowsExpected || r.ChecksumDelivered != r.ChecksumExpected {
		t.Fatalf("the report contradicts exit status 0: %+v", r)
	}
	return r
}

// python3 is an interpreter that has packages; without one it skips, but fails on CI.
func python3(t *testing.T, packages ...string) string {
	t.Helper()
	want := strings.Join(packages, ", ")
	if err := exec.Command("python3", "-c", "import "+want).Run(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("python3 with %s is needed: %v; `make python` makes it", want, err)
		}
		t.Skipf("no python3 with %s: %v; `make test` brings it", want, err)
	}
	return "python3"
}

// python runs a script of testdata with pyarrow and duckdb.
func python(t *testing.T, script string, args ...string) string {
	t.Helper()
	interpreter := python3(t, "pyarrow.flight", "duckdb", "numpy")
	cmd := exec.CommandContext(t.Context(), interpreter, append([]string{filepath.Join("testdata", script)},
		args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, errs.String())
	}
	return string(out)
}

// testdata is where real data lie; without it the test skips, but fails on CI.
func realData(t *testing.T, path string) string {
	t.Helper()
	root := os.Getenv("PENSTOCK_TESTDATA")
	if root == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("PENSTOCK_TESTDATA is not set")
		}
		t.Skip("PENSTOCK_TESTDATA is not set: no real data")
	}
	return filepath.Join(root, path)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startCluster runs a fleet until the test ends.
func startCluster(t testing.TB, cfg cluster.Config, workers int) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), cfg, workers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
