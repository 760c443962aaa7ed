package python

import (
	"io"
	"os/exec"
	"testing"
)

// What a process has counts once, though it forks children, and what these have of their own counts besides.
func TestMemoryOfForks(t *testing.T) {
	const mib = 1 << 20
	cmd := exec.CommandContext(t.Context(), "python", "-c", `
import os, sys
mine = bytearray(100 << 20)
mine[::4096] = b"x" * len(mine[::4096])
children = []
for _ in range(2):
    r, w = os.pipe()
    if os.fork() == 0:
        own = bytearray(50 << 20)
        own[::4096] = b"x" * len(own[::4096])
        os.write(w, b"y")
        sys.stdin.read()
        os._exit(0)
    os.read(r, 1)
os.write(1, b"y")
sys.stdin.read()
`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = io.ReadFull(out, make([]byte, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	if has := memoryOf(cmd.Process.Pid, 0, 250*mib, false); has < 195*mib || has > 250*mib {
		t.Errorf("%d MiB, of 100 and twice 50", has/mib)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
