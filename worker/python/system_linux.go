package python

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/internal/shared"
)

// attributes have a process lead a session and a group of its own, and end with the thread that starts it. It runs as a
// user of a group of the same number; 0: as this process.
func attributes(user uint32) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if user != 0 {
		a.Credential = &syscall.Credential{Uid: user, Gid: user}
	}
	return a
}

// forgo keeps what this thread starts from its ambient capabilities, which would pass on to other users, too. A worker
// that is not root has them to change users.
func forgo() {
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // fails only before Linux 4.3
}

// peerOf is the user of whoever has the other end.
func peerOf(conn *net.UnixConn) (user uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	if controlErr := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); controlErr != nil {
		return 0, controlErr
	}
	if err != nil {
		return 0, os.NewSyscallError("getsockopt", err)
	}
	return peer.Uid, nil
}

// adopt makes this process the parent of what dead processes below it leave.
func adopt() error {
	return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// Hide keeps this process's memory, variables and files from others of its user, such as those that run functions, and
// from core files.
func Hide() error {
	return os.NewSyscallError("prctl(PR_SET_DUMPABLE)", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// orphans are the children of this process that another has left: they are of sessions that began below it.
func orphans(known map[int]struct{}) (left []int) {
	mine, _ := unix.Getsid(0) // never fails
	for _, pid := range childOf(os.Getpid()) {
		session, err := unix.Getsid(pid)
		if _, ok := known[pid]; !ok && err == nil && session != mine {
			left = append(left, pid)
		}
	}
	return left
}

// processesOf are the processes of a user.
func processesOf(user uint32) (all []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // of one that has ended there is none
		for line := range strings.Lines(string(text)) {
			ids, ok := strings.CutPrefix(line, "Uid:")
			if ok && slices.Contains(strings.Fields(ids), fmt.Sprint(user)) {
				all = append(all, pid)
			}
		}
	}
	return all
}

// mayChangeUsers reports whether this process may run others as another user, end them, and give them a folder.
func mayChangeUsers() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	for name, bit := range map[string]int{
		"CAP_CHOWN": unix.CAP_CHOWN, "CAP_KILL": unix.CAP_KILL, "CAP_SETGID": unix.CAP_SETGID,
		"CAP_SETUID": unix.CAP_SETUID,
	} {
		if has[0].Effective&(1<<bit) == 0 {
			return fmt.Errorf("this process lacks %s", name)
		}
	}
	return nil
}

// pair makes two sockets that are connected.
func pair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "worker"), os.NewFile(uintptr(fds[1]), "child"), nil
}

// awaitEnd waits until a child has ended, and leaves it to be waited for: its number is not given to another before.
func awaitEnd(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("waitid", err)
		}
	}
}

// ticks are of the times in /proc, whatever the kernel's own are.
const ticks = time.Second / 100

// cpuOf is the time that a living process has taken, with the children that it has waited for; 0 if there is none.
func cpuOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text[max(0, bytes.LastIndexByte(text, ')')):]), " ") // behind its name
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0
	}
	var sum time.Duration
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		n, _ := strconv.ParseInt(f, 10, 64)
		sum += time.Duration(n) * ticks
	}
	return sum
}

// memoryOf is what a process has that is not a file's, and its children below it. Memory that they share counts only
// beyond its first bytes, which are the worker's; if it keeps some of that, then all of it counts that it has mapped.
// If that is more than it may have, it is looked at closely: what children have of what they were forked off counts
// once.
func memoryOf(pid int, first, may int64, keeps bool) int64 {
	sum, mapped := residentOf(pid)
	if keeps {
		mapped = max(mapped, mappedOf(pid)) // which only its own user, or a debugger, may see
	}
	all := append([]int{pid}, childrenOf(pid)...)
	for _, child := range all[1:] {
		anonymous, _ := residentOf(child)
		sum += anonymous
	}
	shared := max(0, mapped-first)
	if sum+shared > may && len(all) > 1 {
		sum = 0
		for _, each := range all {
			sum += proportionOf(each)
		}
	}
	return sum + shared
}

// childrenOf are the processes below one.
func childrenOf(pid int) (all []int) {
	of := []int{pid}
	for len(of) > 0 && len(all) < maxChildren {
		below := childOf(of[0])
		all, of = append(all, below...), append(of[1:], below...)
	}
	return all
}

// childOf are the children of a process, of whichever of its threads.
func childOf(pid int) (all []int) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)) // of one that has ended there are none
	for _, task := range tasks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		for _, f := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// proportionOf is the part of a process in its memory that is not a file's: a page of n processes counts 1/n.
func proportionOf(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)) // of one that has ended there is none
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "Pss_Anon:"); ok {
			return kibibytes(value)
		}
	}
	anonymous, _ := residentOf(pid) // before Linux 5.9
	return anonymous
}

// kibibytes is a size as /proc has it.
func kibibytes(text string) int64 {
	kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
	return kib << 10
}

// maxChildren is of how many processes below one the memory is looked at.
const maxChildren = 1000

func residentOf(pid int) (anonymous, memfds int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // of one that has ended there is none
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "RssAnon" && name != "RssShmem" {
			continue
		}
		if name == "RssAnon" {
			anonymous = kibibytes(value)
		} else {
			memfds = kibibytes(value)
		}
	}
	return anonymous, memfds
}

// mappedOf is how much of what workers have shared a process has mapped.
func mappedOf(pid int) (bytes int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "/memfd:"+shared.Name) {
			continue
		}
		var from, to int64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			bytes += to - from
		}
	}
	return bytes
}
