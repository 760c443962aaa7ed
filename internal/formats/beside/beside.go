// Package beside finds and writes indexes that were made ahead of time (`penstock index`). They lie beside the data, in
// the folder _penstock/index of each directory that has files, which no listing of data enters: packs of indexes, whose
// names are those of their bytes. Whoever reads a file lists the folder once for all of the directory's files.
//
// What lies there is not trusted, and never needed: it only saves a scan. A Finder may be used by many goroutines at
// once.
package beside

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
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
	// keptBytes bounds the packs that are kept in memory, and what is known of folders.
	keptBytes = 64 << 20
	// keptFor is how long what a folder has is believed: others may write there meanwhile.
	keptFor = 5 * time.Minute
	// maxPacks bounds the packs of a folder, and maxIndexes about how many are known of it.
	maxPacks, maxIndexes = 4096, 1 << 20
)

// Finder finds indexes beside the data.
type Finder struct {
	enter   func(ctx context.Context) (take func(bytes int64) error, leave func())
	folders *lru.Cache[folderKey, *folder]
	packs   *lru.Cache[packKey, []byte]
}

type folderKey struct{ profile, uri string }

type packKey struct{ profile, uri, etag string }

// folder is what is known of one.
type folder struct {
	busy    chan struct{} // has room for who lists it, or reads its packs
	when    time.Time     // it was listed
	packs   map[packKey]*pb.File
	indexes map[indexKey]place
	err     error             // of the listing
	wrong   map[packKey]error // of packs; the others are as good
	told    bool              // what is wrong was, since the listing
}

// indexKey is a hash of a file's name and what the index is of: two in 2^64 have the same one, and an index says itself
// what it is of.
type indexKey [16]byte

// place is where an index lies.
type place struct {
	pack       *pb.File
	at, length int64
}

const (
	folderCost = 256 // of memory, of an empty folder, or a pack
	placeCost  = 64
)

// New returns a finder that knows nothing yet. Enter begins to read a pack, for which memory is taken until leave.
func New(enter func(ctx context.Context) (take func(bytes int64) error, leave func())) *Finder {
	return &Finder{
		enter: enter, folders: lru.New[folderKey, *folder](keptBytes), packs: lru.New[packKey, []byte](keptBytes),
	}
}

// Find finds the index of a file; nil: there is none. An error says what is wrong with one that there may be, once for
// all files of a folder that was listed, or that it could not be read.
func (f *Finder) Find(
	ctx context.Context, st storage.Storage, profile string, file *pb.File, want index.Of,
) (*index.Index, error) {
	from, ok := st.(storage.Finder)
	if !ok || storage.IsWeak(file) { // an index of a weak ETag may be that of other bytes
		return nil, nil //nolint:nilnil // there is none
	}
	dir, name := Split(file.GetUri())
	key := folderKey{profile, dir + Folder}
	of := f.folders.Add(key, &folder{busy: make(chan struct{}, 1)}, int64(len(key.uri))+folderCost)
	at, found, err := f.known(ctx, st, from, key, of, keyOf(name, want))
	if err != nil || !found {
		return nil, err
	}
	return f.read(ctx, st, profile, at, want)
}

// known tells where the index of a file lies in a folder, which it lists, and reads, now and then.
func (f *Finder) known(
	ctx context.Context, st storage.Storage, from storage.Finder, key folderKey, of *folder, want indexKey,
) (at place, found bool, err error) {
	select {
	case of.busy <- struct{}{}:
	case <-ctx.Done():
		return at, false, context.Cause(ctx)
	}
	defer func() { <-of.busy }()
	if time.Since(of.when) > keptFor {
		packs, err := list(ctx, from, key)
		if err == nil {
			err = f.learn(ctx, st, key.profile, of, packs)
		}
		if ctx.Err() != nil {
			return at, false, context.Cause(ctx)
		}
		of.err, of.when, of.told = err, time.Now(), false
		f.folders.Resize(key, int64(len(key.uri))+folderCost+folderCost*int64(len(of.packs))+
			placeCost*int64(len(of.indexes)))
	}
	if at, found = of.indexes[want]; found {
		return at, true, nil
	}
	if of.told {
		return at, false, nil
	}
	of.told = true
	return at, false, errors.Join(of.err, of.damaged())
}

// damaged says what is wrong with the first of the packs with which something is.
func (of *folder) damaged() error {
	if len(of.wrong) == 0 {
		return nil
	}
	first := slices.MinFunc(slices.Collect(maps.Keys(of.wrong)),
		func(a, b packKey) int { return cmp.Compare(a.uri, b.uri) })
	if n := len(of.wrong); n > 1 {
		return fmt.Errorf("%w (the first of %d packs with which something is wrong)", of.wrong[first], n)
	}
	return of.wrong[first]
}

// learn reads the packs of a folder that it did not read yet.
func (f *Finder) learn(ctx context.Context, st storage.Storage, profile string, of *folder, packs []*pb.File) error {
	now := map[packKey]*pb.File{}
	for _, p := range packs {
		now[packKey{profile, p.GetUri(), p.GetEtag()}] = p
	}
	for key := range of.packs {
		if now[key] == nil { // somebody removed it
			of.packs = nil
			break
		}
	}
	if of.packs == nil {
		of.packs, of.indexes, of.wrong = map[packKey]*pb.File{}, map[indexKey]place{}, map[packKey]error{}
	}
	maps.DeleteFunc(of.wrong, func(key packKey, _ error) bool { return of.packs[key] == nil }) // it is tried again
	for key, p := range now {
		if of.packs[key] != nil {
			continue
		}
		if len(of.indexes) > maxIndexes {
			return fmt.Errorf("%s: the folder has more than %d indexes: remove it, and run `penstock index` again",
				p.GetUri(), maxIndexes)
		}
		err := f.pack(ctx, st, profile, of, p)
		switch {
		case err == nil:
			of.packs[key] = p
		case ctx.Err() != nil:
			return err
		default:
			of.wrong[key] = fmt.Errorf("%s: %w", p.GetUri(), err)
		}
	}
	return nil
}

// pack reads a pack.
func (f *Finder) pack(ctx context.Context, st storage.Storage, profile string, of *folder, p *pb.File) error {
	if p.GetSize() > index.MaxBytes+index.PackBytes {
		return fmt.Errorf("it has %d bytes, more than a pack has", p.GetSize())
	}
	take, leave := f.enter(ctx)
	defer leave()
	if err := take(p.GetSize()); err != nil {
		return err
	}
	data := make([]byte, p.GetSize())
	if err := st.ReadAt(ctx, profile, p, data, 0); err != nil {
		return err
	}
	all, err := index.Unpack(data)
	if err != nil {
		return err
	}
	key := packKey{profile, p.GetUri(), p.GetEtag()}
	for _, packed := range all {
		x, err := index.Parse(packed.Index)
		switch {
		case err != nil:
			of.wrong[key] = fmt.Errorf("%s, of %s: %w", p.GetUri(), packed.Name, err)
		case x.Extents() > 0: // that a file has no rows would be checked by nobody
			of.indexes[keyOf(packed.Name, x.Of)] = place{p, packed.At, int64(len(packed.Index))}
		}
	}
	f.packs.Put(key, data, p.GetSize())
	return nil
}

// read reads an index.
func (f *Finder) read(
	ctx context.Context, st storage.Storage, profile string, at place, want index.Of,
) (*index.Index, error) {
	var data []byte
	if pack, ok := f.packs.Get(packKey{profile, at.pack.GetUri(), at.pack.GetEtag()}); ok {
		data = bytes.Clone(pack[at.at:][:at.length])
	} else {
		data = make([]byte, at.length)
		if err := st.ReadAt(ctx, profile, at.pack, data, at.at); err != nil {
			return nil, err
		}
	}
	x, err := index.Parse(data)
	if err == nil {
		err = x.Is(want)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, byte %d: %w", at.pack.GetUri(), at.at, err)
	}
	return x, nil
}

func keyOf(name string, of index.Of) (key indexKey) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %d %q %d %q", name, of.Format, of.Version, of.Options, of.Size, of.ETag)
	copy(key[:], h.Sum(nil))
	return key
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

// Write writes a pack for a directory. One of the same bytes that is there is as good, and one that is damaged is
// replaced.
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
		return errors.Join(u.Abandon(ctx), repair(ctx, st, profile, uri, pack))
	}
	return err
}

// repair writes a pack in place of one that does not have its bytes.
func repair(ctx context.Context, st *storage.Store, profile, uri string, pack []byte) error {
	found, err := st.List(ctx, profile, []string{storage.Quote(uri)})
	if err != nil {
		return err
	}
	if there := found[0]; there.GetSize() == int64(len(pack)) {
		data := make([]byte, len(pack))
		if err := st.ReadAt(ctx, profile, there, data, 0); err != nil {
			return err
		}
		if bytes.Equal(data, pack) {
			return nil
		}
	}
	if _, err := st.Put(ctx, profile, uri, bytes.NewReader(pack), int64(len(pack))); err != nil {
		return fmt.Errorf("%w; it is damaged: remove it, and run `penstock index` again", err)
	}
	return nil
}
