package master

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/plan"
)

// describedAtOnce is how many files of a block are described in parallel.
const describedAtOnce = 16

// describer finds out what files of one dataset hold. It may be used by many goroutines at once.
type describer struct {
	storage storage.Storage
	cache   *formats.Cache
	profile string
}

// described are files of which it is known what they hold, and those that turned out to be of no format.
type described struct {
	files   []plan.File
	foreign []error // each names its file, and says what that is
	pruned  int     // files
}

// load describes files for a program, with their constants, but for those that its filter excludes by these; nil: it is
// not known yet what is read.
func (l *describer) load(
	ctx context.Context, files []*pb.File, program *pb.Program, progress func(done int),
) (described, error) {
	sources := program.GetSources()
	files, pruned, err := plan.Prune(program, files)
	if err != nil {
		return described{}, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(describedAtOnce)
	all := make([]format.File, len(files))
	foreign := make([]error, len(files))
	var done atomic.Int64
	for i, f := range files {
		group.Go(func() (err error) {
			all[i], err = l.cache.Load(ctx, l.storage, l.profile, f, sources, nil)
			if formats.IsForeign(f, err) {
				foreign[i], err = err, nil
			}
			progress(int(done.Add(1)))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return described{}, err
	}
	out := described{pruned: pruned}
	for i, f := range files {
		if foreign[i] != nil {
			out.foreign = append(out.foreign, foreign[i])
			continue
		}
		out.files = append(out.files, plan.File{File: f, Holds: all[i]})
	}
	return out, nil
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
