// Package tokens describes files of token ids, one document after another, beside which another file says where these
// begin: Megatron's .bin and .idx, datatrove's .ds and .ds.index, and arrays of numpy with an array of offsets. A row
// is a document, or a sequence of Megatron's. Its worker's half is worker/formats/tokens.
package tokens

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Format is that of files of tokens.
type Format struct{}

// Name is the format's.
func (Format) Name() string { return "tokens" }

// Extensions are those of files' names, of which .bin may be anything.
func (Format) Extensions() []string { return []string{".ds"} }

// The options.
const (
	optionKind      = "dtype"
	optionDocuments = "documents"
)

// Claims reports whether a file of a name that tokens have has an index beside it.
func (Format) Claims(ctx context.Context, in *format.Input) (bool, error) {
	switch strings.ToLower(path.Ext(in.File.GetUri())) {
	case ".bin", ".ds":
	default:
		return false, nil
	}
	_, err := besides(ctx, in, "")
	if errors.Is(err, errNoIndex) {
		return false, nil
	}
	return err == nil, err
}

// Describe reads where documents begin.
func (Format) Describe(ctx context.Context, in *format.Input) (format.File, error) {
	kind, documents, err := options(in.How)
	if err != nil {
		return nil, err
	}
	beside, err := besides(ctx, in, documents)
	if err != nil {
		return nil, err
	}
	head, err := in.Head(ctx)
	if err != nil {
		return nil, err
	}
	f := &File{kind: kind, size: in.File.GetSize(), beside: beside}
	if isArray(head) {
		a, err := arrayOf(head, f.size)
		if err != nil {
			return nil, err
		}
		f.kind, f.from = a.kind, a.from
	}
	if err := f.read(ctx, in, beside); err != nil {
		return nil, fmt.Errorf("%s: %w", path.Base(beside.GetUri()), err)
	}
	return f, f.finish()
}

// options are the kind of tokens, unspecified if the file says it, and the name of the file of documents.
func options(how *pb.Format) (kind pb.Kind, documents string, err error) {
	if len(how.GetColumns()) > 0 {
		return 0, "", errors.New("dataset.format.columns: files of tokens have columns of their own; leave columns out")
	}
	for name, v := range how.GetOptions() {
		switch name {
		case optionKind:
			if kind = spec.KindNamed(v.GetText()); !isToken(kind) {
				return 0, "", fmt.Errorf("dataset.format.%s: found %q; want uint8, int8, uint16, int16, uint32, int32 "+
					"or int64", name, v.GetText())
			}
		case optionDocuments:
			if documents = v.GetText(); documents == "" || strings.Contains(documents, "/") {
				return 0, "", fmt.Errorf("dataset.format.%s: found %q; want the name of a file in the same folder, in "+
					"which * stands for that of the file of tokens: '*.docs.npy'", name, documents)
			}
		default:
			return 0, "", fmt.Errorf("dataset.format: tokens has no option %s; it has %s and %s", name, optionKind,
				optionDocuments)
		}
	}
	return kind, documents, nil
}

func isToken(kind pb.Kind) bool {
	return slices.Contains([]pb.Kind{
		pb.Kind_UINT8, pb.Kind_INT8, pb.Kind_UINT16, pb.Kind_INT16, pb.Kind_UINT32, pb.Kind_INT32, pb.Kind_INT64,
	}, kind)
}

var errNoIndex = errors.New("nothing beside it says where documents begin; looked for")

// besides finds the file that says where documents begin.
func besides(ctx context.Context, in *format.Input, documents string) (*pb.File, error) {
	uri := in.File.GetUri()
	dir, name := uri[:strings.LastIndexByte(uri, '/')+1], path.Base(uri)
	names := []string{strings.TrimSuffix(name, path.Ext(name)) + ".idx", name + ".index"}
	if documents != "" {
		names = []string{strings.ReplaceAll(documents, "*", name)}
	}
	for _, name := range names {
		found, err := in.Storage.List(ctx, in.Profile, []string{storage.Quote(dir + name)})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(found) == 1 && found[0].GetUri() == dir+name {
			return found[0], nil
		}
	}
	return nil, fmt.Errorf("%w %s: name it by dataset.format.%s", errNoIndex, strings.Join(names, " and "),
		optionDocuments)
}
