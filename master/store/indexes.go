package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Indexes of large files lie in etcd, that another master has them: what took long to make is not made again. Each is
// one value, whose key says how long it is. Those written longest ago make room; who uses one writes it again now and
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

// Index reads an index as it was put; nil: there is none.
func (s *Store) Index(ctx context.Context, name IndexName) ([]byte, error) {
	call, cancel := s.call(ctx)
	defer cancel()
	resp, err := s.client.Get(call, s.keys.indexesOf(name), clientv3.WithPrefix(), clientv3.WithLimit(1))
	if err != nil {
		return nil, readError("read an index", err)
	}
	if len(resp.Kvs) == 0 {
		return nil, nil
	}
	return resp.Kvs[0].Value, nil
}

// PutIndex writes an index in place of one that is there, as the one used last. It fails with ErrTooLarge.
func (s *Store) PutIndex(ctx context.Context, lead *Leadership, name IndexName, data []byte) error {
	if len(data) > MaxIndex {
		return fmt.Errorf("%w: an index of %d bytes; the limit is %d", ErrTooLarge, len(data), MaxIndex)
	}
	key := s.keys.index(name, len(data))
	drop, err := s.indexesToForget(ctx, name, key, len(data))
	if err != nil {
		return err
	}
	w := write{name: "keep an index"}
	for _, old := range drop {
		w.then = append(w.then, clientv3.OpDelete(old))
	}
	w.put(key, data)
	_, _, err = s.run(ctx, lead, w)
	return err
}

// indexesToForget are the keys that make room for one more, and others of its name.
func (s *Store) indexesToForget(ctx context.Context, name IndexName, key string, size int) (drop []string, err error) {
	call, cancel := s.call(ctx)
	defer cancel()
	resp, err := s.client.Get(call, s.keys.indexes(), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend))
	if err != nil {
		return nil, readError("list indexes", err)
	}
	n, total := 1, size
	var others []string
	for _, kv := range resp.Kvs {
		switch there := string(kv.Key); {
		case there == key:
		case strings.HasPrefix(there, s.keys.indexesOf(name)):
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
	return drop, nil
}

// sizeOfIndex is what a key says. That of somebody else's says nothing, and goes soon.
func sizeOfIndex(key string) int {
	n, err := strconv.Atoi(key[strings.LastIndexByte(key, '/')+1:])
	if err != nil {
		return maxIndexBytes
	}
	return n
}
