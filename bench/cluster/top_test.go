package cluster_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
)

// terminal is one that a program runs in.
type terminal struct {
	*testing.T
	cmd        *exec.Cmd
	near, far  *os.File
	before     *unix.Termios
	reads      sync.WaitGroup
	mu         sync.Mutex
	said       strings.Builder
	everything string // said, when the program has ended
}

// inTerminal starts the binary in a terminal of its own.
func inTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	far, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{T: t, near: near, far: far, cmd: exec.CommandContext(t.Context(), binary, args...)}
	x.resize(120, 30)
	if x.before, err = unix.IoctlGetTermios(int(far.Fd()), unix.TCGETS); err != nil {
		t.Fatal(err)
	}
	x.cmd.Env = append(os.Environ(), env...)
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = far, far, far
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x.reads.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, err := near.Read(buffer)
			x.mu.Lock()
			x.said.Write(buffer[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		far.Close() // with the program's end the last one; then the reader ends
		x.reads.Wait()
		near.Close()
	})
	return x
}

func (x *terminal) resize(width, height uint16) {
	x.Helper()
	if err := unix.IoctlSetWinsize(int(x.near.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Col: width, Row: height}); err != nil {
		x.Fatal(err)
	}
}

func (x *terminal) press(keys string) {
	x.Helper()
	if _, err := x.near.WriteString(keys); err != nil {
		x.Fatal(err)
	}
}

// screen is the newest picture, by lines.
func (x *terminal) screen() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	frames := strings.Split(x.said.String(), "\033[H")
	text := frames[len(frames)-1]
	return strings.Split(strings.NewReplacer("\033[K", "", "\033[J", "").Replace(text), "\r\n")
}

func (x *terminal) shows(what string, holds func(lines []string) bool) {
	x.Helper()
	eventually(x.T, what, func() bool { return holds(x.screen()) })
}

// ends waits for the program's end, and holds that the terminal is as it was.
func (x *terminal) ends() {
	x.Helper()
	if err := x.cmd.Wait(); err != nil {
		x.Errorf("it ends with %v", err)
	}
	after, err := unix.IoctlGetTermios(int(x.far.Fd()), unix.TCGETS)
	if err != nil {
		x.Fatal(err)
	}
	if *after != *x.before {
		x.Errorf("the terminal is left as %+v, and was %+v", after, x.before)
	}
	const enter, leave = "\033[?1049h\033[?25l", "\033[?25h\033[?1049l"
	eventually(x.T, "it leaves the screen as it was", func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.everything = x.said.String()
		return strings.HasSuffix(x.everything, leave)
	})
	if !strings.HasPrefix(x.everything, enter) || strings.Contains(x.everything, "\033[2J") ||
		strings.Contains(x.everything, "\033[3") {
		x.Errorf("it writes %q", x.everything[:min(len(x.everything), 300)])
	}
}

// `penstock top` is drawn on a screen of its own, follows keys and the terminal's size, and leaves all as it was,
// however it ends.
func TestTopLive(t *testing.T) {
	t.Parallel()
	l := newLoops(t, cluster.Config{}, 2)
	s := provenanceSpec(t, 20_000, 10_000)
	l.train("job", s, 1, 100*time.Millisecond)
	l.sees("the trainer is measured", func(m map[string]*pb.SessionLoad) bool {
		return m["job"].GetBottleneck() != pb.Bottleneck_BOTTLENECK_UNSPECIFIED && m["job"].GetNeeded() > 0
	})
	eventually(t, "the fleet's verdict is known", func() bool {
		seen := l.sees("the fleet", func(map[string]*pb.SessionLoad) bool { return true })
		return strings.Contains(seen.GetVerdict(), "the bottleneck")
	})
	args := []string{"top", "--master=" + l.master, "--token-file=" + l.c.TokenFile()}

	x := inTerminal(t, []string{"TERM=xterm", "NO_COLOR=1"}, append(args, "--every=1h")...)
	has := func(want ...string) func([]string) bool {
		return func(lines []string) bool {
			return !slices.ContainsFunc(want,
				func(w string) bool { return !strings.Contains(strings.Join(lines, "\n"), w) })
		}
	}
	x.shows("the fleet", has("the bottleneck", "SESSION", "job", "WORKER", "sorted by rate"))
	x.press("s")
	x.shows("the other order", has("sorted by stall"))
	x.press("?\033[A") // keys that mean nothing
	x.press("n")
	x.shows("names in order", has("sorted by name"))
	x.resize(40, 9)
	x.shows("less of it", func(lines []string) bool {
		return len(lines) <= 9 && has("sorted by name")(lines) &&
			!slices.ContainsFunc(lines, func(line string) bool { return len([]rune(line)) > 40 })
	})
	x.press("q")
	x.ends()

	for name, end := range map[string]func(*terminal){
		"Ctrl-C":  func(x *terminal) { x.press("\003") },
		"SIGINT":  func(x *terminal) { signal(t, x.cmd.Process, syscall.SIGINT) },
		"SIGTERM": func(x *terminal) { signal(t, x.cmd.Process, syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			x := inTerminal(t, []string{"TERM=xterm"}, append(args, "--every=50ms")...)
			x.shows("the fleet", has("sorted by rate"))
			end(x)
			x.ends()
		})
	}

	dumb := inTerminal(t, []string{"TERM=dumb"}, args...)
	if err := dumb.cmd.Wait(); err != nil {
		t.Error(err)
	}
	dumb.shows("it once", has("job", "WORKER"))
	if text := strings.Join(dumb.screen(), "\n"); strings.Contains(text, "\033") {
		t.Errorf("a dumb terminal is written %q", text)
	}
	answersAgree(t, l)
}

func signal(t *testing.T, p *os.Process, s os.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// answersAgree holds that all that tell of a session tell the same.
func answersAgree(t *testing.T, l *loops) {
	t.Helper()
	at := []string{"--master=" + l.master, "--token-file=" + l.c.TokenFile()}
	ask := func(args ...string) string {
		out, _ := run(t, 0, nil, append(args, at...)...)
		return out
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"explain", "job"}, []string{
			"the bottleneck", "\n\nnext: ", "demand       ", "delivered    ",
			"a row takes", "STAGE",
		}},
		{[]string{"session", "describe", "job"}, []string{
			"running", "the bottleneck", "RANK", "present",
			"opened: 8 files",
		}},
		{[]string{"top", "--once", "--session=job"}, []string{"job", "HELD UP BY", "1 of 1"}},
	} {
		if out := ask(c.args...); slices.ContainsFunc(c.want,
			func(w string) bool { return !strings.Contains(out, w) }) {
			t.Errorf("penstock %s lacks one of %q:\n%s", strings.Join(c.args, " "), c.want, out)
		}
		var object map[string]any
		if err := json.Unmarshal([]byte(ask(append(c.args, "--output=json")...)), &object); err != nil ||
			len(object) == 0 {
			t.Errorf("penstock %s --output json: %v: %v", strings.Join(c.args, " "), err, object)
		}
	}
}
