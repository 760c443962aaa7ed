// Package formats finds out what files hold, whatever their format: a table names the formats, each of which is a
// folder below. The master plans by what they say, and workers decode by it; nothing behind a decoded window knows of
// formats.
package formats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	arrowschema "github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/arrow"
	"github.com/penstock-ml/penstock/internal/formats/beside"
	"github.com/penstock-ml/penstock/internal/formats/csv"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/formats/jsonl"
	"github.com/penstock-ml/penstock/internal/formats/mds"
	"github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/internal/formats/tar"
	"github.com/penstock-ml/penstock/internal/formats/tfrecord"
	"github.com/penstock-ml/penstock/internal/formats/tokens"
	"github.com/penstock-ml/penstock/internal/storage"
)

// All are the formats that can be read.
func All() []format.Format {
	all := []format.Format{parquet.Format{}, arrow.Format{}, tokens.Format{}}
	for _, kind := range kinds() {
		all = append(all, records.Format{Kind: kind})
	}
	return all
}

// ColumnsOf are the columns that an Arrow file of a schema has.
func ColumnsOf(s *arrowschema.Schema) (spec.Schema, error) { return arrow.Columns(s) }

// kinds are the formats whose files are runs of records.
func kinds() []records.Kind {
	return []records.Kind{
		jsonl.Kind{},
		tar.Kind{},
		csv.CSV(),
		csv.TSV(),
		tfrecord.Kind{},
		mds.Kind{},
	}
}

// Load describes a file for whatever may be read of it, with the profile's keys if it is encrypted. One that says
// nothing about where its rows are is scanned for them. Take is asked for
// memory before it is used, unless it is little, and may refuse; nil: there is enough. What was taken beyond the
// description's Size is free again afterwards. Errors name the file.
func Load(
	ctx context.Context, st storage.Storage, profile string, f *pb.File, take func(bytes int64) error,
) (format.File, error) {
	return LoadAs(ctx, st, profile, f, nil, take)
}

// LoadAs does so for a file of a dataset that says how its files are read.
func LoadAs(
	ctx context.Context, st storage.Storage, profile string, f *pb.File, how *pb.Format, take func(bytes int64) error,
) (format.File, error) {
	return LoadIndexed(ctx, st, profile, f, how, nil, take)
}

// LoadIndexed is LoadAs, but a file whose index the finder finds beside it is not scanned.
func LoadIndexed(
	ctx context.Context, st storage.Storage, profile string, f *pb.File, how *pb.Format, from *beside.Finder,
	take func(bytes int64) error,
) (format.File, error) {
	in := &format.Input{Storage: st, Profile: profile, File: f, How: how, Take: take, All: true}
	described, err := load(ctx, in)
	if of, ok := described.(format.Scanned); ok {
		return indexed(ctx, in, of, from)
	}
	return described, err
}

// indexed is a file with its index: the one beside it, if there is a finder that finds it, or that of a scan, which is
// as good.
func indexed(ctx context.Context, in *format.Input, of format.Scanned, from *beside.Finder) (format.File, error) {
	if from != nil {
		want := index.For(in.File, of, in.How)
		if x, _ := from.Find(ctx, in.Storage, in.Profile, in.File, want); x != nil {
			if opened, err := x.Open(of, want); err == nil {
				return opened, nil
			}
		}
	}
	return scanned(ctx, in, of)
}

// Scan makes the index of a file, by reading all of it. Errors name the file.
func Scan(ctx context.Context, in *format.Input, of format.Scanned) (*index.Index, error) {
	x, err := index.Scan(ctx, in, of)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.File.GetUri(), err)
	}
	return x, nil
}

func scanned(ctx context.Context, in *format.Input, of format.Scanned) (format.File, error) {
	x, err := Scan(ctx, in, of)
	if err != nil {
		return nil, err
	}
	return x.Open(of, index.For(in.File, of, in.How))
}

func load(ctx context.Context, in *format.Input) (format.File, error) {
	if in.Take == nil {
		in.Take = func(int64) error { return nil }
	}
	described, err := describe(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.File.GetUri(), err)
	}
	return described, nil
}

func describe(ctx context.Context, in *format.Input) (format.File, error) {
	all := All()
	if in.Before != nil {
		return named(in.Before.Format()).Describe(ctx, in)
	}
	var as format.Format // nil: the dataset says none
	if name := in.How.GetName(); name != "" {
		if as = named(name); as == nil {
			return nil, fmt.Errorf("there is no format %q; %s can be read", name, strings.Join(Names(), ", "))
		}
		if !in.File.GetUnknown() {
			return as.Describe(ctx, in)
		}
	}
	ending := strings.ToLower(path.Ext(storage.Uncompressed(in.File.GetUri())))
	slices.SortStableFunc(all, func(a, b format.Format) int { // those that the name tells come first
		return rank(a, ending) - rank(b, ending)
	})
	for _, known := range all {
		claims, err := known.Claims(ctx, in)
		switch {
		case err != nil:
			return nil, err
		case claims && as != nil && known.Name() != as.Name():
			return nil, &UnclaimedError{
				fmt.Sprintf("not %s, which dataset.format says, but %s", as.Name(), known.Name()),
			}
		case claims:
			return known.Describe(ctx, in)
		}
	}
	tail, err := in.End(ctx)
	if err != nil {
		return nil, err
	}
	head, err := in.Head(ctx)
	if err != nil {
		return nil, err
	}
	codec, damaged, err := records.Compression(ctx, in)
	switch {
	case err != nil:
		return nil, err
	case damaged != nil:
		return nil, fmt.Errorf("%w: the file is damaged; write it again", damaged)
	case codec != "":
		return nil, &UnclaimedError{fmt.Sprintf("it is compressed by %s, and what it holds is of no format that is "+
			"known by its front: name it by dataset.format", codec)}
	case isTar(head):
		return nil, errors.New("it begins as a tar archive does, but for the checksum of its first header: it is " +
			"damaged; write it again")
	}
	if name := cutOf(head); name != "" {
		return nil, fmt.Errorf("it begins as %s does, but ends in %q: it was cut off or damaged; write it again",
			name, tail[max(0, len(tail)-4):])
	}
	return nil, &UnclaimedError{unclaimed(all, in.File.GetUri(), head, tail)}
}

func rank(f format.Format, ending string) int {
	if slices.Contains(f.Extensions(), ending) {
		return 0
	}
	return 1
}

// named is the format of a name, or of another one that it goes by, without regard to case; nil: there is none.
func named(name string) format.Format {
	for _, f := range All() {
		names := []string{f.Name()}
		if of, ok := f.(records.Format); ok {
			names = append(names, of.Aliases()...)
		}
		if slices.ContainsFunc(names, func(known string) bool { return strings.EqualFold(known, name) }) {
			return f
		}
	}
	return nil
}

// Names are those of all formats.
func Names() (names []string) {
	for _, f := range All() {
		names = append(names, f.Name())
	}
	return names
}

// cutOf is the format that a file begins as, of those that are known by their end, which it does not have; "" if it
// begins as none.
func cutOf(head []byte) string {
	for _, f := range []struct{ name, magic string }{{"Parquet", "PAR1"}, {"Parquet", "PARE"}, {"Arrow", "ARROW1"}} {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return f.name
		}
	}
	return ""
}

// UnclaimedError says of a file that it is of none of the formats, and what it seems to be.
type UnclaimedError struct{ why string }

func (e *UnclaimedError) Error() string { return e.why }

// IsForeign reports whether a file could not be loaded since it is of no format, and a listing took it without knowing:
// then it is left out.
func IsForeign(f *pb.File, err error) bool {
	_, unclaimed := errors.AsType[*UnclaimedError](err)
	return unclaimed && f.GetUnknown()
}

// unclaimed says of a file that it is of none of the formats, and what to do if its name or its end is that of a text.
func unclaimed(all []format.Format, uri string, head, tail []byte) string {
	not := "of no format that is read"
	ending := strings.ToLower(path.Ext(uri))
	told := func(f format.Format) bool { return slices.Contains(f.Extensions(), ending) }
	if at := slices.IndexFunc(all, told); at >= 0 {
		not = "not " + all[at].Name()
	}
	control := func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\r\n", r) }
	text := storage.IsText(uri) || len(tail) > 0 && !bytes.ContainsFunc(tail, control)
	why := fmt.Sprintf("%s: it ends in %q", not, tail[max(0, len(tail)-4):])
	other := otherFormat(head)
	switch {
	case len(tail) == 0:
		why = "the file is empty"
	case bytes.HasPrefix(head, []byte("\x93NUMPY")):
		return why + "; it begins as NumPy's array does: if it holds ids of tokens, say so by dataset.format: tokens"
	case other != "" && !storage.IsText(uri):
		return why + "; it begins as " + other + " does, which is not read"
	case bytes.HasSuffix(tail, []byte("\xff\xff\xff\xff\x00\x00\x00\x00")):
		why = "it is in Arrow's stream format, which is not read: write it as a file, with pyarrow.ipc.new_file"
	case bytes.HasSuffix(tail, []byte("FEA1")):
		why = "it is of version 1 of Feather, which is not read: write it again with pyarrow.feather.write_feather"
	case !text:
		why += "; it is of another format, or was cut off: write it again"
	}
	if text {
		why += "; " + storage.AsText
	}
	return why
}

// isTar reports whether a file begins with a header of a tar, which may be damaged.
func isTar(head []byte) bool {
	const at = 257
	return len(head) > at && bytes.HasPrefix(head[at:], []byte("ustar"))
}

// otherFormat is the name of a format that is not read, of which a file is by its front; "" if that tells none.
func otherFormat(head []byte) string {
	for _, f := range []struct {
		name, magic string
	}{
		{"ORC", "ORC"},
		{"Avro", "Obj\x01"},
		{"a SequenceFile of Hadoop", "SEQ"},
		{"an RCFile of Hive", "RCF"},
		{"HDF5", "\x89HDF\r\n"},
		{"SQLite", "SQLite format 3\x00"},
		{"a zip archive", "PK\x03\x04"},
		{"a file of bzip2", "BZh"},
		{"a file of xz", "\xfd7zXZ\x00"},
	} {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return f.name
		}
	}
	return ""
}
