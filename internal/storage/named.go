package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// findAll returns the files that a URI names, with braces or without: at least one of each name.
func (l *listing) findAll(ctx context.Context, uri string) ([]*pb.File, error) {
	all, err := l.cost.namesOf(ctx, uri)
	if err != nil {
		return nil, err
	}
	if all == nil {
		return l.find(ctx, uri)
	}
	found, rest, err := l.inFolders(ctx, all)
	if err == nil && len(rest) >= listedTogether {
		var more []*pb.File
		more, rest, err = l.statAll(ctx, rest)
		found = append(found, more...)
	}
	for i := 0; err == nil && i < len(rest); i++ {
		var more []*pb.File
		if more, err = l.find(ctx, rest[i]); err != nil {
			err = fmt.Errorf("its braces stand for %s: %w", rest[i], err)
		}
		found = append(found, more...)
	}
	return found, err
}

// inFolders finds those of many names that are files, by one listing of each folder that many are in, and returns the
// other names.
func (l *listing) inFolders(ctx context.Context, all []string) (found []*pb.File, rest []string, err error) {
	folders := map[string][]string{}
	for _, name := range all {
		if dir := name[:strings.LastIndexByte(name, '/')+1]; dir == name || isGlob(name) {
			rest = append(rest, name)
		} else {
			folders[dir] = append(folders[dir], name)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		wanted := make(map[string]bool, len(folders[dir]))
		prefix := folders[dir][0]
		for _, name := range folders[dir] {
			wanted[name] = true
			prefix = common(prefix, name)
		}
		if len(wanted) < listedTogether {
			rest = append(rest, folders[dir]...)
			continue
		}
		err := l.List(ctx, object.Query{Prefix: prefix, Flat: true}, func(f *pb.File) error {
			if !wanted[f.GetUri()] {
				return nil
			}
			delete(wanted, f.GetUri())
			found = append(found, f)
			return l.cost.add(f)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, object.ErrDenied) {
			return nil, nil, err
		}
		rest = append(rest, slices.Sorted(maps.Keys(wanted))...)
	}
	return found, rest, nil
}

// askedAtOnce is how many files are asked for at once, of a store that does not list them.
const askedAtOnce = 16

// statAll finds those of many names that are files, and returns the other names.
func (l *listing) statAll(ctx context.Context, names []string) (found []*pb.File, rest []string, err error) {
	all := make([]*pb.File, len(names))
	asking, within := errgroup.WithContext(ctx)
	asking.SetLimit(askedAtOnce)
	for i, name := range names {
		if isGlob(name) || strings.HasSuffix(name, "/") {
			continue
		}
		asking.Go(func() (err error) {
			all[i], err = l.Stat(within, name)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, object.ErrDenied) {
				return nil
			}
			if err != nil {
				err = fmt.Errorf("its braces stand for %s: %w", name, err)
			}
			return err
		})
	}
	err = asking.Wait()
	for i, f := range all {
		if f == nil {
			rest = append(rest, names[i])
		} else {
			found = append(found, f)
		}
	}
	return found, rest, err
}

// listedTogether is how many names of a folder are as soon found by its listing as one by one.
const listedTogether = 4

// common is what two texts begin with.
func common(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return a[:n]
}
