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

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/arrow"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/internal/storage"
)

// All are the formats that can be read.
func All() []format.Format { return []format.Format{parquet.Format{}, arrow.Format{}} }

// Load describes a file for whatever may be read of it, with the profile's keys if it is encrypted. Take is asked for
// memory before it is used, unless it is little, and may refuse; nil: there is enough. What was taken beyond the
// description's Size is free again afterwards. Errors name the file.
func Load(
	ctx context.Context, st storage.Storage, profile string, f *pb.File, take func(bytes int64) error,
) (format.File, error) {
	return load(ctx, &format.Input{Storage: st, Profile: profile, File: f, Take: take, All: true})
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
		at := slices.IndexFunc(all, func(known format.Format) bool { return known.Name() == in.Before.Format() })
		return all[at].Describe(ctx, in)
	}
	tail, err := in.End(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(known format.Format) bool { return known.Claims(in.File.GetUri(), tail) })
	if at >= 0 {
		return all[at].Describe(ctx, in)
	}
	head := make([]byte, min(in.File.GetSize(), headBytes))
	if err := in.ReadAt(ctx, head, 0); err != nil {
		return nil, err
	}
	why := unclaimed(all, in.File.GetUri(), head, tail)
	if isCut(head) {
		return nil, errors.New(why + "; it begins as such a file does")
	}
	return nil, &UnclaimedError{why}
}

// isCut reports whether a file whose end is that of no format begins as those do that are known by their end.
func isCut(head []byte) bool {
	return slices.ContainsFunc([]string{"PAR1", "PARE", "ARROW1"},
		func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) })
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
	var names []string
	for _, known := range all {
		if slices.Contains(known.Extensions(), strings.ToLower(path.Ext(uri))) {
			names = []string{known.Name()}
			break
		}
		names = append(names, known.Name())
	}
	control := func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\r\n", r) }
	text := storage.IsText(uri) || len(tail) > 0 && !bytes.ContainsFunc(tail, control)
	why := fmt.Sprintf("not %s: it ends in %q", strings.Join(names, " or "), tail[max(0, len(tail)-4):])
	other := otherFormat(head)
	switch {
	case len(tail) == 0:
		why = "the file is empty"
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
		why += "; " + storage.Convert
	}
	return why
}

// headBytes is how much of a file's front is looked at where its end tells nothing.
const headBytes = 512

// otherFormat is the name of a format that is not read, of which a file is by its front; "" if that tells none.
func otherFormat(head []byte) string {
	for _, f := range []struct {
		name, magic string
		at          int
	}{
		{"ORC", "ORC", 0},
		{"Avro", "Obj\x01", 0},
		{"a SequenceFile of Hadoop", "SEQ", 0},
		{"an RCFile of Hive", "RCF", 0},
		{"HDF5", "\x89HDF\r\n", 0},
		{"NumPy's array", "\x93NUMPY", 0},
		{"SQLite", "SQLite format 3\x00", 0},
		{"a zip archive", "PK\x03\x04", 0},
		{"a tar archive", "ustar", 257},
		{"a file of gzip", "\x1f\x8b", 0},
		{"a file of zstd", "\x28\xb5\x2f\xfd", 0},
		{"a file of bzip2", "BZh", 0},
		{"a file of xz", "\xfd7zXZ\x00", 0},
	} {
		if len(head) >= f.at && bytes.HasPrefix(head[f.at:], []byte(f.magic)) {
			return f.name
		}
	}
	return ""
}
