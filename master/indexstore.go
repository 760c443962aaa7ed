package master

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/master/store"
)

// name is an index's in etcd.
func (k indexKey) name() (name store.IndexName) {
	h := sha256.New()
	for _, part := range []any{k.profile, k.uri, k.of.Format, k.of.Version, k.of.Options, k.of.Size, k.of.ETag} {
		fmt.Fprintf(h, "%q,", fmt.Sprint(part))
	}
	h.Write([]byte(k.session)) // what is before has its own end
	h.Sum(name[:0])
	return name
}

// inStore finds the index of a file in etcd; nil: there is none.
func (x *indexing) inStore(ctx context.Context, f *scanned) (*index.Index, error) {
	t := x.term()
	if t == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	data, err := t.master.cfg.Store.Index(ctx, t.leadership, x.key(f).name())
	if err != nil || data == nil {
		return nil, err
	}
	return index.Parse(data)
}

// used has an index stay in etcd, since it is used. found says that it lies there, if this master did not write it.
func (x *indexing) used(ctx context.Context, f *scanned, made *index.Index, found bool) {
	when, wrote := x.stored.Get(x.key(f))
	if wrote && time.Since(when) >= storedAgain || !wrote && found {
		x.store(ctx, f, made)
	}
}

// store writes the index of a file to etcd, as the one used last. That it cannot be kept is no harm.
func (x *indexing) store(ctx context.Context, f *scanned, made *index.Index) {
	t, key := x.term(), x.key(f)
	if t == nil {
		return
	}
	err := t.master.cfg.Store.PutIndex(ctx, t.leadership, key.name(), made.Bytes())
	if err != nil && !errors.Is(err, store.ErrTooLarge) {
		x.logger.Warn("an index cannot be kept in etcd", "file", f.GetUri(), "error", err)
		return
	}
	x.stored.Put(key, time.Now(), digestCost)
}
