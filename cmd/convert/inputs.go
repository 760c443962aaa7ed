package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/file"
	"github.com/penstock-ml/penstock/internal/tables"
)

// inputs are the files that are converted, in their order.
type inputs struct {
	store   storage.Storage
	profile string
	files   []*pb.File
	notes   []string      // what of folders was left out
	table   *tables.Table // whose version the files are; nil: that of none
}

// inputKind is that of the files which convert reads.
func inputKind() storage.Kind {
	return storage.Kind{
		Ends: storage.DataEndings() + ", or .txt",
		Has:  func(uri string) bool { return storage.FormatOf(uri) != "" || storage.IsText(uri) },
	}
}

// asText is the format of tables of text.
const asText = "text"

// kindOf is the format that a file is converted from, by its name, or as the options say. What is read by workers'
// decoders says itself what it is, if its name does not.
func (o *Options) kindOf(uri string) string {
	name := cmp.Or(o.Format.GetName(), storage.FormatOf(uri))
	for _, own := range []string{"Parquet", "Arrow"} {
		if strings.EqualFold(name, own) {
			return own
		}
	}
	switch {
	case o.Format != nil:
		return name
	case name == "CSV", name == "TSV", storage.IsText(uri), name == "" && o.Delimiter != "":
		return asText
	}
	return name
}

// find replaces folders and globs by the files that they stand for, in the order of their names.
func find(ctx context.Context, o Options) (inputs, error) {
	in := inputs{store: o.Store, profile: o.Profile}
	if slices.ContainsFunc(o.Inputs, isTable) {
		return in, in.ofTable(ctx, &o)
	}
	if len(o.Inputs) > 1 && (o.Split != "" || o.Subset != "") {
		return in, errors.New("--split and --subset choose among the files of one folder: name one input")
	}
	for _, uri := range o.Inputs {
		if err := regular(uri); err != nil {
			return in, err
		}
		found, notes, err := o.list(ctx, uri)
		if err != nil {
			return in, err
		}
		for _, f := range found {
			if err := inPartition(uri, f.GetUri()); err != nil {
				return in, err
			}
		}
		in.files = append(in.files, found...)
		in.notes = append(in.notes, notes...)
	}
	return in, nil
}

// dataset is what the inputs are as one.
func (o *Options) dataset() *pb.Dataset {
	return &pb.Dataset{Uri: o.Inputs, Storage: o.Profile, Format: o.Format, Split: o.Split, Subset: o.Subset}
}

// list finds the files of a URI, and tells what it leaves out. Those of a format that is named are the ones that a
// session would read.
func (o *Options) list(ctx context.Context, uri string) (found []*pb.File, notes []string, err error) {
	of := o.dataset()
	of.Uri = []string{uri}
	if o.Format != nil {
		found, left, err := o.Store.Tell(ctx, of)
		left.Unknown = storage.Names{} // all are looked at
		return found, left.Words(), err
	}
	found, others, err := o.Store.FindIn(ctx, of, inputKind())
	switch others.Count {
	case 0:
	case 1:
		notes = append(notes, fmt.Sprintf("left out of %s: %s", uri, nameOf(others.Example)))
	default:
		notes = append(notes,
			fmt.Sprintf("left out of %s: %d files, such as %s", uri, others.Count, nameOf(others.Example)))
	}
	return found, notes, err
}

// regular refuses what is no file of a disk and no folder, such as a pipe.
func regular(uri string) error {
	info, err := os.Stat(strings.TrimPrefix(uri, file.Scheme))
	if err != nil || info.IsDir() || info.Mode().IsRegular() {
		return nil //nolint:nilerr // who lists it tells
	}
	return fmt.Errorf("%s is no regular file, and inputs are read more than once: write it to one first", uri)
}

// inPartition refuses a file whose folder stands for a column, unless the URI names that folder itself.
func inPartition(uri, found string) error {
	levels := strings.Split(path.Dir(found), "/")
	canonical, err := storage.Canonical(uri) // with the working directory
	if err != nil {
		return err
	}
	named := strings.Split(strings.ReplaceAll(strings.TrimSuffix(canonical, "/"), `\`, ""), "/")
	for i, level := range levels {
		if strings.Contains(level, "=") && !slices.Contains(named, level) {
			return fmt.Errorf(
				"folder %s stands for a column that its files lack, which would be lost; convert each such folder to "+
					"one of the same name", nameOf(strings.Join(levels[:i+1], "/")))
		}
	}
	return nil
}

// nameOf is a URI as messages have it: local files by their paths.
func nameOf(uri string) string { return strings.TrimPrefix(uri, file.Scheme) }

// leaveOut forgets files, and notes that.
func (in *inputs) leaveOut(which []bool) {
	for i, f := range in.files {
		if which[i] {
			in.notes = append(in.notes, "left out: "+nameOf(f.GetUri())+", which is of no format, or of another")
		}
	}
	in.files = without(in.files, which)
}

// without are the elements that are not left out.
func without[T any](all []T, out []bool) (some []T) {
	for i, v := range all {
		if !out[i] {
			some = append(some, v)
		}
	}
	return some
}

// name is that of file i.
func (in *inputs) name(i int) string { return nameOf(in.files[i].GetUri()) }

func (in *inputs) total() (n int64) {
	for _, f := range in.files {
		n += f.GetSize()
	}
	return n
}

// open returns a reader of file i, which need not be closed. It fails where the file changes meanwhile.
func (in *inputs) open(ctx context.Context, i int) *io.SectionReader {
	f := in.files[i]
	return io.NewSectionReader(stored{ctx, in, f}, 0, f.GetSize())
}

// stored is a file of a storage as an io.ReaderAt, for ranges inside of it.
type stored struct {
	ctx  context.Context //nolint:containedctx // io.ReaderAt has no place for it
	in   *inputs
	file *pb.File
}

func (s stored) ReadAt(p []byte, off int64) (int, error) {
	n := min(int64(len(p)), s.file.GetSize()-off)
	if n <= 0 {
		return 0, io.EOF
	}
	if err := s.in.store.ReadAt(s.ctx, s.in.profile, s.file, p[:n], off); err != nil {
		return 0, err
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// aheadBytes of a file are read at once, in parts that a store is asked for together.
const (
	aheadBytes = 8 << 20
	aheadPart  = 1 << 20
)

// stream reads a file from its beginning to its end.
type stream struct {
	stored
	from int64 // of what is to be read next
	buf  []byte
	rest []byte // of buf, not used yet
}

func (in *inputs) stream(ctx context.Context, i int) *stream {
	return &stream{stored: stored{ctx, in, in.files[i]}}
}

func (s *stream) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		if s.from == s.file.GetSize() {
			return 0, io.EOF
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *stream) fill() error {
	n := min(aheadBytes, s.file.GetSize()-s.from)
	out, err := storage.ReadRanges(s.ctx, s.in.store, s.in.profile, s.file,
		[]storage.Range{{Offset: s.from, Length: n}}, storage.Reading{Part: aheadPart},
		func(size int64) ([]byte, error) {
			if int64(len(s.buf)) < size {
				s.buf = make([]byte, size)
			}
			return s.buf[:size], nil
		})
	if err != nil {
		return err
	}
	s.rest, s.from = out[0], s.from+n
	return nil
}
