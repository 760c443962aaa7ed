package master

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/access"
)

// limited is a Storage whose listings hold nothing that a namespace may not read: not by a link either. What was not
// listed is never read.
type limited struct {
	storage.Storage
	limits access.Limits
}

// List implements storage.Storage.
func (l limited) List(ctx context.Context, profile string, uris []string) ([]*pb.File, error) {
	files, _, err := l.Tell(ctx, &pb.Dataset{Storage: profile, Uri: uris})
	return files, err
}

// Tell implements storage.Teller.
func (l limited) Tell(ctx context.Context, of *pb.Dataset) ([]*pb.File, storage.LeftOut, error) {
	if l.limits.Unlimited() {
		return storage.Tell(ctx, l.Storage, of)
	}
	datasets, err := l.datasets(of.GetUri())
	if err != nil {
		return nil, storage.LeftOut{}, err
	}
	files, left, err := storage.TellIf(ctx, l.Storage, of, func(f *pb.File) error {
		return l.check(datasets, []*pb.File{f})
	})
	if err == nil {
		err = l.check(datasets, files)
	}
	if err != nil {
		return nil, storage.LeftOut{}, err
	}
	return files, left, nil
}

// Find implements storage.Finder: what may not be read is not found.
func (l limited) Find(
	ctx context.Context, profile string, uris []string, kind storage.Kind,
) ([]*pb.File, storage.Others, error) {
	from, ok := l.Storage.(storage.Finder)
	if !ok {
		return nil, storage.Others{}, nil
	}
	files, others, err := from.Find(ctx, profile, uris, kind)
	if l.limits.Unlimited() || err != nil {
		return files, others, err
	}
	files = slices.DeleteFunc(files, func(f *pb.File) bool { return l.limits.MayReadFile(f.GetUri()) != nil })
	return files, others, l.confined(slices.Values(l.limits.Datasets), files)
}

// MetadataOf implements storage.Catalogs: where a catalogue says that a table lies, it must be readable.
func (l limited) MetadataOf(ctx context.Context, profile, uri string) (string, error) {
	from, ok := l.Storage.(storage.Catalogs)
	if !ok {
		return "", errors.New("this storage knows no catalogues")
	}
	at, err := from.MetadataOf(ctx, profile, uri)
	if err != nil || l.limits.Unlimited() {
		return at, err
	}
	if err := l.limits.MayReadFile(at); err != nil { // which does not say where another's table lies
		return "", err
	}
	_, err = l.datasets([]string{at})
	return at, err
}

// Check implements tables.Checker.
func (l limited) Check(root string, files []*pb.File) error {
	if l.limits.Unlimited() {
		return nil
	}
	datasets, err := l.datasets([]string{root})
	if err != nil {
		return err
	}
	return l.check(datasets, files)
}

// datasets are those that URIs lie in, all of which may be read.
func (l limited) datasets(uris []string) (map[string]bool, error) {
	datasets := map[string]bool{}
	for _, uri := range uris {
		dataset, err := l.limits.MayRead(uri)
		if err != nil {
			return nil, err
		}
		switch err := storage.Confined(dataset, uri); {
		case errors.Is(err, storage.ErrOutside):
			return nil, status.Errorf(codes.PermissionDenied,
				"%q leads out of %s by a link; name what it leads to, or ask an administrator",
				uri, dataset)
		case err != nil:
			return nil, err
		}
		datasets[dataset] = true
	}
	return datasets, nil
}

// check refuses files that may not be read, as they were listed.
func (l limited) check(datasets map[string]bool, files []*pb.File) error {
	for _, f := range files {
		if err := l.limits.MayReadFile(f.GetUri()); err != nil {
			return err
		}
	}
	return l.confined(maps.Keys(datasets), files)
}

// confined refuses files that a link leads to from below a dataset.
func (l limited) confined(datasets iter.Seq[string], files []*pb.File) error {
	for dataset := range datasets {
		switch err := storage.ConfinedFiles(dataset, files); {
		case errors.Is(err, storage.ErrOutside):
			return status.Errorf(codes.PermissionDenied,
				"a link below %s leads out of it, and may not be followed; remove it, or ask an administrator", dataset)
		case err != nil:
			return err
		}
	}
	return nil
}

// resume keeps workers for a session that is over and is to be brought back, or refuses to if others have them by now.
// They are kept until publish tells what has become of the session.
func (t *term) resume(limits access.Limits, r *runner) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !r.over.Load() {
		return nil
	}
	err := limits.Keep(t.usage(r.namespace()).MinWorkers, int(r.meta.GetSession().GetShare().GetMinWorkers()))
	r.over.Store(err != nil)
	return err
}

// mayRead refuses a spec that names what a namespace may not read.
func mayRead(limits access.Limits, s *pb.Spec) error {
	if s == nil {
		return nil
	}
	if err := limits.MayUse(s.GetDataset().GetStorage()); err != nil {
		return err
	}
	for _, uri := range s.GetDataset().GetUri() {
		if t, ok := spec.ParseTable(uri); ok {
			if t.InCatalog() {
				continue // where it lies is checked when that is known
			}
			uri = t.Root
		}
		if _, err := limits.MayRead(uri); err != nil {
			return err
		}
	}
	if uri := s.GetFitted().GetUri(); uri != "" {
		if _, err := limits.MayRead(uri); err != nil {
			return ofTable(&formats.TableError{Path: "fitted", Err: err})
		}
	}
	for _, t := range spec.Tables(s) {
		if err := limits.MayUse(t.Storage); err != nil {
			return ofTable(&formats.TableError{Path: t.Path, Err: err})
		}
		if _, err := limits.MayRead(t.URI); err != nil {
			return ofTable(&formats.TableError{Path: t.Path, Err: err})
		}
	}
	return nil
}
