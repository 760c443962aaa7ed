package python

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// hosting has a host listen at a socket, until it is stopped at once.
func hosting(t *testing.T, socket string) (*Host, func()) {
	t.Helper()
	log := &lines{}
	h, err := NewHost(HostConfig{
		Environment: config(nil).Environments[Default], Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	h.watch, h.drain = 10*time.Millisecond, 0
	l, err := ListenHost(socket, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.Run(ctx, l) }()
	stop := sync.OnceFunc(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return h, stop
}

// beside is a pool whose processes a host starts.
func beside(t *testing.T, socket string) *Pool {
	p, _ := running(t, func(c *Config, _ *times) {
		c.Environments = map[string]Environment{Default: {Socket: socket}}
	})
	return p
}

// Processes of a host do as those that a worker starts itself.
func TestHostedProcesses(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	hosting(t, socket)
	p := beside(t, socket)
	same := op{name: "same", in: []spec.Type{strings_}, out: []spec.Type{strings_}}
	if out, err := once(p, same, words("a", "bc")); err != nil || string(out.Data) != "abc" {
		t.Errorf("%q: %v", out.Data, err)
	}
	ints := []spec.Type{int64s}
	small := func(f *pb.Function) { f.Memory = 150 << 20 }
	for want, o := range map[string]op{
		"exit status 3, and so did a second one": {name: "leave", in: ints, out: ints},
		"died of signal 11 (segmentation fault)": {name: "segfault", in: ints, out: ints},
		"of memory, where its op allows 150":     {name: "hog", in: ints, out: ints, more: small},
		"ValueError: bad text":                   {name: "bad", in: ints, out: ints},
		"did not come to an end within 50ms":     {name: "hang", in: same.in, out: ints, more: briefly},
	} {
		in := numbered(1)
		if o.name == "hang" {
			in = words(filepath.Join(t.TempDir(), "hangs"))
		}
		_, err := once(p, o, in)
		if _, ok := errors.AsType[*FunctionError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", o.name, err, want)
		}
	}
	if p.CPU() == 0 {
		t.Error("the processes have taken no time")
	}
}

func briefly(f *pb.Function) { f.TimeoutMs = 50 }

// A call whose caller leaves is interrupted, and what its process says last is heard.
func TestHostedProcessesAreInterrupted(t *testing.T) {
	socket, started := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "started")
	hosting(t, socket)
	p := beside(t, socket)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		for !exists(started) {
			time.Sleep(time.Millisecond)
		}
		leave()
	}()
	o := op{name: "hang", in: []spec.Type{strings_}, out: []spec.Type{int64s}}
	if err := o.open(t, p).Call(ctx, callOf(o.out, words(started))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Without its host a worker can start no process, and says so; with a new one it goes on.
func TestHostsComeAndGo(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	p := beside(t, socket)
	o := op{name: "pid", in: []spec.Type{int64s}, out: []spec.Type{int64s}}
	none := func() {
		t.Helper()
		if _, err := once(p, o, numbered(1)); !errors.Is(err, ErrNoProcess) || !strings.Contains(err.Error(), "penstock python-host") {
			t.Errorf("without a host: %v", err)
		}
	}
	none()
	_, stop := hosting(t, socket)
	first, err := once(p, o, numbered(1))
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if syscall.Kill(int(first.I64[0]), 0) == nil {
		t.Errorf("process %d outlives its host", first.I64[0])
	}
	none()
	hosting(t, socket)
	if second, err := once(p, o, numbered(1)); err != nil || second.I64[0] == first.I64[0] {
		t.Errorf("process %v and then %v: %v", first.I64, second.I64, err)
	}
}

// A worker of a user whom its host does not know says how to make it known.
func TestHostsOfOtherUsers(t *testing.T) {
	if err := mayChangeUsers(); err != nil {
		t.Skip(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	hosting(t, socket)
	if err := os.Chown(socket, 20003, 20003); err != nil {
		t.Fatal(err)
	}
	without(t, func() {
		_, err := (&remote{socket}).start(launch{})
		if want := fmt.Sprint("start it with --worker-user ", os.Geteuid()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}, unix.CAP_DAC_OVERRIDE)
}

// What a host has started for a worker that is killed ends, programs included that have left their session.
func TestHostedProcessesEndWithTheirWorker(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	hosting(t, socket)
	_, pids := killed(t, "TEST_SOCKET="+socket)
	for _, pid := range pids {
		awaitNone(t, pid)
	}
}

// A host starts nothing for who does not ask for it in the right way, and stays.
func TestHostsRefuse(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	hosting(t, socket)
	if _, err := ListenHost(socket, false); err == nil || !strings.Contains(err.Error(), "another host listens") {
		t.Errorf("a second host: %v", err)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: %v", info.Mode(), err)
	}
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	start := order{Do: orderStart, Protocol: hostProtocol + 1}
	for want, c := range map[string]struct {
		message any
		files   int
	}{
		"with 0 files; want 2":                       {start, 0},
		"with 1 files; want 2":                       {start, 1},
		"more than 4096 bytes or 2 files":            {start, 3},
		"it speaks protocol 2, and the host 1":       {start, 2},
		"cannot unmarshal string":                    {"no order", 2},
		"it speaks protocol 0":                       {order{Do: orderKill}, 2},
		"json: cannot unmarshal array into Go value": {[]int{1}, 2},
	} {
		dialed, err := net.Dial("unixpacket", socket)
		if err != nil {
			t.Fatal(err)
		}
		conn := dialed.(*net.UnixConn)
		var r report
		err = sendPacket(conn, c.message, slices.Repeat([]*os.File{file}, c.files)...)
		if err == nil {
			_, err = receivePacket(conn, &r, 0)
		}
		if err != nil || !strings.Contains(r.Error, want) {
			t.Errorf("%+v: %v, want %q", r, err, want)
		}
		_ = conn.Close()
	}
	wholesome(t)
}
