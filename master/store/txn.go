package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Limits of etcd: operations of a transaction, and bytes of a request (1.5 MiB), less room for comparisons.
const (
	maxOps      = 128
	maxTxnBytes = 5 << 18
)

// write is a transaction that only the leader can commit.
type write struct {
	name  string // for errors
	when  []clientv3.Cmp
	then  []clientv3.Op
	bytes int
}

func (w *write) put(key string, value []byte) {
	w.then = append(w.then, clientv3.OpPut(key, string(value)))
	w.bytes += len(key) + len(value)
}

// run commits w and returns the revision at which it did. The error is ErrConflict if lead holds but another
// comparison failed; otherwise is what to look up then, in the same transaction.
func (s *Store) run(
	ctx context.Context, lead *Leadership, w write, otherwise ...clientv3.Op,
) (int64, *clientv3.TxnResponse, error) {
	if w.bytes > maxTxnBytes || len(w.then) > maxOps || len(w.when)+1 > maxOps {
		return 0, nil, fmt.Errorf("%w: %s: %d operations of %d bytes; the limits are %d and %d",
			ErrTooLarge, w.name, len(w.then), w.bytes, maxOps, maxTxnBytes)
	}
	call, cancel := s.call(ctx)
	defer cancel()
	then := w.then
	if len(then) == 0 {
		// Without any operation etcd would not ask its peers whether it is up to date.
		then = []clientv3.Op{clientv3.OpGet(lead.key, clientv3.WithKeysOnly())}
	}
	resp, err := s.client.Txn(call).
		If(append([]clientv3.Cmp{lead.held()}, w.when...)...).
		Then(then...).
		Else(append([]clientv3.Op{clientv3.OpGet(lead.key, clientv3.WithKeysOnly())}, otherwise...)...).
		Commit()
	if err != nil {
		return 0, nil, writeError(w.name, err)
	}
	if resp.Succeeded {
		return resp.Header.Revision, resp, nil
	}
	keys := resp.Responses[0].GetResponseRange().GetKvs()
	if len(keys) == 0 || keys[0].CreateRevision != lead.revision {
		return 0, resp, fmt.Errorf("%w: %s", ErrNotLeader, w.name)
	}
	return 0, resp, fmt.Errorf("%w: %s", ErrConflict, w.name)
}

// absent compares that a key does not exist.
func absent(key string) clientv3.Cmp { return clientv3.Compare(clientv3.CreateRevision(key), "=", 0) }

// unchanged compares that a key was last put at a revision; 0: that it does not exist.
func unchanged(key string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", revision)
}

func isLeaseGone(err error) bool { return errors.Is(err, rpctypes.ErrLeaseNotFound) }

// Compact forgets the history of keys before the previous Compact of this leadership, to keep etcd small. The
// leader calls it every minute. It concerns the whole etcd cluster.
func (s *Store) Compact(ctx context.Context, lead *Leadership) error {
	revision, _, err := s.run(ctx, lead, write{name: "compact"})
	if err != nil {
		return err
	}
	lead.mu.Lock()
	previous := lead.compactTo
	lead.compactTo = revision
	lead.mu.Unlock()
	if previous == 0 {
		return nil
	}
	call, cancel := s.call(ctx)
	defer cancel()
	if _, err := s.client.Compact(call, previous); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return writeError("compact", err)
	}
	return nil
}
