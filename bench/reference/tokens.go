package reference

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"path"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// tokenRow is a document, or a sequence of Megatron's.
type tokenRow struct {
	tokens   []any
	document int64
}

var errIndex = errors.New("the file that says where documents begin does not fit")

// openTokens reads a file of token ids, and the file beside it that says where documents begin.
func (in *Interpreter) openTokens(ctx context.Context, file *pb.File, data []byte, how *pb.Format) (table, error) {
	beside, err := in.beside(ctx, file.GetUri(), option(how, "documents", ""))
	if err != nil {
		return nil, err
	}
	kind := spec.KindNamed(option(how, "dtype", ""))
	if bytes.HasPrefix(beside, []byte("MMIDIDX\x00\x00")) {
		return megatron(data, beside[9:])
	}
	if bytes.HasPrefix(data, []byte("\x93NUMPY")) {
		a, err := parseNpy(data)
		if err != nil {
			return nil, err
		}
		kind, data = a.kind, a.data
	}
	var ends []int64
	if bytes.HasPrefix(beside, []byte("\x93NUMPY")) {
		a, err := parseNpy(beside)
		if err != nil {
			return nil, err
		}
		if ends, err = whole(a.data, a.kind); err != nil {
			return nil, err
		}
		if len(ends) > 0 && ends[0] == 0 { // where the first one begins
			ends = ends[1:]
		}
	} else if ends, err = whole(beside, pb.Kind_INT64); err != nil {
		return nil, err
	}
	if kind == pb.Kind_KIND_UNSPECIFIED && len(ends) > 0 {
		for _, k := range []pb.Kind{pb.Kind_UINT16, pb.Kind_UINT32, pb.Kind_INT64} {
			if ends[len(ends)-1]*int64(spec.Width(k)) == int64(len(data)) {
				kind = k
				break
			}
		}
	}
	return tokenFile(data, kind, ends, nil)
}

// whole are integers as they lie in memory.
func whole(data []byte, kind pb.Kind) (out []int64, err error) {
	values, err := numbersOf(data, kind)
	for _, v := range values {
		n, ok := v.(int64)
		if !ok {
			return nil, errIndex
		}
		out = append(out, n)
	}
	return out, err
}

// beside finds the index of a file in its folder.
func (in *Interpreter) beside(ctx context.Context, uri, named string) ([]byte, error) {
	dir, name := uri[:strings.LastIndexByte(uri, '/')+1], path.Base(uri)
	names := []string{strings.TrimSuffix(name, path.Ext(name)) + ".idx", name + ".index"}
	if named != "" {
		names = []string{strings.ReplaceAll(named, "*", name)}
	}
	for _, name := range names {
		found, err := in.store.List(ctx, in.spec.GetDataset().GetStorage(), []string{dir + name})
		for _, f := range found {
			if err == nil && f.GetUri() == dir+name {
				return in.read(ctx, f)
			}
		}
	}
	return nil, errors.New("nothing says where documents begin")
}

// megatron reads an index behind its magic: a version, the kind of tokens, the numbers of sequences and of documents
// and one more; the sequences' lengths (int32) and begins (int64), and each document's first sequence (int64).
func megatron(data, index []byte) (table, error) {
	le := binary.LittleEndian
	if len(index) < 25 || le.Uint64(index) != 1 {
		return nil, errIndex
	}
	kind := map[byte]pb.Kind{
		1: pb.Kind_UINT8, 2: pb.Kind_INT8, 3: pb.Kind_INT16, 4: pb.Kind_INT32, 5: pb.Kind_INT64, 8: pb.Kind_UINT16,
	}[index[8]]
	sequences, documents := le.Uint64(index[9:]), le.Uint64(index[17:])
	if index = index[25:]; sequences > uint64(len(index)) || documents > uint64(len(index)) ||
		uint64(len(index)) < 12*sequences+8*documents {
		return nil, errIndex
	}
	lengths, err := whole(index[:4*sequences], pb.Kind_INT32)
	if err != nil {
		return nil, err
	}
	firsts, err := whole(index[12*sequences:][:8*documents], pb.Kind_INT64)
	if err != nil {
		return nil, err
	}
	var ends []int64
	end := int64(0)
	for _, n := range lengths {
		end += n
		ends = append(ends, end)
	}
	if firsts == nil {
		firsts = []int64{}
	}
	return tokenFile(data, kind, ends, firsts)
}

// tokenFile cuts tokens into rows where these end, of which the last end may be left out. Firsts are the first rows of
// documents, if rows are less than that.
func tokenFile(data []byte, kind pb.Kind, ends, firsts []int64) (table, error) {
	if kind == pb.Kind_KIND_UNSPECIFIED || kind == pb.Kind_BOOL {
		return nil, errIndex
	}
	tokens, err := numbersOf(data, kind)
	if err != nil {
		return nil, err
	}
	if firsts == nil && (len(ends) == 0 || ends[len(ends)-1] < int64(len(tokens))) {
		ends = append(ends, int64(len(tokens)))
	}
	f := &recordFile{columns: []column{
		column{name: "tokens", path: []string{"tokens"}, typ: spec.Type{Kind: kind, List: true}}.small(),
	}}
	if firsts != nil {
		f.columns = append(f.columns, column{
			name: "document", path: []string{"document"}, typ: spec.Type{Kind: pb.Kind_INT64},
		})
	}
	at, document := int64(0), int64(-1)
	for row, end := range ends {
		if end < at || end > int64(len(tokens)) {
			return nil, errIndex
		}
		for int(document+1) < len(firsts) && firsts[document+1] <= int64(row) {
			document++
		}
		f.records = append(f.records, tokenRow{tokens[at:end], document})
		at = end
	}
	if at != int64(len(tokens)) {
		return nil, errIndex
	}
	return f, nil
}

func (r tokenRow) value(c column) (any, bool, error) {
	switch c.name {
	case "tokens":
		return r.tokens, true, nil
	case "document":
		return r.document, true, nil
	}
	return nil, false, nil
}
