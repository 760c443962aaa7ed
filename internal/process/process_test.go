package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// role is the variable that makes the test binary a child with one of the behaviours below.
const role = "PROCESS_TEST_ROLE"

func TestMain(m *testing.M) {
	if r := os.Getenv(role); r != "" {
		os.Exit(child(r))
	}
	goleak.VerifyTestMain(m)
}

// child is what a penstock command does, as far as its parent can tell.
func child(role string) int {
	fmt.Fprintln(os.Stderr, "arguments:", os.Args[1:])
	announce := func() { fmt.Println(`{"address":"127.0.0.1:1","gossip":"127.0.0.1:2","token_file":"/t"}`) }
	switch role {
	case "server":
		signal.Ignore(syscall.SIGTERM) // so that what ends it is its standard input
		announce()
		fmt.Println(`{"rows":7}`)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case "failing":
		fmt.Fprintln(os.Stderr, "no such table")
		return 3
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		announce()
		select {}
	case "environment":
		fmt.Println(strings.Join(os.Environ(), " "))
		return 0
	case "parent": // of a server, until it is killed
		p, err := Start(Config{
			Name: "grandchild", Binary: os.Args[0], Env: []string{roleOf("server")},
			Log: os.Getenv("GRANDCHILD_LOG"),
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if _, err := p.Announced(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(p.PID())
		_ = p.Wait()
		return 0
	}
	return 2
}

func roleOf(name string) string { return role + "=" + name }

// start runs this binary in a role until the test ends.
func start(t *testing.T, role string, env ...string) *Process {
	t.Helper()
	p, err := Start(Config{
		Name: role, Binary: os.Args[0], Args: []string{"serve", "--flag"}, Env: append(env, roleOf(role)),
		Log: filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		for range p.Lines() { //nolint:revive // to its end
		}
		<-p.Done()
	})
	return p
}

func TestServer(t *testing.T) {
	p := start(t, "server")
	a, err := p.Announced(t.Context())
	if want := (Announcement{Address: "127.0.0.1:1", Gossip: "127.0.0.1:2", TokenFile: "/t"}); err != nil || a != want {
		t.Errorf("announced %+v, %v; want %+v", a, err, want)
	}
	if line := <-p.Lines(); string(line) != `{"rows":7}` {
		t.Errorf("line: %s", line)
	}
	if p.Status() != "" || p.PeakMemory() != 0 {
		t.Errorf("running: status %q, peak memory %d", p.Status(), p.PeakMemory())
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if err := p.Wait(); err != nil || p.Status() == "" || p.PeakMemory() < 1<<20 {
		t.Errorf("ended: %v, status %q, peak memory %d", err, p.Status(), p.PeakMemory())
	}
	log, err := os.ReadFile(p.log.Name())
	if err != nil || string(log) != "arguments: [serve --flag --output=json --end-with-stdin]\n" {
		t.Errorf("log: %s, %v", log, err)
	}
}

func TestFailureEndsWithTheLog(t *testing.T) {
	p := start(t, "failing")
	_, err := p.Announced(t.Context())
	for _, want := range []string{"failing ended before it was up", "exit status 3", p.log.Name(), "no such table"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if p.Status() != "exit status 3" {
		t.Errorf("status %q", p.Status())
	}
}

func TestTailOfALongLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("begins "), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 64<<20); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.WriteString("ends"); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	end := tail(path)
	runtime.ReadMemStats(&after)
	if len(end) != 4096 || !strings.HasSuffix(end, "ends") {
		t.Errorf("%d bytes: %q", len(end), end)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("it takes %d bytes of memory", n)
	}
}

func TestKillIsNoFailure(t *testing.T) {
	for name, kill := range map[string]func(*Process) error{
		"by Kill":             (*Process).Kill,
		"by a killer":         func(p *Process) error { return p.Signal(syscall.SIGKILL) },
		"while it is stopped": func(p *Process) error { return errors.Join(p.Signal(syscall.SIGSTOP), p.Kill()) },
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, "deaf")
			if _, err := p.Announced(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := kill(p); err != nil {
				t.Fatal(err)
			}
			err := p.Wait()
			if byUs := name != "by a killer"; (err == nil) != byUs {
				t.Errorf("Wait: %v", err)
			}
			if p.Status() != "signal: killed" {
				t.Errorf("status %q", p.Status())
			}
		})
	}
}

func TestAnnouncedEndsWithItsContext(t *testing.T) {
	p := start(t, "parent", "GRANDCHILD_LOG="+filepath.Join(t.TempDir(), "log"))
	ctx, cancel := context.WithCancelCause(t.Context())
	<-p.Lines() // it runs, and never announces itself
	cancel(errors.New("enough"))
	if _, err := p.Announced(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestStartExplainsItself(t *testing.T) {
	dir := t.TempDir()
	_, err := Start(Config{Name: "x", Binary: filepath.Join(dir, "nothing"), Log: filepath.Join(dir, "log")})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "start x") {
		t.Errorf("%v", err)
	}
	if _, err = Start(Config{Name: "x", Binary: os.Args[0], Log: filepath.Join(dir, "none", "log")}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("PENSTOCK_LISTEN", "leaked")
	t.Setenv("PENSTOCK_TOKEN_FILE", "leaked")
	kept := []string{"PENSTOCK_STORAGE_LAB_REGION=x", "PENSTOCK_LOG_LEVEL=debug", "AWS_REGION=y"}
	for _, v := range kept {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	p := start(t, "environment", "PENSTOCK_GIVEN=1")
	found := strings.Fields(string(<-p.Lines()))
	for _, want := range append(kept, "PENSTOCK_GIVEN=1") {
		if !slices.Contains(found, want) {
			t.Errorf("the child lacks %s", want)
		}
	}
	for _, v := range found {
		if strings.HasSuffix(v, "=leaked") {
			t.Errorf("the child has %s", v)
		}
	}
}

// TestChildEndsWithItsParent kills a process that runs another.
func TestChildEndsWithItsParent(t *testing.T) {
	// The grandchild inherits the log's descriptor; the pipe's reader sees its end when all writers are gone.
	alive := filepath.Join(t.TempDir(), "alive")
	if err := syscall.Mkfifo(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(alive, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	p := start(t, "parent", "GRANDCHILD_LOG="+alive)
	if pid := <-p.Lines(); len(pid) == 0 {
		t.Fatal("no grandchild")
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := reader.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(reader); err != nil {
		t.Errorf("the grandchild outlives its parent: %v", err)
	}
}
