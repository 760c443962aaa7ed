package local

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// role has the test's binary be a worker, which says what it was told and runs until it is to end.
const role = "PENSTOCK_LOG_TEST_WORKER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(role); mode != "" {
		beWorker(mode)
	}
	goleak.VerifyTestMain(m)
}

func beWorker(mode string) {
	fmt.Fprintln(os.Stderr, "args", strings.Join(os.Args[1:], " "), "cpus", os.Getenv("GOMAXPROCS"))
	if mode == "broken" {
		fmt.Fprintln(os.Stderr, "nothing works")
		os.Exit(1)
	}
	ended, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	_ = json.NewEncoder(os.Stdout).Encode(map[string]string{"address": "a", "gossip": "g"})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent's end
		stop()
	}()
	<-ended.Done()
	fmt.Fprintln(os.Stderr, "drained")
	os.Exit(0)
}

// start runs a fleet of such workers until the test ends, and returns it with its directory.
func start(t *testing.T, mode string) (f *Fleet, dir string, ended <-chan error) {
	t.Helper()
	t.Setenv(role, mode)
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	f = New(Config{
		Binary: binary, Args: []string{"--memory=1GiB"}, CPUs: 3, Dir: dir,
		Logger: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done, result := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(done)
		result <- f.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f, dir, result
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain until " + what)
		}
	}
}

// running are the workers with a process, by their files.
func running(t *testing.T, dir string) map[string]int {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.pid"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		pid, bad := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil && bad == nil {
			out[strings.TrimSuffix(filepath.Base(p), ".pid")] = pid
		}
	}
	return out
}

func names(workers map[string]int) []string {
	var out []string
	for name := range workers {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func log(t *testing.T, dir, name string) (lines []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return lines
}

func scale(t *testing.T, f *Fleet, n int, drain ...string) {
	t.Helper()
	if err := f.Scale(t.Context(), n, drain); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Wanted(t.Context()); err != nil || got != n {
		t.Fatalf("wanted are %d (%v), want %d", got, err, n)
	}
}

func TestGrowsAndShrinks(t *testing.T) {
	f, dir, _ := start(t, "works")
	scale(t, f, 3)
	if got := running(t, dir); len(got) > 0 {
		t.Errorf("before the fleet is known, there are %v", got)
	}
	f.Join("10.0.0.1:7946")
	eventually(t, "all run",
		func() bool { return slices.Equal(names(running(t, dir)), []string{"worker-1", "worker-2", "worker-3"}) })
	scale(t, f, 1, "worker-2")
	eventually(t, "the named and the newest are gone",
		func() bool { return slices.Equal(names(running(t, dir)), []string{"worker-1"}) })
	for _, name := range []string{"worker-2", "worker-3"} {
		if l := log(t, dir, name); len(l) != 2 || l[1] != "drained" {
			t.Errorf("%s did not end in order: %q", name, l)
		}
	}
	want := "args worker --name=worker-1 --listen=127.0.0.1:0 --gossip=127.0.0.1:0 --join=10.0.0.1:7946 " +
		"--memory=1GiB --output=json --end-with-stdin cpus 3"
	if l := log(t, dir, "worker-1"); len(l) != 1 || l[0] != want {
		t.Errorf("a worker is run as %q\nwant %q", l, want)
	}
	scale(t, f, 2)
	eventually(t, "there is another one, of a name that nobody had", func() bool {
		return slices.Equal(names(running(t, dir)), []string{"worker-1", "worker-4"})
	})
	if err := f.Scale(t.Context(), -1, nil); err == nil {
		t.Error("it takes less than none")
	}
}

func TestReplacesTheDead(t *testing.T) {
	f, dir, _ := start(t, "works")
	f.Join("10.0.0.1:7946")
	scale(t, f, 1)
	for launch := 1; launch <= 3; launch++ {
		eventually(t, "it runs", func() bool {
			return len(log(t, dir, "worker-1")) == launch &&
				len(running(t, dir)) == 1
		})
		if launch > 1 && !strings.Contains(log(t, dir, "worker-1")[launch-1],
			fmt.Sprintf("--name=worker-1.%d ", launch)) {
			t.Errorf("another process has the name of a dead one: %q", log(t, dir, "worker-1"))
		}
		eventually(t, "it came up", f.everServed)
		if launch < 3 {
			if err := syscall.Kill(running(t, dir)["worker-1"], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	scale(t, f, 0, "worker-1.3")
	eventually(t, "it is gone", func() bool { return len(running(t, dir)) == 0 })
}

func TestTheFirstThatDoesNotComeUp(t *testing.T) {
	f, _, ended := start(t, "broken")
	f.Join("10.0.0.1:7946")
	scale(t, f, 2)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "nothing works") ||
		!strings.Contains(err.Error(), "ended before it was up") {
		t.Errorf("it ends with %v", err)
	}
}

func TestBackoff(t *testing.T) {
	var wait, total time.Duration
	for range 20 { // a worker that dies at once
		next := backoff(wait, time.Second)
		if next < wait || next > lastBackoff {
			t.Fatalf("%v after %v", next, wait)
		}
		wait = next
		total += wait
	}
	if wait != lastBackoff || total < time.Minute {
		t.Errorf("waits %v in the end, %v in total", wait, total)
	}
	if got := backoff(wait, settled); got != firstBackoff {
		t.Errorf("after a long life: %v", got)
	}
}
