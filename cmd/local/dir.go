package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/penstock-ml/penstock/internal/process"
)

const (
	dirPattern = "penstock-local-*"
	// lockName is a file that a living `penstock local` holds locked in its directory.
	lockName = "lock"
)

// newDir makes a directory that only this user may open. The lock is this process's until its end: so others know a
// directory whose owner was killed.
func newDir() (dir string, lock *os.File, err error) {
	if dir, err = os.MkdirTemp("", dirPattern); err != nil {
		return "", nil, fmt.Errorf("local: %w", err)
	}
	// Locked before it has its name, or another process might take it for abandoned.
	unnamed := filepath.Join(dir, lockName+".new")
	if lock, err = os.OpenFile(unnamed, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return "", nil, fmt.Errorf("local: %w", errors.Join(err, os.RemoveAll(dir)))
	}
	err = process.Lock(lock)
	if err == nil {
		err = os.Rename(unnamed, filepath.Join(dir, lockName))
	}
	if err != nil {
		return "", nil, fmt.Errorf("local: lock %s: %w", dir, errors.Join(err, lock.Close(), os.RemoveAll(dir)))
	}
	return dir, lock, nil
}

// removeAbandoned removes the directories that killed fleets left. Those of other users, of the living, and those of
// which logs are kept stay.
func removeAbandoned() error {
	locks, err := filepath.Glob(filepath.Join(os.TempDir(), dirPattern, lockName))
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	var errs []error
	for _, path := range locks {
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue // another user's, or gone
		}
		if process.Lock(lock) == nil {
			errs = append(errs, os.RemoveAll(filepath.Dir(path)))
		}
		lock.Close()
	}
	return errors.Join(errs...)
}
