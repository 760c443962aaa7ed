package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/storage/splits"
)

// card is the name of the file that says which subsets and splits a folder has.
const card = "README.md"

// Card is the URI of the file that is read to tell a dataset's splits apart; "": none is.
func Card(of *pb.Dataset) string {
	if of.GetSplit() == "" && of.GetSubset() == "" || len(of.GetUri()) != 1 {
		return ""
	}
	return strings.TrimRight(of.GetUri()[0], "/") + "/" + card
}

// FindIn is Find for a dataset: of a folder, only the files of the split that it names are taken.
func (s *Store) FindIn(ctx context.Context, of *pb.Dataset, kind Kind) ([]*pb.File, Others, error) {
	found, err := s.findIn(ctx, of, kind)
	if err != nil {
		return nil, found.others, err
	}
	files, err := found.choose()
	return files, found.others, err
}

// found is what was found of a dataset, of all splits.
type found struct {
	files  []*pb.File
	others Others
	// choose returns the files that are the dataset's.
	choose func() ([]*pb.File, error)
}

func (s *Store) findIn(ctx context.Context, of *pb.Dataset, kind Kind) (found, error) {
	asked := of.GetSplit() != "" || of.GetSubset() != ""
	for _, uri := range of.GetUri() {
		in, err := s.folder(of.GetStorage(), uri)
		switch {
		case !asked && (err != nil || !in.whole): // who lists it tells
		case len(of.GetUri()) > 1 && asked:
			return found{}, errors.New("dataset.split and dataset.subset choose among the files of one folder: name " +
				"one URI, or leave them out and name the files by wildcards")
		case len(of.GetUri()) > 1:
			return found{}, fmt.Errorf("%s is a whole dataset of the hub, of which only a split may be meant: name it "+
				"alone, or name its files by wildcards, such as %sdata/train-*.parquet", uri, in.root)
		default:
			if err == nil {
				err = in.pick(ctx, of)
			}
			if err != nil {
				return found{}, fmt.Errorf("list %s: %w", uri, err)
			}
			return in.find(ctx, kind)
		}
	}
	files, others, err := s.Find(ctx, of.GetStorage(), of.GetUri(), kind)
	return found{files, others, func() ([]*pb.File, error) { return files, nil }}, err
}

// folder is one that has splits.
type folder struct {
	store         *Store
	backend       retrying
	profile, root string // with a "/" at its end
	// whole: it is a repository, of a store that has such, and neither its subset nor its split is named.
	whole  bool
	finder *splits.Finder
	split  string
}

func (s *Store) folder(profile, given string) (*folder, error) {
	uri, err := Canonical(given)
	if err != nil {
		return nil, err
	}
	if Fixed(uri) != uri {
		return nil, errors.New("a split is one of a folder: its URI has no wildcards and no braces")
	}
	in := &folder{store: s, profile: profile, root: strings.TrimRight(uri, "/") + "/"}
	b, err := s.backend(profile, in.root)
	if err != nil {
		return nil, err
	}
	if v, ok := b.next.(object.Versioned); ok {
		repository, err := v.Root(in.root)
		in.whole = err == nil && repository == in.root
	}
	in.backend = b
	return in, nil
}

// pick finds the subset that a dataset names.
func (in *folder) pick(ctx context.Context, of *pb.Dataset) error {
	root, err := (pins{}).pin(ctx, in.backend, in.root)
	if err != nil {
		return err
	}
	in.root = root
	subsets, err := in.subsets(ctx)
	if err != nil {
		return err
	}
	in.split, in.whole = of.GetSplit(), in.whole && of.GetSplit() == "" && of.GetSubset() == ""
	if in.whole && len(subsets) > 1 {
		return splits.Several(subsets)
	}
	subset, err := splits.Pick(subsets, of.GetSubset())
	in.finder = splits.NewFinder(subset)
	return err
}

// subsets are those that a folder's card tells of.
func (in *folder) subsets(ctx context.Context) ([]splits.Subset, error) {
	uri := in.root + card
	f, err := in.backend.Stat(ctx, uri)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // of a file, whose listing finds nothing
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text := make([]byte, min(f.GetSize(), splits.MaxCard))
	if err := in.store.ReadAt(ctx, in.profile, f, text, 0); err != nil {
		return nil, err
	}
	all, err := splits.Parse(text, f.GetSize() == int64(len(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w, or leave split and subset out and name the files by wildcards", uri, err)
	}
	return all, nil
}

// find finds the files of all splits.
func (in *folder) find(ctx context.Context, kind Kind) (all found, err error) {
	together := kind.Together
	kind.Together = nil // of the split's files alone
	kind.Met = func(uri string) { in.finder.Meet(in.name(uri)) }
	all.files, all.others, err = in.store.Find(ctx, in.profile, []string{in.root}, kind)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; a split is one of a folder: name the folder, or leave split and subset out", err)
	}
	all.choose = func() ([]*pb.File, error) {
		files, err := in.choose(all.files)
		if err == nil && together != nil {
			err = together(in.root, files)
		}
		return files, err
	}
	return all, err
}

// name is that of a file, relative to the folder.
func (in *folder) name(uri string) string { return strings.TrimPrefix(uri, in.root) }

// choose returns those of the folder's files that are the split's. Of a whole repository only a split that is all of it
// need not be named.
func (in *folder) choose(files []*pb.File) (chosen []*pb.File, err error) {
	c, err := in.finder.Choose(in.split)
	if err != nil {
		return nil, err
	}
	left := 0
	for _, f := range files {
		switch {
		case c.Has(in.name(f.GetUri())):
			f.Index = uint32(len(chosen))
			chosen = append(chosen, f)
		case FormatOf(f.GetUri()) != "":
			left++
		}
	}
	if err := c.Check(len(chosen)); err != nil || !in.whole || left == 0 {
		return chosen, err
	}
	return nil, &splits.Error{Field: "split", Message: fmt.Sprintf("the only split, %s, leaves %s out: %s, or name "+
		"the files by wildcards to read others", c.Name, english.Plural(left, "file", ""),
		splits.ToRead("split", c.Name))}
}
