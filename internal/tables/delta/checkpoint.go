package delta

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// checkpoint hands on the actions of a checkpoint: those of its files, and those of the sidecars that these name.
func (l *loader) checkpoint(ctx context.Context, c *checkpoint, each func(*action) error) error {
	var sidecars []string
	own := func(a *action) error {
		a.version = c.version
		switch {
		case a.Checkpoint != nil && a.Checkpoint.Version != c.version:
			return fmt.Errorf("it says that it is of version %d: restore it", a.Checkpoint.Version)
		case a.Sidecar != nil:
			sidecars = append(sidecars, a.Sidecar.Path[strings.LastIndexByte(a.Sidecar.Path, '/')+1:])
			return l.memory.Keep(int64(len(a.Sidecar.Path)) + 16)
		}
		return each(a)
	}
	for _, f := range c.parts {
		if err := l.actions(ctx, f, own); err != nil {
			return err
		}
	}
	if len(sidecars) == 0 {
		return nil
	}
	files, err := l.sidecars(ctx, sidecars)
	if err != nil {
		return fmt.Errorf("%s: %w", c.parts[0].GetUri(), err)
	}
	for _, f := range files {
		if err := l.actions(ctx, f, each); err != nil {
			return err
		}
	}
	return nil
}

// sidecars finds files by one listing of their folder.
func (l *loader) sidecars(ctx context.Context, names []string) ([]*pb.File, error) {
	dir := l.table.Root + sidecarDir
	at := make(map[string]int, len(names))
	for i, name := range names {
		if !strings.HasSuffix(name, ".parquet") {
			return nil, fmt.Errorf("its sidecar %.100q is no Parquet file", name)
		}
		at[name] = i
	}
	listed, err := find(ctx, l.table, sidecarDir, func(uri string) bool {
		_, ok := at[strings.TrimPrefix(uri, dir)]
		return ok
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	files := make([]*pb.File, len(names))
	for _, f := range listed {
		files[at[strings.TrimPrefix(f.GetUri(), dir)]] = f
	}
	for i, name := range names {
		if files[i] == nil && at[name] == i {
			return nil, fmt.Errorf("its sidecar %s%s is missing: restore it", dir, name)
		}
	}
	return files, nil
}

// actions hands on those of one file of a checkpoint.
func (l *loader) actions(ctx context.Context, f *pb.File, each func(*action) error) error {
	if f == nil { // a sidecar that was named twice
		return nil
	}
	if strings.HasSuffix(f.GetUri(), ".parquet") {
		if err := l.parquet(ctx, f, each); err != nil {
			return fmt.Errorf("%s: %w", f.GetUri(), err)
		}
		return nil
	}
	if err := l.use(f.GetSize()); err != nil {
		return err
	}
	all, err := l.lines(ctx, f)
	if err != nil {
		return err
	}
	for i := range all {
		if err := each(&all[i]); err != nil {
			return fmt.Errorf("%s: %w", f.GetUri(), err)
		}
	}
	return nil
}
