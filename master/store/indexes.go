package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Indexes that took long to make lie in etcd, so that another master need not have them made again. Each is one value,
// whose key says how long it is. Those written longest ago make room; who uses one writes it again now and
// then.

const (
	// MaxIndex bounds an index, in bytes: some hundred thousand extents, which have half a TiB. A longer one is not
	// kept.
	MaxIndex = maxTxnBytes - 64<<10
	// maxIndexBytes bounds all of them, and maxIndexes their number.
	maxIndexBytes, maxIndexes = 64 << 20, 4096
	// dropsOfIndexes bounds how many make room for one.
	dropsOfIndexes = maxOps / 2
)

// IndexName names an index: a hash of all that it depends on.
type IndexName [sha256.Size]byte

func (l layout) indexes() string                 { return l.prefix + "index/" }
func (l layout) indexesOf(name IndexName) string { return fmt.Sprintf("%s%x/", l.indexes(), name) }

func (l layout) index(name IndexName, size int) string {
	return fmt.Sprintf("%s%010d", l.indexesOf(name), size)
}

// indexKeys are the keys of all indexes, in the order in which they were written. The leader alone writes them, so that
// it lists them once, and then knows them.
type indexKeys struct {
	turn  chan struct{} // taken by who looks at them
	of    *Leadership   // that listed them; nil: they are not known
	keys  []string
	named map[string]string // by what names them
}

func newIndexKeys() *indexKeys { return &indexKeys{turn: make(chan struct{}, 1)} }

// known lists the keys, unless they are known. The turn must be taken.
func (k *indexKeys) known(ctx context.Context, s *Store, lead *Leadership) error {
	if k.of == lead {
		return nil
	}
	call, cancel := s.call(ctx)
	defer cancel()
	resp, err := s.client.Get(call, s.keys.indexes(), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend))
	if err != nil {
		return readError("list indexes", err)
	}
	k.of, k.keys, k.named = lead, nil, map[string]string{}
	for _, kv := range resp.Kvs {
		k.wrote(string(kv.Key), nil)
	}
	return nil
}

// forget is the keys that make room for one more, and others of its name.
func (k *indexKeys) forget(prefix, key string, size int) (drop []string) {
	n, total := 1, size
	var others []string
	for _, there := range k.keys {
		switch {
		case there == key:
		case strings.HasPrefix(there, prefix):
			drop = append(drop, there)
		default:
			others = append(others, there)
			n, total = n+1, total+sizeOfIndex(there)
		}
	}
	for _, old := range others {
		if n <= maxIndexes && total <= maxIndexBytes || len(drop) == dropsOfIndexes {
			break
		}
		drop, n, total = append(drop, old), n-1, total-sizeOfIndex(old)
	}
	return drop
}

// wrote notes that a key was written last, in place of some.
func (k *indexKeys) wrote(key string, drop []string) {
	for _, old := range drop {
		delete(k.named, nameIn(old))
	}
	if k.named[nameIn(key)] == key || len(drop) > 0 {
		k.keys = slices.DeleteFunc(k.keys, func(old string) bool { return old == key || slices.Contains(drop, old) })
	}
	k.keys = append(k.keys, key)
	k.named[nameIn(key)] = key
}

// nameIn is the part of a key that says of what it is.
func nameIn(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }

// Index reads an index as it was put; nil: there is none.
func (s *Store) Index(ctx context.Context, lead *Leadership, name IndexName) ([]byte, error) {
	key, err := s.indexKey(ctx, lead, name)
	if err != nil || key == "" {
		return nil, err
	}
	call, cancel := s.call(ctx)
	defer cancel()
	resp, err := s.client.Get(call, key)
	if err != nil {
		return nil, readError("read an index", err)
	}
	if len(resp.Kvs) == 0 {
		return nil, nil
	}
	return resp.Kvs[0].Value, nil
}

func (s *Store) indexKey(ctx context.Context, lead *Leadership, name IndexName) (string, error) {
	done, err := s.indexes.enter(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	if err := s.indexes.known(ctx, s, lead); err != nil {
		return "", err
	}
	return s.indexes.named[s.keys.indexesOf(name)], nil
}

// PutIndex writes an index in place of one that is there, as the one used last. It fails with ErrTooLarge.
func (s *Store) PutIndex(ctx context.Context, lead *Leadership, name IndexName, data []byte) error {
	if len(data) > MaxIndex {
		return fmt.Errorf("%w: an index of %d bytes; the limit is %d", ErrTooLarge, len(data), MaxIndex)
	}
	done, err := s.indexes.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := s.indexes.known(ctx, s, lead); err != nil {
		return err
	}
	key := s.keys.index(name, len(data))
	drop := s.indexes.forget(s.keys.indexesOf(name), key, len(data))
	w := write{name: "keep an index"}
	for _, old := range drop {
		w.then = append(w.then, clientv3.OpDelete(old))
	}
	w.put(key, data)
	if _, _, err = s.run(ctx, lead, w); err != nil {
		s.indexes.of = nil // nobody knows what came of it
		return err
	}
	s.indexes.wrote(key, drop)
	return nil
}

// enter takes the turn.
func (k *indexKeys) enter(ctx context.Context) (done func(), err error) {
	select {
	case k.turn <- struct{}{}:
		return func() { <-k.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// sizeOfIndex is what a key says. That of somebody else's says nothing, and goes soon.
func sizeOfIndex(key string) int {
	n, err := strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
	if err != nil {
		return maxIndexBytes
	}
	return n
}
