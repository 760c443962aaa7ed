package python

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/api/spec"
)

// The folders of what tenants' processes read.
const interpreterFolder, packagesFolder, sourceFolder = "interpreter", "packages", "source"

// tenants runs a pool with two user ids in this process, which has mounts of its own, and says who its processes are.
func tenants(dir string) error {
	text, err := exec.Command("python", "-c", "import sys, numpy\nprint(sys.base_prefix); print(sys.version_info.minor); "+
		"print(numpy.__file__)").Output()
	if err != nil {
		return err
	}
	found := strings.Fields(string(text))
	if err := bundle("python"); err != nil {
		return err
	}
	cfg := config(slog.New(slog.DiscardHandler))
	// What processes read, where all may read it: it may lie in a folder of this user alone.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for name, from := range map[string]string{
		interpreterFolder: found[0], packagesFolder: filepath.Dir(filepath.Dir(found[2])),
		sourceFolder: cfg.Environments[Default].Path[0],
	} {
		if err := unix.Mount(from, filepath.Join(dir, name), "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	cfg.Environments[Default] = Environment{
		Interpreter: filepath.Join(dir, interpreterFolder, "bin", "python3."+found[1]),
		Path:        []string{filepath.Join(dir, sourceFolder), filepath.Join(dir, packagesFolder)},
	}
	cfg.Users = Users{20001, 20002}
	p, err := New(cfg)
	if err != nil {
		return err
	}
	quick(p)
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	who := func(namespace string) {
		o := op{name: "lives", from: namespace, in: []spec.Type{int64s}, out: []spec.Type{strings_}}
		out, err := once(p, o, numbered(1))
		fmt.Printf("%s: %s", namespace, out.Data)
		if err != nil {
			fmt.Printf("%v", err)
		}
		fmt.Println()
	}
	who("a")
	who("b")
	who("a")
	who("c")
	for p.look(time.Now().Add(time.Hour)); ; time.Sleep(time.Millisecond) { // until all have ended
		p.mu.Lock()
		left := len(p.processes)
		p.mu.Unlock()
		if left == 0 {
			break
		}
	}
	who("c")
	end()
	return <-ended
}

// Namespaces have user ids of their own, as long as processes of theirs live, and folders that go with these.
func TestNamespacesHaveUsers(t *testing.T) {
	if err := mayChangeUsers(); err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "penstock-users-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{interpreterFolder, packagesFolder, sourceFolder} {
		folder := filepath.Join(dir, name)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(folder)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), "TEST_USERS="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		if strings.Contains(err.Error(), "operation not permitted") || strings.Contains(string(out), "operation not permitted") {
			t.Skipf("no mounts of its own: %v: %s", err, out)
		}
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 5 {
		t.Fatalf("%s", out)
	}
	for i, want := range []string{"a: 20001 20001 [] ", "b: 20002 20002 [] ", lines[0], "c: ", "c: 2000"} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("%q, want %q", lines[i], want)
		}
	}
	if want := "all user ids of --python-users have processes of 2 other namespaces"; !strings.Contains(lines[3], want) {
		t.Errorf("%q, want %q", lines[3], want)
	}
	homes := []string{}
	for _, i := range []int{0, 1, 4} {
		home := lines[i][strings.LastIndex(lines[i], " ")+1:]
		if exists(home) || slices.Contains(homes, home) {
			t.Errorf("%s is there still, or given twice", home)
		}
		homes = append(homes, home)
	}
}

// without runs something on a thread that has capabilities less, as root has them in a container.
func without(t *testing.T, f func(), drop ...uint) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var has [2]unix.CapUserData
		err := unix.Capget(&header, &has[0])
		for _, bit := range drop {
			has[bit/32].Effective &^= 1 << (bit % 32)
		}
		if err == nil {
			err = unix.Capset(&header, &has[0])
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Nothing is left of a namespace's folder for the next one with its user id, even by who may not look into it.
func TestHomesAreRemoved(t *testing.T) {
	if err := mayChangeUsers(); err != nil {
		t.Skip(err)
	}
	u, err := newUsers(Users{20003, 20003})
	if err != nil {
		t.Fatal(err)
	}
	for _, fill := range []string{"mkdir -p $0/a/b && touch $0/a/b/c && chmod 0 $0/a", "rmdir $0 && ln -s /etc $0"} {
		a, err := u.enter("a")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", fill, a.home)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.id, Gid: a.id}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		without(t, a.leave, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER)
		if _, err := os.Lstat(a.home); !os.IsNotExist(err) || !exists("/etc/passwd") || len(u.free) != 1 {
			t.Errorf("%s is there still (%v), or %d user ids are free", a.home, err, len(u.free))
		}
	}
}

// An id is nobody's any more if something is left in its folder.
func TestUsersWhoseHomesStay(t *testing.T) {
	if err := mayChangeUsers(); err != nil {
		t.Skip(err)
	}
	u, err := newUsers(Users{20003, 20003})
	if err != nil {
		t.Fatal(err)
	}
	a, err := u.enter("a")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(a.home)
	if err := os.WriteFile(filepath.Join(a.home, "left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	without(t, a.leave, unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH, unix.CAP_FOWNER)
	if _, err := u.enter("b"); err == nil || !exists(a.home) {
		t.Errorf("another namespace gets the user of %s: %v", a.home, err)
	}
}

// Whoever may not be ended, such as a debugger that another user left in the container, is not waited for.
func TestOthersAreLeftAlone(t *testing.T) {
	if err := mayChangeUsers(); err != nil {
		t.Skip(err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: 20004, Gid: 20004}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	swept := make(chan struct{})
	go func() {
		without(t, own.sweep, unix.CAP_KILL)
		close(swept)
	}()
	select {
	case <-swept:
	case <-time.After(10 * time.Second):
		t.Error("it is waited for")
	}
	_ = cmd.Process.Kill() // unless the shared pool has, as it may
	_ = cmd.Wait()
	<-swept
}

// Processes of functions get none of the ambient capabilities that a worker changes users by.
func TestNoAmbientCapabilities(t *testing.T) {
	if err := mayChangeUsers(); err != nil {
		t.Skip(err)
	}
	th, started := newThread(), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var has [2]unix.CapUserData
		err := unix.Capget(&header, &has[0])
		has[0].Inheritable |= 1 << unix.CAP_SETUID
		if err == nil {
			err = unix.Capset(&header, &has[0])
		}
		if err == nil {
			err = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SETUID, 0, 0)
		}
		started <- err
		th.run()
	}()
	defer th.end()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "grep", "CapAmb", "/proc/self/status")
	var out strings.Builder
	cmd.Stdout = &out
	if err := th.do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || strings.TrimSpace(out.String()) != "CapAmb:\t0000000000000000" {
		t.Errorf("%s: %v", &out, err)
	}
}

// What user ids cannot be.
func TestUsersThatCannotBe(t *testing.T) {
	for _, u := range []Users{{0, 5}, {6, 5}, {1, 1 << 20}, {1, 0}, {5, ^uint32(0)}} {
		if _, err := newUsers(u); err == nil {
			t.Errorf("%v can be", u)
		}
	}
}
