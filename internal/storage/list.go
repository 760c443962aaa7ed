package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/file"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// List finds the files under URIs.
func (s *Store) List(ctx context.Context, profile string, uris []string) ([]*pb.File, error) {
	if len(uris) == 0 {
		return nil, errors.New("list files: no URI is given; name a directory, a glob or a file")
	}
	cost := &spent{limits: s.listing}
	ctx, cancel := cost.within(ctx)
	defer cancel()
	var all []*pb.File
	for _, given := range uris {
		uri, err := Canonical(given)
		if err != nil {
			return nil, fmt.Errorf("list files: %w", err)
		}
		b, err := s.backend(profile, uri)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", uri, err)
		}
		found, err := find(ctx, b, uri, cost)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", uri, cost.explain(err))
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b *pb.File) int { return cmp.Compare(a.Uri, b.Uri) })
	all = slices.CompactFunc(all, func(a, b *pb.File) bool { return a.Uri == b.Uri })
	for i, f := range all {
		if !utf8.ValidString(f.Uri) {
			return nil, fmt.Errorf("list files: the name of %q is not UTF-8; give it another one", f.Uri)
		}
		f.Index = uint32(i)
	}
	return all, nil
}

// Canonical turns what a user wrote into a URI with scheme and absolute path.
func Canonical(uri string) (string, error) {
	scheme, rest, ok := strings.Cut(uri, "://")
	authority, _, _ := strings.Cut(rest, "/")
	switch {
	case uri == "":
		return "", errors.New("a URI is empty; name a directory, a glob or a file")
	case !ok:
		return file.URI(uri)
	case strings.Contains(authority, "@"): // the URI is not repeated: messages are logged
		return "", fmt.Errorf(
			"a URI of scheme %s holds credentials; they belong in a storage profile, which the spec names",
			scheme)
	}
	store, err := storeOf(uri)
	if err != nil {
		return "", fmt.Errorf("%s: %w", uri, err)
	}
	return store.Canonical(uri)
}

// find returns the files that one URI names, at least one.
func find(ctx context.Context, b object.Backend, uri string, cost *spent) ([]*pb.File, error) {
	if isGlob(uri) {
		return findGlob(ctx, b, uri, cost)
	}
	var denied error
	if !strings.HasSuffix(uri, "/") {
		f, err := b.Stat(ctx, uri)
		switch {
		case err == nil:
			return []*pb.File{f}, nil
		case errors.Is(err, object.ErrDenied): // as to those who may list the directory only, of what is no file
			denied = err
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	dir := strings.TrimSuffix(uri, "/") + "/"
	visible := func(uri string) bool {
		return !slices.ContainsFunc(strings.Split(strings.TrimPrefix(uri, dir), "/"), isHidden)
	}
	q := object.Query{Prefix: dir, Enter: func(d string) bool { return visible(strings.TrimSuffix(d, "/")) }}
	found, others, err := collect(ctx, b, q, cost, func(uri string) bool { return visible(uri) && FormatOf(uri) != "" })
	if err == nil {
		err = oneFormat(dir, found)
	}
	if err == nil {
		err = checkRoot(ctx, b, dir, false)
	}
	switch {
	case err != nil && denied != nil:
		return nil, fmt.Errorf("%w; and as a directory: %w", denied, err)
	case err != nil || len(found) > 0:
		return found, err
	case denied != nil:
		return nil, denied
	}
	looked := "files ending in " + dataEndings + " below " + dir
	if dir != uri {
		looked = "a file of this name and " + looked
	}
	return nil, nothing(looked, others)
}

func findGlob(ctx context.Context, b object.Backend, uri string, cost *spent) ([]*pb.File, error) {
	g, prefix, err := newGlob(uri)
	if err != nil {
		return nil, err
	}
	q := object.Query{Prefix: prefix, Flat: g.flat(), Enter: g.enter}
	found, others, err := collect(ctx, b, q, cost, g.match)
	if err == nil && g.dirs {
		err = oneFormat(g.base, found)
	}
	if err == nil {
		err = checkRoot(ctx, b, g.base, q.Flat || prefix != g.base)
	}
	if err != nil || len(found) > 0 {
		return found, err
	}
	looked := fmt.Sprintf("files that begin with %s and match", prefix)
	if g.dirs {
		looked = "files ending in " + dataEndings + " below directories that match"
	}
	return nil, nothing(looked, others)
}

// others tells of files that were met and are not wanted.
type others struct {
	count   int
	example string
}

func collect(
	ctx context.Context, b object.Backend, q object.Query, cost *spent, want func(uri string) bool,
) ([]*pb.File, others, error) {
	var found []*pb.File
	var rest others
	var table error // that was met in a directory which is not entered
	base := q.Prefix[:strings.LastIndexByte(q.Prefix, '/')+1]
	if enter := q.Enter; enter != nil {
		q.Enter = func(dir string) bool {
			if err := tableOf(base, dir); err != nil {
				table = err
			}
			return enter(dir)
		}
	}
	err := b.List(ctx, q, func(f *pb.File) error {
		if want(f.Uri) {
			found = append(found, f)
			return cost.add(f)
		}
		rest.count++
		rest.example = f.Uri
		cost.others++
		return tableOf(base, f.Uri)
	})
	return found, rest, cmp.Or(err, table)
}

// nothing is the error of a URI without files.
func nothing(looked string, o others) error {
	if o.count == 0 {
		return fmt.Errorf("nothing found; looked for %s: %w", looked, fs.ErrNotExist)
	}
	err := fmt.Errorf("nothing found; looked for %s; files that are no data were passed over, such as %s: %w",
		looked, o.example, fs.ErrNotExist)
	if IsText(o.example) {
		return fmt.Errorf("%w; %s", err, Convert)
	}
	return err
}
