package iceberg

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

const (
	atOnce  = 8         // manifests that are read at once
	maxFile = 512 << 20 // bytes of a file of metadata
)

// loader reads a table's metadata. Its methods may be called by several goroutines at once.
type loader struct {
	table  *table.Table
	memory table.Memory
}

// find lists files of the table's own below a folder, or one by its URI, by their names.
func (l *loader) find(ctx context.Context, uri, ends string, has func(name string) bool) ([]*pb.File, error) {
	from, ok := l.table.Storage.(storage.Finder)
	if !ok {
		return nil, errors.New("this storage lists data alone, and no metadata of tables")
	}
	kind := storage.Kind{Ends: ends, Own: true, Has: func(found string) bool {
		dir, name := found[:strings.LastIndexByte(found, '/')+1], found[strings.LastIndexByte(found, '/')+1:]
		return dir == uri && has(name)
	}}
	found, _, err := from.Find(ctx, l.table.Profile, []string{storage.Quote(uri)}, kind)
	return found, err
}

// read reads a file that metadata names, with others of about its size at once.
func (l *loader) read(ctx context.Context, uri string, atOnce int64) ([]byte, error) {
	found, err := l.find(ctx, uri, "this", func(string) bool { return false })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the table names %s, which is gone: its snapshot has expired, or files were lost; read "+
			"another version: %w", uri, fs.ErrNotExist)
	case err != nil:
		return nil, err
	case len(found) != 1 || found[0].GetUri() != uri:
		return nil, fmt.Errorf("the table names %s, which is no file", uri)
	}
	return l.content(ctx, found[0], atOnce)
}

func (l *loader) content(ctx context.Context, f *pb.File, atOnce int64) ([]byte, error) {
	if f.GetSize() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", f.GetUri(), f.GetSize(), maxFile)
	}
	if err := l.memory.Use(2 * atOnce * f.GetSize()); err != nil { // with what is decompressed of them
		return nil, err
	}
	content := make([]byte, f.GetSize())
	return content, l.table.Storage.ReadAt(ctx, l.table.Profile, f, content, 0)
}

// metadata reads a metadata file.
func (l *loader) metadata(ctx context.Context, uri string) (*metadata, error) {
	content, err := l.read(ctx, uri, 1)
	if err != nil {
		return nil, err
	}
	if content, err = plain(content); err != nil {
		return nil, fmt.Errorf("%s: %w", uri, err)
	}
	if err := l.memory.Take(2 * int64(len(content))); err != nil {
		return nil, err
	}
	m, err := parseMetadata(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", uri, err)
	}
	return m, nil
}

// plain decompresses what is compressed: names do not always tell.
func plain(content []byte) ([]byte, error) {
	if !bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
		return content, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(out) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return out, err
}

func parseMetadata(content []byte) (*metadata, error) {
	m := &metadata{}
	if err := json.Unmarshal(content, m); err != nil {
		return nil, fmt.Errorf("%w; the file is damaged or cut: restore it", err)
	}
	return m, m.check()
}
