package master

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/tables"
	"github.com/penstock-ml/penstock/master/plan"
)

// describedAtOnce is how many files of a block are described in parallel.
const describedAtOnce = 16

// describer finds out what files of one dataset hold. It may be used by many goroutines at once.
type describer struct {
	storage storage.Storage
	cache   *formats.Cache
	profile string
	how     *pb.Format // as which files are read; nil: as they seem
}

// described are files of which it is known what they hold, and those that turned out to be of no format.
type described struct {
	files   []plan.File
	foreign []error // each names its file, and says what that is
	pruned  int     // files
}

// load describes files for a program, with their constants, but for those that its filter excludes by these, as far as
// that takes no scan; nil: it is not known yet what is read.
func (l *describer) load(
	ctx context.Context, files []*pb.File, program *pb.Program, progress func(done int),
) (described, error) {
	return l.describe(ctx, files, program, progress, func(ctx context.Context, f *pb.File) (format.File, error) {
		return l.cache.Load(ctx, l.storage, l.profile, f, l.how, program.GetSources(), nil)
	})
}

// whole is load, and scans here those that say nothing about where their rows are.
func (l *describer) whole(
	ctx context.Context, files []*pb.File, program *pb.Program, progress func(done int),
) (described, error) {
	return l.describe(ctx, files, program, progress, func(ctx context.Context, f *pb.File) (format.File, error) {
		return l.cache.Whole(ctx, l.storage, l.profile, f, l.how, program.GetSources())
	})
}

func (l *describer) describe(
	ctx context.Context, files []*pb.File, program *pb.Program, progress func(done int),
	one func(context.Context, *pb.File) (format.File, error),
) (described, error) {
	files, pruned, err := plan.Prune(program, files)
	if err != nil {
		return described{}, err
	}
	listed := files
	files = slices.Clone(files) // a listing's, to others
	all, foreign := make([]format.File, len(files)), make([]error, len(files))
	err = eachOf(ctx, files, progress, func(ctx context.Context, i int) (err error) {
		if files[i], err = tables.Identified(ctx, l.storage, l.profile, files[i]); err != nil {
			return err
		}
		all[i], err = one(ctx, files[i])
		err = tables.Vanished(files[i], err)
		if formats.IsForeign(files[i], err) {
			foreign[i], err = err, nil
		}
		if err != nil && !transient(err) && badData(err) {
			return &unreadableError{err}
		}
		return err
	})
	if err != nil {
		return described{}, err
	}
	out := described{pruned: pruned}
	for i, f := range files {
		if foreign[i] != nil {
			out.foreign = append(out.foreign, foreign[i])
			continue
		}
		out.files = append(out.files, plan.File{File: f, Holds: all[i], Unlisted: listed[i].GetEtag() == ""})
	}
	return out, nil
}

// unreadableError is of a file whose bytes make no sense, or that is not the one that was listed.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string { return e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

// eachOf does something with each of some files, several at once.
func eachOf(
	ctx context.Context, files []*pb.File, progress func(done int), do func(ctx context.Context, i int) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(describedAtOnce)
	var done atomic.Int64
	for i := range files {
		group.Go(func() error {
			err := do(ctx, i)
			progress(int(done.Add(1)))
			return err
		})
	}
	return group.Wait()
}

// schemaOf merges the schemas of files. Keys of partitions which none of them has as a column are columns, too.
func schemaOf(files []plan.File, keys []plan.Key) (spec.Schema, error) {
	parts := make([]spec.FileSchema, len(files))
	for i, f := range files {
		parts[i] = format.Schema(f.File, f.Holds)
	}
	schema, err := spec.Merge(parts)
	if err != nil {
		return schema, err
	}
	columns := schema.Columns
	for _, key := range keys {
		if !format.HasColumn(schema, key.Name) {
			columns = append(columns, key.Column)
		}
	}
	return spec.Schema{Columns: columns}, nil
}

// sayForeign tells of files that are left out of a block, or is "" if there are none.
func (d described) sayForeign() string {
	if len(d.foreign) == 0 {
		return ""
	}
	var first []string
	for _, f := range d.foreign[:min(len(d.foreign), namedAtOnce)] {
		first = append(first, f.Error())
	}
	if more := len(d.foreign) - len(first); more > 0 {
		first = append(first, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s left out that %s of no format: %s", english.Plural(len(d.foreign), "file", ""),
		english.PluralWord(len(d.foreign), "is", "are"), strings.Join(first, "; "))
}
