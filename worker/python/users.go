package python

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Users are the ids that processes run as, one for each namespace; none: all run as the user of who starts them.
type Users struct{ First, Last uint32 }

// users gives user ids to namespaces, while processes of theirs live.
type users struct {
	mu   sync.Mutex
	free []uint32 // what was given back first is first; nil: there are none, nor need there be
	some bool
	of   map[string]*tenant
}

// tenant is a namespace that has a user id.
type tenant struct {
	users     *users
	namespace string
	id        uint32 // 0: this process's own
	home      string // for it alone
	processes int
}

func newUsers(u Users) (*users, error) {
	out := &users{of: map[string]*tenant{}}
	if u == (Users{}) {
		return out, nil
	}
	if u.First == 0 || u.First > u.Last || u.Last-u.First >= maxUsers || u.Last == ^uint32(0) {
		return nil, fmt.Errorf("python: user ids from %d to %d; want a range of up to %d, without root's 0",
			u.First, u.Last, maxUsers)
	}
	if err := mayChangeUsers(); err != nil {
		return nil, fmt.Errorf("python: processes cannot be given user ids of their own: %w", err)
	}
	out.some = true
	for id := u.First; id <= u.Last; id++ {
		if id == uint32(os.Geteuid()) {
			return nil, fmt.Errorf("python: user ids from %d to %d are this process's own, too", u.First, u.Last)
		}
		out.free = append(out.free, id)
	}
	return out, nil
}

const maxUsers = 1 << 16

// enter takes a process in of a namespace.
func (u *users) enter(namespace string) (*tenant, error) {
	if !u.some {
		return &tenant{users: u}, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	t, ok := u.of[namespace]
	if !ok {
		if len(u.free) == 0 {
			return nil, fmt.Errorf("all user ids of --python-users have processes of %d other namespaces; give more",
				len(u.of))
		}
		t = &tenant{users: u, namespace: namespace, id: u.free[0]}
		var err error
		if t.home, err = os.MkdirTemp("", "penstock-python-"); err != nil {
			return nil, err
		}
		if err := os.Chown(t.home, int(t.id), int(t.id)); err != nil {
			return nil, errors.Join(err, os.Remove(t.home))
		}
		u.free, u.of[namespace] = u.free[1:], t
	}
	t.processes++
	return t, nil
}

// leave says that a process has ended. The last one gives up the user id, once nothing runs as it, and nothing is left
// in its folder. That may take long: meanwhile others come and go.
func (t *tenant) leave() {
	if !t.users.some || !t.last() {
		return
	}
	if clearUser(t.id) && removeHome(t.home) == nil {
		t.users.mu.Lock()
		defer t.users.mu.Unlock()
		t.users.free = append(t.users.free, t.id) // else it is not used again
	}
}

// last takes a process off, and says whether it was the last one. Then the namespace has the user id no more.
func (t *tenant) last() bool {
	t.users.mu.Lock()
	defer t.users.mu.Unlock()
	if t.processes--; t.processes > 0 {
		return false
	}
	delete(t.users.of, t.namespace)
	return true
}

// removeHome removes the folder of a user who has no processes. To change owners may be the only right that this
// process has there. So it takes what it cannot remove.
func removeHome(home string) error {
	if os.RemoveAll(home) == nil {
		return nil
	}
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && path != home { // it may be a link now
			return err
		}
		if err := os.Lchown(path, os.Geteuid(), os.Getegid()); err != nil || !d.IsDir() { //nolint:gosec // no one is left
			return err
		}
		return os.Chmod(path, 0o700) //nolint:gosec // who could put a link there
	})
	return cmp.Or(err, os.RemoveAll(home))
}

// clearUser ends all processes of a user, and says whether none is left.
func clearUser(id uint32) bool {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		all := processesOf(id)
		if len(all) == 0 {
			return true
		}
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended just now
		}
		own.sweep()
	}
	return false
}
