package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrLocked says that somebody else holds a lock.
var ErrLocked = errors.New("it is locked")

// Lock locks an open file or folder until it is closed, or this process ends. One that does not have its name any more
// is fs.ErrNotExist: who held it before may have removed it, and such a lock keeps nobody out.
func Lock(f *os.File) error {
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return ErrLocked
	case err != nil:
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	held, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(f.Name())
	if err == nil && !os.SameFile(held, named) {
		err = fmt.Errorf("%s was made anew: %w", f.Name(), fs.ErrNotExist)
	}
	return err
}
