// Package tables finds the files of datasets, of tables, too: what a table's log or metadata says that one version of
// it consists of. Package table, below, has what kinds of tables share; a folder beside it has each kind. Masters and
// commands list datasets through Tell, which hands what is no table on to package storage. What it finds goes the way
// of any listing from there on: it is frozen, cut into blocks and granted. Workers see no tables, but files with
// constants, columns by id, and excluded rows.
package tables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dustin/go-humanize"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/file"
	"github.com/penstock-ml/penstock/internal/tables/delta"
	"github.com/penstock-ml/penstock/internal/tables/iceberg"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

// kinds are those that there are.
func kinds() []table.Kind {
	return []table.Kind{delta.Kind(), iceberg.Kind()}
}

// Listing is what a dataset's URIs name.
type Listing struct {
	Files   []*pb.File
	LeftOut storage.LeftOut
	// Table is the version of the table that the dataset is; nil: it is none.
	Table *Table
}

// Table is a version of a table that is a dataset.
type Table struct {
	*table.Snapshot
	// URI is that of the dataset, as it was spelled, with the version.
	URI string
	// Columns are those of the table.
	Columns spec.Schema
}

// Error is that of a table whose files cannot be told.
type Error struct {
	URI string
	Err error
}

func (e *Error) Error() string { return e.URI + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Tell lists a dataset's files.
func Tell(ctx context.Context, st storage.Storage, of *pb.Dataset) (*Listing, error) {
	for i, uri := range of.GetUri() {
		named, ok := spec.ParseTable(uri)
		if !ok {
			continue
		}
		if err := discreet(named); err != nil {
			return nil, err
		}
		switch {
		case len(of.GetUri()) > 1:
			return nil, fmt.Errorf("dataset.uri[%d] is a table, %s, which is a dataset by itself: name it alone", i,
				uri)
		case of.GetFormat() != nil:
			return nil, fmt.Errorf("%s is a table, which says itself of which format its files are: leave the format "+
				"out", uri)
		case of.GetSplit() != "" || of.GetSubset() != "":
			return nil, fmt.Errorf("%s is a table, which has no splits: leave split and subset out, and choose rows "+
				"by the filter", uri)
		}
		found, err := open(ctx, st, of.GetStorage(), named)
		switch {
		case errors.Is(err, storage.ErrSecret):
			return nil, err
		case err != nil:
			return nil, &Error{uri, err}
		}
		return found, nil
	}
	files, left, err := storage.Tell(ctx, st, of)
	return &Listing{Files: files, LeftOut: left}, err
}

// discreet refuses a table's URI that holds what gives access, also where a version may stand.
func discreet(named spec.TableURI) error {
	before := "/@"
	if _, host, _ := strings.Cut(named.Root, "://"); named.Version != "" && !strings.Contains(host, "/") &&
		strings.Contains(host, ":") {
		before = "@" // as in https://user:password@host
	}
	return storage.Discreet(named.Root + before + named.Asked + "=" + named.Version)
}

// open finds the files of a table.
func open(ctx context.Context, st storage.Storage, profile string, named spec.TableURI) (*Listing, error) {
	i := slices.IndexFunc(kinds(), func(k table.Kind) bool { return k.Prefix == named.Prefix })
	if i < 0 {
		return nil, fmt.Errorf("tables of %s cannot be read: write its rows to a table of Delta Lake, or to Parquet "+
			"files of their own folder", named.Prefix)
	}
	root, err := rootOf(ctx, st, profile, named)
	if err != nil {
		return nil, err
	}
	if root, err = storage.Canonical(root); err != nil {
		return nil, err
	}
	if storage.Fixed(root) != root {
		return nil, errors.New("a table is one folder: its URI has no wildcards and no braces")
	}
	root = strings.TrimRight(root, "/")
	of := &table.Table{Storage: st, Profile: profile, Root: root, Version: named.Version, Take: within(maxBytes)}
	snapshot, err := kinds()[i].Open(ctx, of)
	if err != nil {
		return nil, err
	}
	if named.Asked != "" && snapshot.Version != named.Version {
		return nil, fmt.Errorf("behind the \"=\" stands %s, which names the version %s: name that by it, or without a "+
			"\"=\" in the name", named.Version, snapshot.Version)
	}
	root = cmp.Or(snapshot.Root, root)
	if len(snapshot.Files) == 0 {
		return nil, fmt.Errorf("its version %s has no files: write rows to it, or name another version behind an \"@\"",
			snapshot.Version)
	}
	t := &Table{Snapshot: snapshot, URI: named.At(snapshot.Version).String()}
	if t.Columns, err = columns(snapshot); err != nil {
		return nil, err
	}
	slices.SortFunc(snapshot.Files, func(a, b table.File) int { return cmp.Compare(a.GetUri(), b.GetUri()) })
	out := &Listing{Table: t, Files: make([]*pb.File, len(snapshot.Files))}
	for i, f := range snapshot.Files {
		if i > 0 && f.GetUri() == out.Files[i-1].GetUri() {
			return nil, fmt.Errorf("its version %s names %s twice", snapshot.Version, f.GetUri())
		}
		if err := below(root, f); err != nil {
			return nil, err
		}
		f.Index, f.OfTable = uint32(i), true
		out.Files[i] = f.File
		if strings.HasPrefix(root, file.Scheme) { // there it costs nothing, and is sooner
			if out.Files[i], err = Identified(ctx, st, profile, f.File); err != nil {
				return nil, err
			}
			snapshot.Files[i].File = out.Files[i]
		}
	}
	if of, ok := st.(Checker); ok {
		return out, of.Check(root, toldBy(out.Files))
	}
	return out, nil
}

// Checker is a Storage that lets not everything be read.
type Checker interface {
	// Check refuses files of a table, by the URI of its folder.
	Check(root string, files []*pb.File) error
}

// toldBy are files, and those that tell which of their rows are excluded.
func toldBy(files []*pb.File) []*pb.File {
	all := slices.Clone(files)
	for _, f := range files {
		for _, e := range f.GetExcluded() {
			if e.GetUri() != "" {
				all = append(all, &pb.File{Uri: e.GetUri(), Etag: e.GetEtag()})
			}
		}
	}
	return all
}

// maxBytes bounds the memory that opening a table may take: that of some million files.
const maxBytes = 4 << 30

// within gives so many bytes, and then refuses. It may be called by several goroutines at once.
func within(most int64) func(bytes int64) error {
	var taken atomic.Int64
	return func(bytes int64) error {
		if taken.Add(bytes) > most {
			return fmt.Errorf("what its log or metadata says takes more than %s of memory: have the table compacted, "+
				"and a checkpoint written, by what writes it", humanize.IBytes(uint64(most)))
		}
		return nil
	}
}

// below fails for a file that does not lie below a table's root, or whose excluded rows are told elsewhere.
func below(root string, f table.File) error {
	uris := []string{f.GetUri()}
	for _, e := range f.GetExcluded() {
		if e.GetUri() != "" {
			uris = append(uris, e.GetUri())
		}
	}
	for _, uri := range uris {
		rest, ok := strings.CutPrefix(uri, root+"/")
		if !ok || slices.ContainsFunc(strings.FieldsFunc(rest, isSeparator), isStep) {
			return fmt.Errorf("it names %s, which does not lie below %s: nothing else is read", uri, root)
		}
	}
	return nil
}

func isSeparator(r rune) bool { return r == '/' || r == '\\' }

func isStep(level string) bool { return level == "." || level == ".." }
