package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/beside"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/storage"
)

// indexed is what `penstock index` tells.
type indexed struct {
	Files   int   `json:"files"`    // that were listed
	Indexed int   `json:"indexed"`  // whose index was made
	Found   int   `json:"found"`    // whose index was there
	Listed  int   `json:"by_lists"` // of them, by lists of their records that lie beside them
	Own     int   `json:"own"`      // that say themselves where their rows are
	LeftOut int   `json:"left_out"` // that are of no format, which their names do not tell
	Failed  int   `json:"failed"`   // that cannot be indexed
	Extents int   `json:"extents"`  // of the indexes that were made
	Rows    int64 `json:"rows"`
	Read    int64 `json:"bytes_read"` // of files, and of lists in place of files
	Bytes   int64 `json:"index_bytes"`
}

// indexer makes indexes of a dataset's files, several at once.
type indexer struct {
	st      *storage.Store
	profile string
	how     *pb.Format
	cache   *formats.Cache

	mu     sync.Mutex
	did    indexed
	dirs   map[string]*directory
	failed []string // why files cannot be indexed, of some of them
}

// directory is what there is to do for one.
type directory struct {
	left   int // files
	packed []index.Packed
	size   int // of these
}

const (
	// toldFailures is of how many files it is told why they cannot be indexed.
	toldFailures = 5
	// writeTimeout bounds how long what was made is written once the command is interrupted.
	writeTimeout = 30 * time.Second
)

// Index returns `penstock index`.
func Index() *cobra.Command {
	var stores cli.StorageFlags
	var of pb.Dataset
	var text, specFile string
	cmd := &cobra.Command{
		Use:   "index [URI...]",
		Short: "Index files ahead of time that do not say where their rows are",
		Long: `Read JSON lines, CSV, tars and the like once, and note where runs of about 4 MiB of their rows are. Without that,
workers do it when a session comes to a file. What is noted lies beside the data, in the folder _penstock/index of
each directory, which no listing of data enters; the storage profile must let it be written, by its field write.
Nothing else is written, and nothing is written over but a damaged index. Files that are indexed already are passed
over. Removing the folder is always safe: positions and rows do not depend on it.

A list of a file's records that DALI's wds2idx or tfrecord2idx wrote beside it, such as x.idx beside x.tar, is read in
place of the file, if it fits that.

A file that cannot be read does not keep others from being indexed; the command then ends with 1. What was made before
it is interrupted is written, and not made again the next time.

Give the files as a spec's dataset.uri has them, and the format if the spec names one; or the spec.`,
		Example: `  penstock index data/
  penstock index copy/ --split train --subset en
  penstock index s3://bucket/logs/ --storage-config stores.yaml --storage logs
  penstock index raw/ --format '{name: csv, delimiter: ;}'
  penstock index --spec spec.yaml --output json`,
	}
	stores.Register(cmd.Flags())
	cmd.Flags().StringVar(&of.Storage, "storage", "", "storage profile of the files (default: the one named default)")
	cmd.Flags().StringVar(&text, "format", "",
		"format of the files, as a spec's dataset.format: a name or a mapping (default: by their names)")
	splitFlags(cmd.Flags(), &of.Split, &of.Subset)
	cmd.Flags().StringVar(&specFile, "spec", "", "index the files of this spec's dataset, read as it says")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		output, err := cli.Output(cmd)
		if err != nil {
			return err
		}
		if of.Format, err = formatOf(text); err != nil {
			return err
		}
		of.Uri = args
		read := &of
		switch {
		case specFile != "" && !proto.Equal(read, &pb.Dataset{}):
			return errors.New("--spec says which files, of which storage, format and split: leave URIs, --storage, " +
				"--format, --split and --subset out")
		case specFile != "":
			s, err := cli.ReadSpec(specFile)
			if err != nil {
				return err
			}
			read = s.GetDataset()
		case len(args) == 0:
			return errors.New("name files, directories or globs, or a spec by --spec")
		}
		st, err := stores.Open()
		if err != nil {
			return err
		}
		defer st.Close()
		x := &indexer{
			st: st, profile: read.GetStorage(), how: read.GetFormat(), cache: formats.NewCache(describedBytes),
			dirs: map[string]*directory{},
		}
		err = x.run(cmd.Context(), read)
		cli.Status(os.Stderr, "")
		if err != nil {
			return err
		}
		if output == "json" {
			err = cli.PrintJSON(cmd.OutOrStdout(), x.did)
		} else {
			err = x.did.WriteText(cmd.OutOrStdout())
		}
		return cmp.Or(err, x.failure())
	}
	return cli.Setup(cmd)
}

// WriteText writes it for people.
func (d indexed) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s of %d indexed: %s of %s rows, %s read, %s of indexes\n",
		english.Plural(d.Indexed, "file", ""), d.Files, english.Plural(d.Extents, "extent", ""), humanize.Comma(d.Rows),
		humanize.IBytes(uint64(d.Read)), humanize.IBytes(uint64(d.Bytes)))
	if d.Listed > 0 && err == nil {
		_, err = fmt.Fprintf(w, "%d of them by lists of records that other tools wrote beside the files, which were "+
			"read in their place\n", d.Listed)
	}
	if d.Found > 0 && err == nil {
		_, err = fmt.Fprintf(w, "%s had an index\n", english.Plural(d.Found, "file", ""))
	}
	if d.LeftOut > 0 && err == nil {
		_, err = fmt.Fprintf(w, "%s left out, of no format\n", english.Plural(d.LeftOut, "file", ""))
	}
	if d.Own > 0 && err == nil {
		_, err = fmt.Fprintf(w, "%s of a format that needs none\n", english.Plural(d.Own, "file", ""))
	}
	return err
}

// run indexes all files that can be indexed.
func (x *indexer) run(ctx context.Context, of *pb.Dataset) error {
	if uri := spec.TableOf(&pb.Spec{Dataset: of}); uri != "" {
		return fmt.Errorf("%s is a table, whose files say themselves where their rows are: it needs no index; leave "+
			"it out", uri)
	}
	files, _, err := storage.Tell(ctx, x.st, of)
	if err != nil {
		return err
	}
	x.did.Files = len(files)
	for _, f := range files {
		dir, _ := beside.Split(f.GetUri())
		if x.dirs[dir] == nil {
			if err := x.st.Writable(x.profile, dir+beside.Folder); err != nil {
				return err
			}
			x.dirs[dir] = &directory{}
		}
		x.dirs[dir].left++
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(max(2, runtime.GOMAXPROCS(0)))
	for i, f := range files {
		group.Go(func() error {
			if within.Err() != nil {
				return context.Cause(within)
			}
			cli.Status(os.Stderr, "files %d of %d", i, len(files))
			made, err := x.file(within, f)
			if err != nil {
				if within.Err() != nil {
					return context.Cause(within)
				}
				x.fail(err)
			}
			return x.done(within, f, made)
		})
	}
	err = group.Wait()
	if err != nil { // what was made is not lost
		kept, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer cancel()
		for dir, d := range x.dirs {
			err = errors.Join(err, x.write(kept, dir, d.packed))
		}
	}
	return err
}

func (x *indexer) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.did.Failed++; len(x.failed) < toldFailures {
		x.failed = append(x.failed, err.Error())
	}
}

// failure is the error of the files that cannot be indexed; nil: all could.
func (x *indexer) failure() error {
	if x.did.Failed == 0 {
		return nil
	}
	why := strings.Join(x.failed, "; ")
	if more := x.did.Failed - len(x.failed); more > 0 {
		why += fmt.Sprintf("; and %d more", more)
	}
	return fmt.Errorf("%s cannot be indexed: %s", english.Plural(x.did.Failed, "file", ""), why)
}

// file makes the index of one file; nil: it needs none, has one, or is left out.
func (x *indexer) file(ctx context.Context, f *pb.File) (*index.Index, error) {
	described, err := x.cache.Load(ctx, x.st, x.profile, f, x.how, nil, nil)
	if formats.IsForeign(f, err) {
		x.count(func(d *indexed) { d.LeftOut++ })
		return nil, nil //nolint:nilnil // it is left out
	}
	if err != nil {
		return nil, err
	}
	of, ok := described.(format.Scanned)
	if !ok {
		x.count(func(d *indexed) { d.Own++ })
		return nil, nil //nolint:nilnil // it needs none
	}
	// One that is damaged is made again.
	found, _ := x.cache.Beside(ctx, x.st, x.profile, f, index.For(f, of, x.how))
	if found != nil {
		x.count(func(d *indexed) { d.Found++ })
		return nil, nil //nolint:nilnil // it has one
	}
	made, err := formats.Index(ctx, &format.Input{Storage: x.st, Profile: x.profile, File: f, How: x.how}, of)
	if err != nil {
		return nil, err
	}
	for _, why := range made.Passed {
		cli.Status(os.Stderr, "")
		fmt.Fprintln(os.Stderr, "penstock:", why)
	}
	rows := int64(0)
	for _, p := range made.Places() {
		rows += p.Rows
	}
	x.count(func(d *indexed) {
		d.Indexed, d.Extents, d.Rows = d.Indexed+1, d.Extents+made.Extents(), d.Rows+rows
		d.Bytes += int64(len(made.Bytes()))
		d.Read += made.Read
		if made.List != "" {
			d.Listed++
		}
	})
	return made.Index, nil
}

func (x *indexer) count(add func(*indexed)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	add(&x.did)
}

// done takes the index of a file to those of its directory, and writes these once they are enough for a pack, or all.
func (x *indexer) done(ctx context.Context, f *pb.File, made *index.Index) error {
	dir, name := beside.Split(f.GetUri())
	x.mu.Lock()
	d := x.dirs[dir]
	d.left--
	if made != nil && made.Extents() > 0 { // that a file has no rows is not believed
		d.packed = append(d.packed, index.Packed{Name: name, Index: made.Bytes()})
		d.size += len(made.Bytes())
	}
	var full []index.Packed
	if d.size >= index.PackBytes || d.left == 0 {
		full, d.packed, d.size = d.packed, nil, 0
	}
	x.mu.Unlock()
	err := x.write(ctx, dir, full)
	if err != nil && ctx.Err() != nil { // run tries again
		x.mu.Lock()
		defer x.mu.Unlock()
		d.packed = append(d.packed, full...)
	}
	return err
}

func (x *indexer) write(ctx context.Context, dir string, packed []index.Packed) error {
	if len(packed) == 0 {
		return nil
	}
	return beside.Write(ctx, x.st, x.profile, dir, index.Pack(packed))
}
