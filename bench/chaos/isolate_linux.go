package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// isolatedEnv tells the program that it runs in namespaces of its own.
const isolatedEnv = "PENSTOCK_CHAOS_ISOLATED"

func isolated() bool { return os.Getenv(isolatedEnv) != "" }

// mayIsolate says why the program cannot have a network and mounts of its own, or nil.
func mayIsolate() error {
	if isolated() {
		return nil
	}
	if os.Getuid() != 0 {
		return errors.New("not root")
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("there is no %s (Debian's packages iproute2 and nftables have it)", tool)
		}
	}
	// Root in a container may lack the right, and a kernel the parts.
	probe := exec.Command("sh", "-ec", "ip link add probe0 type bridge; ip link add probe1 type veth peer name probe2; nft add table inet probe") //nolint:noctx // it does no I/O
	probe.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if out, err := probe.CombinedOutput(); err != nil {
		return fmt.Errorf("network namespaces do not work here: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// runIsolated runs the program again in a network and with mounts of its own, which end with it, however it ends.
func runIsolated(ctx context.Context) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	// The child is killed when the thread ends that started it; the main thread is the last.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, binary, os.Args[1:]...) //nolint:gosec // itself, as it was called
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), isolatedEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL, Setpgid: true,
	}
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode()) // it has said why
	}
	return err
}

// mountTmpfs puts an empty file system of a number of bytes on a directory.
func mountTmpfs(dir string, size int64) error {
	if err := syscall.Mount("chaos", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		return fmt.Errorf("mount a tmpfs on %s: %w", dir, err)
	}
	return nil
}

// unmount takes it away again.
func unmount(dir string) error {
	if err := syscall.Unmount(dir, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

// dieWith makes a command end with this process; the caller must stay on its thread.
func dieWith(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
