package fit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/penstock-ml/penstock/internal/process"
)

// folder is where runs and the manifest lie. What the manifest names stays until the next one has replaced it. It may
// be used from any goroutine.
type folder struct {
	dir       string
	temporary bool
	lock      *os.File // nil: temporary
	serial    atomic.Uint64

	mu   sync.Mutex
	kept map[string]bool // files that the manifest on disk names
	old  []string        // of these, files that the next one will not
}

const runEnding = ".run"

// openFolder makes the folder, if it is not there yet; without a name it is a temporary one.
func openFolder(dir string) (*folder, error) {
	f := &folder{dir: dir, kept: map[string]bool{}}
	var err error
	if dir == "" {
		f.temporary = true
		f.dir, err = os.MkdirTemp("", "penstock-fit-*")
	} else {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil && !f.temporary {
		err = f.take()
	}
	if err != nil {
		return nil, fmt.Errorf("make the fit's folder: %w", err)
	}
	return f, nil
}

// take locks the folder until this process ends, or close.
func (f *folder) take() error {
	lock, err := os.OpenFile(filepath.Join(f.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = process.Lock(lock)
	if errors.Is(err, process.ErrLocked) {
		err = fmt.Errorf("another fit works in %s: wait for its end, or name another folder", f.dir)
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	f.lock = lock
	return nil
}

// name is a new one for a run.
func (f *folder) name(column int) string {
	return fmt.Sprintf("column-%d-%d%s", column, f.serial.Add(1), runEnding)
}

// drop removes runs that are no longer needed, once no manifest names them.
func (f *folder) drop(runs ...run) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, r := range runs {
		if f.kept[r.File] {
			f.old = append(f.old, r.File)
			continue
		}
		errs = append(errs, os.Remove(filepath.Join(f.dir, r.File)))
	}
	return errors.Join(errs...)
}

// replaced is told what the manifest on disk names now.
func (f *folder) replaced(kept map[string]bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, name := range f.old {
		if !kept[name] {
			errs = append(errs, os.Remove(filepath.Join(f.dir, name)))
		}
	}
	f.kept, f.old = kept, nil
	return errors.Join(errs...)
}

// sweep removes the runs, and unfinished manifests, of a fit that was killed.
func (f *folder) sweep() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("list the fit's folder: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		if !isRun(name) && name != manifestName+temporaryEnding || f.kept[name] {
			continue
		}
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what a fit left: %w", err)
		}
	}
	return nil
}

func (f *folder) close() error {
	if f.temporary {
		return os.RemoveAll(f.dir)
	}
	return errors.Join(f.sweep(), f.lock.Close())
}
