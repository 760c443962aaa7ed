package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/file"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Pending is a new file that nobody sees yet. It outlives the process that wrote it: Finish or Drop ends it.
type Pending struct {
	URI    string   `json:"uri"`
	Upload string   `json:"upload"`
	Tags   []string `json:"tags"`
	Size   int64    `json:"size"`
}

// Writable fails unless new files may be begun below a folder: on disks anywhere, in other stores below the prefixes
// that the profile lists by "write".
func (s *Store) Writable(profile, uri string) error {
	if strings.HasPrefix(uri, file.Scheme) {
		return nil
	}
	key := ProfileName(profile)
	var prefixes []string
	if p, ok := s.profiles[key].(object.Allowing); ok {
		prefixes = p.WritePrefixes()
	}
	for _, p := range prefixes {
		if strings.HasPrefix(uri+"/", strings.TrimSuffix(p, "/")+"/") && !strings.Contains(uri+"/", "/../") {
			return nil
		}
	}
	if len(prefixes) == 0 {
		return fmt.Errorf(
			"storage profile %s lets nothing be written: list %s, or a folder above it, in its field write", key, uri)
	}
	return fmt.Errorf(
		"storage profile %s does not let %s be written, only what lies below %s: write there, or list it in its "+
			"field write", key, uri, strings.Join(prefixes, ", "))
}

// Upload writes a new file from its beginning to its end. It keeps one part in memory, and is used by one goroutine.
type Upload struct {
	ctx     context.Context //nolint:containedctx // io.Writer has no place for it
	to      retrying
	pending Pending
	part    []byte
}

// Begin begins a new file, which must be Writable.
func (s *Store) Begin(ctx context.Context, profile, uri string) (*Upload, error) {
	if err := s.Writable(profile, uri); err != nil {
		return nil, err
	}
	b, err := s.backend(profile, uri)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", uri, err)
	}
	u := &Upload{ctx: ctx, to: b, pending: Pending{URI: uri}, part: make([]byte, 0, object.PartSize)}
	err = u.to.uploader(ctx, 0, func(ctx context.Context, to object.Uploader) error {
		u.pending.Upload, err = to.Begin(ctx, uri)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", uri, err)
	}
	return u, nil
}

// Write adds bytes.
func (u *Upload) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), cap(u.part)-len(u.part))
		u.part, rest = append(u.part, rest[:n]...), rest[n:]
		if len(u.part) == cap(u.part) {
			if err := u.send(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

func (u *Upload) send() error {
	p := &u.pending
	if len(p.Tags) == object.MaxParts {
		return fmt.Errorf("write %s: it has more than %d parts of %d MiB; write more files of fewer rows",
			p.URI, object.MaxParts, object.PartSize>>20)
	}
	err := u.to.uploader(u.ctx, int64(len(u.part)), func(ctx context.Context, to object.Uploader) error {
		tag, err := to.Part(ctx, p.URI, p.Upload, len(p.Tags)+1, u.part)
		if err == nil {
			p.Tags = append(p.Tags, tag)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s, part %d: %w", p.URI, len(p.Tags)+1, err)
	}
	p.Size += int64(len(u.part))
	u.part = u.part[:0]
	return nil
}

// End writes what is left, and returns what Finish takes.
func (u *Upload) End() (Pending, error) {
	if len(u.part) > 0 || len(u.pending.Tags) == 0 {
		if err := u.send(); err != nil {
			return Pending{}, err
		}
	}
	return u.pending, nil
}

// Abandon forgets a file that was not finished, even if the context is over.
func (u *Upload) Abandon(ctx context.Context) error {
	return u.to.drop(context.WithoutCancel(ctx), u.pending)
}

// Finish gives a file its name, and describes it. It fails with fs.ErrExist if another one has that name. What is
// finished already, by a call whose answer was lost, may be finished again.
func (s *Store) Finish(ctx context.Context, profile string, p Pending) (*pb.File, error) {
	b, err := s.backend(profile, p.URI)
	if err == nil {
		err = b.uploader(ctx, p.Size, func(ctx context.Context, to object.Uploader) error {
			return to.Finish(ctx, p.URI, p.Upload, p.Tags)
		})
	}
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("write %s: %w", p.URI, err)
	}
	f, gone := b.Stat(ctx, p.URI)
	switch {
	case gone != nil && err == nil:
		return nil, fmt.Errorf("write %s: %w", p.URI, gone)
	case err == nil && f.GetSize() != p.Size: // versitygw takes an upload that is gone for whichever file is there
		return nil, fmt.Errorf("write %s: there is another file: %w", p.URI, fs.ErrExist)
	case err != nil && (gone != nil || f.GetSize() != p.Size || errors.Is(err, fs.ErrExist)):
		return nil, fmt.Errorf("write %s: %w", p.URI, err)
	}
	return f, nil
}

// Drop forgets a file that was not finished.
func (s *Store) Drop(ctx context.Context, profile string, p Pending) error {
	b, err := s.backend(profile, p.URI)
	if err == nil {
		err = b.drop(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("drop what was written of %s: %w", p.URI, err)
	}
	return nil
}

func (r retrying) drop(ctx context.Context, p Pending) error {
	return r.uploader(ctx, 0, func(ctx context.Context, to object.Uploader) error {
		return to.Drop(ctx, p.URI, p.Upload)
	})
}

// uploader calls op, which moves so many bytes, with the backend until it succeeds.
func (r retrying) uploader(ctx context.Context, size int64, op func(context.Context, object.Uploader) error) error {
	to, ok := r.next.(object.Uploader)
	if !ok {
		return ErrNoWriter
	}
	timeout := r.cfg.AttemptTimeout + time.Duration(size)*time.Microsecond
	return r.retry(ctx, timeout, func(ctx context.Context, _ func(bool)) error { return op(ctx, to) })
}
