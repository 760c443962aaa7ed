package cluster_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// children are the living processes of the binary under test whose environment has the mark.
func children(t *testing.T, mark string) []string {
	t.Helper()
	var out []string
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if env, err := os.ReadFile(p); err == nil && bytes.Contains(env, []byte(mark)) {
			out = append(out, filepath.Base(filepath.Dir(p)))
		}
	}
	return out
}

// TestNobodyOutlivesTheDemo ends the demo in the middle of its job.
func TestNobodyOutlivesTheDemo(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no /proc")
	}
	cache := t.TempDir()
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			tmp := t.TempDir()
			mark := "TMPDIR=" + tmp + "\x00"
			cmd := exec.Command(binary, "demo", "--rows=300000", "--cache="+cache)
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
			progress, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			// Each process of the demo inherits the writing end, of which none of them knows; reading ends with the
			// last.
			alive, inherited, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer alive.Close()
			cmd.ExtraFiles = []*os.File{inherited}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			inherited.Close()
			lines := bufio.NewScanner(progress)
			for lines.Scan() && !strings.Contains(lines.Text(), "killed worker-") { //nolint:revive // until the job runs
			}
			if n := len(children(t, mark)); n < 5 {
				t.Errorf("%d processes run; want the demo, a master, workers and trainers", n)
			}
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			for lines.Scan() { //nolint:revive // to its end
			}
			if err := cmd.Wait(); err == nil {
				t.Error("exit status 0")
			}
			if err := alive.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := alive.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Fatalf("these outlive the demo: %v (%v)", children(t, mark), err)
			}
			if left, err := os.ReadDir(tmp); s == syscall.SIGINT && (err != nil || len(left) > 0) {
				t.Errorf("left in the temporary directory: %v, %v", left, err)
			}
		})
	}
}

// TestHelp holds that each command has help with an example.
func TestHelp(t *testing.T) {
	listed := regexp.MustCompile(`(?m)^  ([a-z]+) +\S`)
	seen := 0
	var walk func(path []string)
	walk = func(path []string) {
		out, _ := run(t, 0, nil, append(path, "--help")...)
		seen++
		for _, want := range []string{"Usage:", "Examples:\n  penstock "} {
			if !strings.Contains(out, want) {
				t.Errorf("the help of penstock %s lacks %q:\n%s", strings.Join(path, " "), want, out)
			}
		}
		_, rest, ok := strings.Cut(out, "Available Commands:\n")
		if !ok {
			return
		}
		commands, _, _ := strings.Cut(rest, "\n\n")
		for _, m := range listed.FindAllStringSubmatch(commands, -1) {
			if m[1] != "help" && m[1] != "completion" { // cobra's
				walk(append(path[:len(path):len(path)], m[1]))
			}
		}
	}
	walk(nil)
	if seen < 13 {
		t.Errorf("%d commands", seen)
	}
}

func TestDemoWithoutItsProcesses(t *testing.T) {
	t.Parallel()
	config := write(t, "storage.yaml", "nonsense: [")
	_, errs := run(t, 1, nil, "demo", "--rows=1000", "--cache="+t.TempDir(), "--storage-config="+config)
	if !strings.Contains(errs, config) {
		t.Errorf("the error does not name the file:\n%s", errs)
	}
	// Settings of the user's own fleet are none of the demo's.
	env := []string{
		"PENSTOCK_ETCD=http://127.0.0.1:1", "PENSTOCK_LISTEN=192.0.2.1:1", "PENSTOCK_TLS=true",
		"PENSTOCK_JOIN=192.0.2.1:1",
	}
	runDemo(t, env, "--rows=2000", "--workers=1", "--cache="+t.TempDir())
}
