package python

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/api/spec"
)

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
	// The interpreter, where all may read it: it may lie in its user's home.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount(found[0], dir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	cfg := config(slog.New(slog.DiscardHandler))
	e := Environment{Interpreter: filepath.Join(dir, "bin", "python3."+found[1]), Path: cfg.Environments[Default].Path}
	e.Path = append(e.Path, filepath.Dir(filepath.Dir(found[2])))
	cfg.Environments[Default], cfg.Users = e, Users{20001, 20002}
	p, err := New(cfg)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	quick(p)
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

// What user ids cannot be.
func TestUsersThatCannotBe(t *testing.T) {
	for _, u := range []Users{{0, 5}, {6, 5}, {1, 1 << 20}, {1, 0}, {5, ^uint32(0)}} {
		if _, err := newUsers(u); err == nil {
			t.Errorf("%v can be", u)
		}
	}
}
