package store

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// MaxWrites bounds what one Commit may write: a head, a rank, a checkpoint, a block and a dropped block count one each.
// etcd takes 128 operations; two comparisons are the store's own.
const MaxWrites = maxOps - 2

// Writes is one change of a session.
type Writes struct {
	Head *pb.SessionHead // nil: as it was
	// Ranks that change; nil removes one.
	Ranks map[uint32]*pb.SessionRank
	// Checkpoints that came or went, by name; nil removes one.
	Checkpoints map[string]*pb.Checkpoint
	// Blocks that were planned. They must not exist yet.
	Blocks []*pb.Block
	// Drop names blocks that are needed no longer, as {Epoch, Index}. Those that do not exist are skipped.
	Drop []BlockID
}

// BlockID names a block.
type BlockID struct{ Epoch, Index uint32 }

func (w *Writes) count() int {
	n := len(w.Ranks) + len(w.Checkpoints) + len(w.Blocks) + len(w.Drop)
	if w.Head != nil {
		n++
	}
	return n
}

// Commit writes all of w or nothing, if lead still leads and nobody else has changed what it replaces. Without
// any writes it confirms the leadership, and that the session exists. Outcomes are told apart by ErrNotLeader,
// ErrConflict, ErrNotFound, ErrTooLarge and ErrUnknown; after ErrConflict and ErrUnknown, and only then, the
// session must be loaded again.
func (s *Store) Commit(ctx context.Context, lead *Leadership, session *Session, w Writes) error {
	name := fmt.Sprintf("commit to session %q", session.Name)
	if session.stale {
		return fmt.Errorf("%w: %s", ErrStale, name)
	}
	if n := w.count(); n > MaxWrites {
		return fmt.Errorf("%w: %s: %d writes; the limit is %d", ErrTooLarge, name, n, MaxWrites)
	}
	err := s.commit(ctx, lead, session, name, w)
	session.stale = errors.Is(err, ErrConflict) || errors.Is(err, ErrUnknown)
	return err
}

func (s *Store) commit(ctx context.Context, lead *Leadership, session *Session, name string, w Writes) error {
	dir := s.keys.session(session.Name)
	tx := write{name: name, when: []clientv3.Cmp{unchanged(dir+keyMeta, session.fence)}}
	put, err := s.putState(&tx, session, w)
	if err != nil {
		return fmt.Errorf("store: %s: %w", name, err)
	}
	for _, b := range w.Blocks {
		if err := s.putBlock(ctx, lead, &tx, dir, session, b); err != nil {
			return err
		}
	}
	for _, b := range w.Drop {
		tx.then = append(tx.then, clientv3.OpDelete(dir+blockDir(b), clientv3.WithPrefix()))
	}
	revision, resp, err := s.run(ctx, lead, tx, clientv3.OpGet(dir+keyMeta, clientv3.WithKeysOnly()))
	if errors.Is(err, ErrConflict) && len(resp.Responses[1].GetResponseRange().GetKvs()) == 0 {
		return fmt.Errorf("%w: %q was deleted", ErrNotFound, session.Name)
	}
	if err != nil {
		return err
	}
	for key, exists := range put {
		if exists {
			session.revisions[key] = revision
		} else {
			delete(session.revisions, key)
		}
	}
	return nil
}

// putState adds head, ranks and checkpoints to the transaction. It returns the keys, and whether they will exist.
func (s *Store) putState(tx *write, session *Session, w Writes) (map[string]bool, error) {
	dir := s.keys.session(session.Name)
	put := make(map[string]bool)
	set := func(key string, m proto.Message, exists bool) error {
		put[key] = exists
		tx.when = append(tx.when, unchanged(key, session.revisions[key]))
		if !exists {
			tx.then = append(tx.then, clientv3.OpDelete(key))
			return nil
		}
		value, err := proto.Marshal(m)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		tx.put(key, value)
		return nil
	}
	if w.Head != nil {
		if err := set(dir+keyHead, w.Head, true); err != nil {
			return nil, err
		}
	}
	for rank, m := range w.Ranks {
		if err := set(dir+rankKey(rank), m, m != nil); err != nil {
			return nil, err
		}
	}
	for name, m := range w.Checkpoints {
		if err := set(s.keys.checkpoint(session.Name, name), m, m != nil); err != nil {
			return nil, err
		}
	}
	return put, nil
}

// putBlock adds a block to the transaction: its first part, with which it exists. The others, of a large block,
// are written ahead.
func (s *Store) putBlock(
	ctx context.Context, lead *Leadership, tx *write, dir string, session *Session, b *pb.Block,
) error {
	id := BlockID{b.GetEpoch(), b.GetIndex()}
	parts, err := s.encodeBlock(b)
	if err != nil {
		return fmt.Errorf("store: %s: block %d of epoch %d: %w", tx.name, id.Index, id.Epoch, err)
	}
	isNew := absent(dir + partKey(id, 0))
	for i := 1; i < len(parts); i++ {
		ahead := write{name: tx.name, when: []clientv3.Cmp{unchanged(dir+keyMeta, session.fence), isNew}}
		ahead.put(dir+partKey(id, i), parts[i])
		if _, _, err := s.run(ctx, lead, ahead); err != nil {
			return err
		}
	}
	tx.when = append(tx.when, isNew)
	tx.put(dir+partKey(id, 0), parts[0])
	return nil
}
