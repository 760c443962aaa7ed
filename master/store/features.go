package store

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// What was read of a directory is one compressed value, which the leader replaces every few minutes while something is
// read there. Nothing is loaded of it when another master leads.

const (
	// maxReads bounds a value, in bytes. 10,000 features, and 1,000 sets of a third of them, take about as much.
	maxReads = maxTxnBytes - 64<<10
	// maxReadsOf is how many values a namespace has, and maxReadsInAll how many there are.
	maxReadsOf, maxReadsInAll = 100, 250
	// maxReadsDecoded bounds a value in memory.
	maxReadsDecoded = 64 << 20
)

// ReadsName names what the sessions of a namespace read of the files below a directory.
type ReadsName struct{ Namespace, Prefix string }

// Reads reads what was read of a directory, and the revision at which it was put: nil and 0 if there is nothing. What
// is damaged counts as nothing, but for its revision.
func (s *Store) Reads(ctx context.Context, name ReadsName) (*pb.DatasetReads, int64, error) {
	kv, err := s.get(ctx, s.keys.reads(name))
	if err != nil || kv == nil {
		return nil, 0, err
	}
	m := &pb.DatasetReads{}
	raw, err := s.decoder.DecodeAll(kv.Value, nil)
	if err != nil || len(raw) > maxReadsDecoded || proto.Unmarshal(raw, m) != nil {
		return nil, kv.ModRevision, nil //nolint:nilerr // nothing but counts is lost
	}
	return m, kv.ModRevision, nil
}

// ReadPrefixes lists the directories of which a namespace's sessions read, those written longest ago first.
func (s *Store) ReadPrefixes(ctx context.Context, namespace string) ([]string, error) {
	dir := s.keys.readsOf(namespace)
	keys, err := s.readsBelow(ctx, dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, key := range keys {
		prefix, err := url.PathUnescape(strings.TrimPrefix(key, dir))
		if err == nil { // else it is of somebody else
			out = append(out, prefix)
		}
	}
	return out, nil
}

// readsBelow lists keys, those written longest ago first.
func (s *Store) readsBelow(ctx context.Context, dir string) ([]string, error) {
	call, cancel := s.call(ctx)
	defer cancel()
	resp, err := s.client.Get(call, dir, clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend))
	if err != nil {
		return nil, readError("list what was read", err)
	}
	var out []string
	for _, kv := range resp.Kvs {
		out = append(out, string(kv.Key))
	}
	return out, nil
}

// PutReads replaces what was put at a revision; 0: there is nothing. Where a namespace has as many directories as it
// may, or all have, the one written longest ago makes room. It fails with ErrConflict if something else lies there by
// now, and with ErrTooLarge.
func (s *Store) PutReads(
	ctx context.Context, lead *Leadership, name ReadsName, m *pb.DatasetReads, revision int64,
) error {
	key := s.keys.reads(name)
	raw, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("store: %s: %w", key, err)
	}
	w := write{name: "note what sessions read", when: []clientv3.Cmp{unchanged(key, revision)}}
	if w.put(key, s.encoder.EncodeAll(raw, nil)); w.bytes > maxReads || len(raw) > maxReadsDecoded {
		return fmt.Errorf("%w: %s: %d bytes; the limit is %d", ErrTooLarge, w.name, w.bytes, maxReads)
	}
	if revision == 0 {
		old, err := s.readsToForget(ctx, name.Namespace)
		if err != nil {
			return err
		}
		for _, key := range old {
			w.then = append(w.then, clientv3.OpDelete(key))
		}
	}
	_, _, err = s.run(ctx, lead, w)
	return err
}

// readsToForget are the keys that make room for one more of a namespace.
func (s *Store) readsToForget(ctx context.Context, namespace string) ([]string, error) {
	all, err := s.readsBelow(ctx, s.keys.allReads())
	if err != nil {
		return nil, err
	}
	var own []string
	for _, key := range all {
		if strings.HasPrefix(key, s.keys.readsOf(namespace)) {
			own = append(own, key)
		}
	}
	if len(own) >= maxReadsOf {
		return own[:len(own)+1-maxReadsOf], nil
	}
	return all[:max(0, len(all)+1-maxReadsInAll)], nil
}
