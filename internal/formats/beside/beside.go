// Package beside finds and writes indexes that were made ahead of time (`penstock index`). They lie beside the data, in
// the folder _penstock/index of each directory that has files, which no listing of data enters: packs of indexes, whose
// names are those of their bytes. Whoever reads a file lists the folder once for all of the directory's files.
//
// What lies there is not trusted, and never needed: it only saves a scan. A Finder may be used by many goroutines at
// once.
package beside

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/lru"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Folder is where a directory's packs are.
const Folder = "_penstock/index/"

const (
	// keptBytes bounds the packs that are kept in memory.
	keptBytes = 64 << 20
	// keptFor is how long what a folder has is believed: others may write there meanwhile.
	keptFor = 5 * time.Minute
	// maxPacks bounds the packs of a folder.
	maxPacks = 4096
)

// Finder finds indexes beside the data.
type Finder struct {
	folders *lru.Cache[folderKey, *folder]
	packs   *lru.Cache[string, map[string][]byte]
}

type folderKey struct{ profile, uri string }

// folder is what was listed of one.
type folder struct {
	read  sync.Mutex // taken by who lists it, or reads its packs
	when  time.Time
	packs []*pb.File
	err   error // of the listing
}

// New returns a finder that knows nothing yet.
func New() *Finder {
	return &Finder{
		folders: lru.New[folderKey, *folder](keptBytes), packs: lru.New[string, map[string][]byte](keptBytes),
	}
}

// Find finds the index of a file; nil: there is none. An error says what is wrong with one that there may be, or that
// it could not be read.
func (f *Finder) Find(
	ctx context.Context, st storage.Storage, profile string, file *pb.File, want index.Of,
) (*index.Index, error) {
	from, ok := st.(storage.Finder)
	if !ok {
		return nil, nil //nolint:nilnil // there is none
	}
	dir, name := Split(file.GetUri())
	key := folderKey{profile, dir + Folder}
	of := f.folders.Add(key, &folder{}, int64(len(key.uri))+256)
	of.read.Lock()
	defer of.read.Unlock()
	if time.Since(of.when) > keptFor {
		of.packs, of.err = list(ctx, from, key)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		of.when = time.Now()
		f.folders.Resize(key, int64(len(key.uri))+256+256*int64(len(of.packs)))
	}
	if of.err != nil {
		return nil, of.err
	}
	return f.among(ctx, st, profile, of.packs, name, want)
}

// among finds an index among packs.
func (f *Finder) among(
	ctx context.Context, st storage.Storage, profile string, packs []*pb.File, name string, want index.Of,
) (found *index.Index, err error) {
	var wrong error
	for _, p := range packs {
		indexes, err := f.pack(ctx, st, profile, p)
		if err != nil {
			wrong = fmt.Errorf("%s: %w", p.GetUri(), err)
			continue
		}
		data, ok := indexes[name]
		if !ok {
			continue
		}
		x, err := index.Parse(data)
		if err == nil {
			err = x.Is(want)
		}
		if err == nil {
			return x, nil
		}
		wrong = fmt.Errorf("%s, of %s: %w", p.GetUri(), name, err)
	}
	return nil, wrong
}

// pack reads a pack, unless it is in memory.
func (f *Finder) pack(
	ctx context.Context, st storage.Storage, profile string, p *pb.File,
) (map[string][]byte, error) {
	key := profile + "\x00" + p.GetUri() + "\x00" + p.GetEtag()
	if kept, ok := f.packs.Get(key); ok {
		return kept, nil
	}
	if p.GetSize() > index.MaxBytes+index.PackBytes {
		return nil, fmt.Errorf("it has %d bytes, more than a pack has", p.GetSize())
	}
	data := make([]byte, p.GetSize())
	if err := st.ReadAt(ctx, profile, p, data, 0); err != nil {
		return nil, err
	}
	all, err := index.Unpack(data)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(all))
	size := int64(len(data))
	for _, x := range all {
		out[x.Name] = x.Index
		size += 128
	}
	f.packs.Put(key, out, size)
	return out, nil
}

func list(ctx context.Context, from storage.Finder, key folderKey) ([]*pb.File, error) {
	found, _, err := from.Find(ctx, key.profile, []string{storage.Quote(key.uri)}, storage.Kind{
		Ends: index.PackEnding, Has: func(uri string) bool { return strings.HasSuffix(uri, index.PackEnding) },
	})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, object.ErrDenied): // who may read data need not list it
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("indexes beside the data: %w", err)
	case len(found) > maxPacks:
		return nil, fmt.Errorf("%s has %d packs of indexes: remove the folder, and run `penstock index` again",
			key.uri, len(found))
	}
	return found, nil
}

// Split is a URI's directory, with its slash, and the name in it.
func Split(uri string) (dir, name string) {
	i := strings.LastIndexByte(uri, '/') + 1
	return uri[:i], uri[i:]
}

// Write writes a pack for a directory. One of the same bytes that is there is as good.
func Write(ctx context.Context, st *storage.Store, profile, dir string, pack []byte) error {
	uri := dir + Folder + index.PackName(pack)
	u, err := st.Begin(ctx, profile, uri)
	if err != nil {
		return err
	}
	_, err = u.Write(pack)
	var pending storage.Pending
	if err == nil {
		pending, err = u.End()
	}
	if err != nil {
		return errors.Join(err, u.Abandon(ctx))
	}
	if _, err = st.Finish(ctx, profile, pending); errors.Is(err, fs.ErrExist) {
		return u.Abandon(ctx)
	}
	return err
}
