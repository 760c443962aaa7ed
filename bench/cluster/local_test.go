package cluster_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

// localFleet is a `penstock local` of a test, whose temporary directory marks its processes.
type localFleet struct {
	*process.Process
	process.Announcement
	tmp, log string
}

// startLocal runs `penstock local` until the test ends.
func startLocal(t *testing.T, env []string, args ...string) *localFleet {
	t.Helper()
	f := &localFleet{tmp: t.TempDir(), log: filepath.Join(t.TempDir(), "local.log")}
	var err error
	f.Process, err = process.Start(process.Config{
		Name: "local", Binary: binary, Args: append([]string{"local"}, args...), Env: append(env, "TMPDIR="+f.tmp),
		Log: f.log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Stop() }) // a test that wants to know stops it itself
	if f.Announcement, err = f.Announced(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// read reads a spec from the fleet.
func (f *localFleet) read(t *testing.T, spec string) string {
	t.Helper()
	out, _ := run(t, 0, nil, "read", spec, "--master="+f.Address, "--token-file="+f.TokenFile, "--output=json")
	return out
}

// kill kills the fleet's processes that run a command, as a third party would, and returns how many there were.
func (f *localFleet) kill(t *testing.T, command string) int {
	t.Helper()
	n := 0
	for _, pid := range children(t, "TMPDIR="+f.tmp+"\x00") {
		line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if err != nil || !bytes.Contains(line, []byte("\x00"+command+"\x00")) {
			continue
		}
		number, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(number, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func left(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// smallSpec is a spec over a dataset of its own.
func smallSpec(t *testing.T, rows int) string {
	t.Helper()
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "spec.yaml",
		"dataset: {uri: "+filepath.Dir(paths[0])+"/}\nfeatures: [{dense: int_*}]\nbatch_size: 1000\n")
}

// TestReadWithAFleetOfItsOwn needs nothing but a spec, and leaves nothing.
func TestReadWithAFleetOfItsOwn(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	out, _ := run(t, 0, []string{"TMPDIR=" + tmp, "PENSTOCK_LISTEN=192.0.2.1:1"}, "read", smallSpec(t, 20_000),
		"--local", "--output=json")
	if !strings.Contains(out, `"rows":20000,`) {
		t.Errorf("read: %s", out)
	}
	if rest := left(t, tmp); len(rest) > 0 {
		t.Errorf("left behind: %v", rest)
	}
	out, _ = run(t, 0, nil, "read", smallSpec(t, 3000), "--local", "--epochs=3", "--output=json")
	if !strings.Contains(out, `"rows":9000,`) {
		t.Errorf("read of three epochs: %s", out)
	}
}

// TestLocal reads from a store whose credentials are in the environment, among settings that are none of this fleet's.
func TestLocal(t *testing.T) {
	t.Parallel()
	minio := storagetest.StartMinIO(t)
	minio.MakeBucket(t, "criteo")
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), 20_000, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		minio.PutFile(t, "criteo", "table/"+filepath.Base(p), p)
	}
	spec := write(t, "spec.yaml", "dataset: {uri: s3://criteo/table/}\nfeatures: [{dense: int_*}]\nbatch_size: 1000\n")
	env := append(
		minio.Environ(), "PENSTOCK_ETCD=http://127.0.0.1:1", "PENSTOCK_ADVERTISE=192.0.2.1:1",
		"PENSTOCK_GOSSIP=192.0.2.1:1", "PENSTOCK_JOIN=192.0.2.1:1",
		"PENSTOCK_TLS=true", "PENSTOCK_NAME=mine", "PENSTOCK_SLOTS=0", "PENSTOCK_LISTEN=192.0.2.1:1",
	)
	logs := filepath.Join(t.TempDir(), "logs")
	f := startLocal(t, env, "--workers=2", "--memory=64MiB", "--listen=127.0.0.1:0", "--dir="+logs)
	for path, want := range map[string]os.FileMode{f.TokenFile: 0o600, filepath.Dir(f.TokenFile): os.ModeDir | 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if out := f.read(t, spec); !strings.Contains(out, `"rows":20000,`) {
		t.Errorf("read: %s", out)
	}
	if _, errs := run(t, 1, nil, "read", spec, "--master="+f.Address); !strings.Contains(errs, "--token-file") {
		t.Errorf("without the token: %s", errs)
	}
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
	if rest := left(t, f.tmp); len(rest) > 0 {
		t.Errorf("left behind: %v", rest)
	}
	if got := left(t, logs); len(got) != 3 {
		t.Errorf("logs: %v", got)
	}
}

func TestLocalReplacesItsWorker(t *testing.T) {
	t.Parallel()
	needsProc(t)
	logs := t.TempDir()
	f := startLocal(t, nil, "--dir="+logs)
	spec := smallSpec(t, 3000)
	for range 2 {
		if n := f.kill(t, "worker"); n != 1 {
			t.Fatalf("%d workers ran", n)
		}
		// Only a new one can serve this.
		if out := f.read(t, spec); !strings.Contains(out, `"rows":3000,`) {
			t.Errorf("read: %s", out)
		}
	}
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
	if log := text(t, filepath.Join(logs, "master.log")); strings.Count(log, "starting another") != 2 ||
		!strings.Contains(log, "worker-1 ended by itself: signal: killed") {
		t.Errorf("it says:\n%s", log)
	}
}

func TestLocalEndsWithItsMaster(t *testing.T) {
	t.Parallel()
	needsProc(t)
	f := startLocal(t, nil)
	if n := f.kill(t, "master"); n != 1 {
		t.Fatalf("%d masters ran", n)
	}
	err := f.Wait()
	if err == nil {
		t.Fatal("exit status 0")
	}
	for _, want := range []string{"exit status 1", "the master ended by itself (signal: killed)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	master := filepath.Join(filepath.Dir(f.TokenFile), "logs", "master.log")
	if !strings.Contains(err.Error(), master) || !strings.Contains(text(t, master), "this master leads") {
		t.Errorf("the error does not name the log %s: %v", master, err)
	}
	for end := time.Now().Add(time.Minute); len(children(t, "TMPDIR="+f.tmp+"\x00")) > 0; { // workers end by themselves
		if time.Now().After(end) {
			t.Fatalf("these outlive it: %v", children(t, "TMPDIR="+f.tmp+"\x00"))
		}
		time.Sleep(10 * time.Millisecond)
	}
	if kept := left(t, filepath.Dir(f.TokenFile)); len(kept) != 1 {
		t.Errorf("besides logs, it leaves %v", kept)
	}
}

// TestNobodyOutlivesLocal ends it in the ways there are. In none of them does its standard input close, which this test
// holds.
func TestNobodyOutlivesLocal(t *testing.T) {
	t.Parallel()
	needsProc(t)
	spec := smallSpec(t, 1000)
	for _, c := range []struct {
		name   string
		run    []string // besides the command
		end    syscall.Signal
		status int
	}{
		{"SIGINT", nil, syscall.SIGINT, 0},
		{"SIGTERM", nil, syscall.SIGTERM, 0},
		{"SIGKILL", nil, syscall.SIGKILL, -1},
		// The parent's child gets its standard input, and is not the last command, which a shell would become itself.
		{"SIGKILL of the parent", []string{"sh", "-c", `"$@"; exit 1`, "sh"}, syscall.SIGKILL, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			tmp := t.TempDir()
			args := append(c.run, binary, "local", "--end-with-stdin")
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			cmd.Stderr = &log
			alive := inherit(t, cmd)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			cmd.ExtraFiles[0].Close()
			example := ""
			for lines := bufio.NewScanner(stdout); example == "" && lines.Scan(); {
				if at := strings.Index(lines.Text(), "penstock read "); at >= 0 {
					example = strings.Replace(lines.Text()[at:], "spec.yaml", spec, 1)
				}
			}
			if example == "" {
				err := cmd.Wait()
				t.Fatalf("it ended before it was up: %v\n%s", err, &log)
			}
			run(t, 0, nil, strings.Fields(example)[1:]...)
			if err := cmd.Process.Signal(c.end); err != nil {
				t.Fatal(err)
			}
			if _, err := alive.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Fatalf("these outlive it: %v (%v)", children(t, "TMPDIR="+tmp+"\x00"), err)
			}
			_ = cmd.Wait() // the status says it
			if status := cmd.ProcessState.ExitCode(); status != c.status {
				t.Errorf("exit status %d, want %d", status, c.status)
			}
			if rest := left(t, tmp); c.name != "SIGKILL" && len(rest) > 0 {
				t.Errorf("left behind: %v", rest)
			}
		})
	}
}

// inherit gives a command, and all that it will run, the writing end of a pipe of which none of them knows; reading
// from the other ends with the last of them.
func inherit(t *testing.T, cmd *exec.Cmd) *os.File {
	t.Helper()
	alive, inherited, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { alive.Close(); inherited.Close() })
	if err := alive.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{inherited}
	return alive
}

func needsProc(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no /proc")
	}
}

func TestLocalExplainsItsMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"workers", []string{"--workers=0"}, []string{"--workers: want 1 or more, found 0"}},
		{"other machines", []string{"--listen=0.0.0.0:7070"}, []string{
			"0.0.0.0:7070 is no loopback address",
			"penstock master",
		}},
		{"no port", []string{"--listen=localhost"}, []string{"--listen", "127.0.0.1:0"}},
		{"memory", []string{"--memory=1MiB"}, []string{
			"worker-1 ended before it was up",
			"--memory: want 16MiB or more",
		}},
		{
			"storage",
			[]string{"--storage-config=/nowhere.yaml"},
			[]string{"master ended before it was up", "/nowhere.yaml"},
		},
		{"token", []string{"--token-file=/nowhere/token"}, []string{"/nowhere/token"}},
		{"logs", []string{"--dir=/dev/null/logs"}, []string{"--dir", "/dev/null"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, errs := run(t, 1, []string{"TMPDIR=" + t.TempDir()}, append([]string{"local"}, c.args...)...)
			for _, want := range c.want {
				if !strings.Contains(errs, want) {
					t.Errorf("the error lacks %q:\n%s", want, errs)
				}
			}
		})
	}
}
