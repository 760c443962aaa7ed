package fit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fitted"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/plan"
)

const (
	// lockName is a file in a folder that the fit which works there holds locked.
	lockName = "lock"
	// abandonedAfter is how long nothing is written to a folder in the user's cache until it is removed.
	abandonedAfter = 4 * 7 * 24 * time.Hour
)

// openFolder opens the folder, which may have what a run before came to, and locks it.
func (r *fit) openFolder() error {
	r.folder, r.kept = r.flags.folder, r.flags.folder != ""
	cache := ""
	if !r.kept {
		user, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("--folder: name one: %w", err)
		}
		cache = filepath.Join(user, "penstock", "fit")
		r.folder = filepath.Join(cache, r.name())
	}
	uri, err := storage.Canonical(r.file())
	if err == nil {
		err = r.outside(uri)
	}
	if err == nil {
		r.lock, err = makeLocked(r.folder)
	}
	if err != nil {
		return fmt.Errorf("--folder: %w", err)
	}
	if !r.kept {
		if err := removeAbandoned(cache, time.Now().Add(-abandonedAfter)); err != nil { // which is no reason not to fit
			fmt.Fprintln(r.cmd.ErrOrStderr(), err)
		}
	}
	if err := r.resume(); err != nil {
		return errors.Join(err, r.lock.Close())
	}
	return nil
}

// makeLocked makes a folder, if there is none, and locks it. Another fit may remove it meanwhile.
func makeLocked(folder string) (*os.File, error) {
	for {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
		if file, err := lock(folder); !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
}

// lock locks a folder until the file is closed, or this process ends. fs.ErrNotExist: there is no folder any more.
func lock(folder string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(folder, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = process.Lock(file)
	if errors.Is(err, process.ErrLocked) {
		err = fmt.Errorf("another fit works in %s: wait for its end, or name another folder", folder)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// removeLocked removes a folder that this process holds locked. It has another name first, so that its place is never
// there without the lock.
func removeLocked(folder string) error {
	away := folder + "." + rand.Text()[:8]
	if err := os.Rename(folder, away); err != nil {
		return err
	}
	return os.RemoveAll(away)
}

// removeAbandoned removes the folders in the cache to which nothing was written since a time, but for those of the
// fits that run.
func removeAbandoned(cache string, since time.Time) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return fmt.Errorf("look for abandoned fits: %w", err)
	}
	for _, e := range entries {
		folder := filepath.Join(cache, e.Name())
		written, err := lastWritten(folder)
		if err != nil || !e.IsDir() || written.After(since) {
			continue // another fit has removed it meanwhile, maybe
		}
		lock, err := lock(folder)
		if err != nil {
			continue
		}
		if err := errors.Join(removeLocked(folder), lock.Close()); err != nil {
			return fmt.Errorf("remove an abandoned fit: %w; remove the folder yourself", err)
		}
	}
	return nil
}

// lastWritten is when something in a folder was written last.
func lastWritten(folder string) (last time.Time, err error) {
	err = filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
		return err
	})
	return last, err
}

// resume goes on from what a run before came to.
func (r *fit) resume() error {
	file, err := openFile(r.cmd.Context(), r.file(), r.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil || file.Spec != r.info().Spec || file.Dataset != r.info().Dataset:
		return os.Remove(r.file()) // of another run
	}
	r.use(r.cmd.Context(), file)
	return nil
}

// name tells this fit from those of other specs, other data and other files.
func (r *fit) name() string {
	sum := sha256.Sum256([]byte(r.info().Spec + "\x00" + r.info().Dataset + "\x00" + r.out))
	return hex.EncodeToString(sum[:8])
}

// info is what the file says of itself.
func (r *fit) info() fitted.Info {
	return fitted.Info{Spec: r.text, Dataset: hex.EncodeToString(plan.DatasetDigest(r.data.Files))}
}

// openFile opens a fitted file on disk. Its errors call it by another name.
func openFile(ctx context.Context, path, name string) (*fitted.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return fitted.Open(ctx, name, info.Size(), func(_ context.Context, buf []byte, offset int64) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = f.ReadAt(buf, offset)
		return errors.Join(err, f.Close())
	})
}

// file is the fitted file as far as passes have come, with quantiles as exact as is asked for.
func (r *fit) file() string {
	return filepath.Join(r.folder, fmt.Sprintf("fitted-%d.parquet", r.exact))
}

// use has further passes know what a file has.
func (r *fit) use(ctx context.Context, file *fitted.File) {
	r.known = file.Known(ctx, func(*fitted.Entry) (*pb.Table, error) { return &pb.Table{}, nil })
	r.data.Fitted = r.known
	r.functions = maps.Clone(file.Functions)
}
