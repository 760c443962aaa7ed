package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// maxSummaryBytes is what a summary has besides the meta, at most.
const maxSummaryBytes = 64 << 10

// endedScan is how many keys of closed sessions one request reads, or values.
const endedScan = 1024

// Closed is the summary of a session that is over, or sleeps, as it was read.
type Closed struct {
	Name Name
	*pb.ClosedSession
	revision int64 // at which it was put
}

// CloseSession puts a summary in place of all that a session has in etcd but for its checkpoints: no leader loads it
// any more. After ErrUnknown, Load tells whether it is closed: it does not find it then.
func (s *Store) CloseSession(ctx context.Context, lead *Leadership, session *Session, summary *pb.ClosedSession) error {
	return s.summarize(ctx, lead, session, summary, write{
		name: fmt.Sprintf("close session %q", session.Name),
		then: []clientv3.Op{clientv3.OpDelete(s.keys.session(session.Name), clientv3.WithPrefix())},
	})
}

// Sleep puts a summary beside what a session has in etcd: TakeOver leaves it out until a Load wakes it. So does the
// Load that ErrUnknown asks for.
func (s *Store) Sleep(ctx context.Context, lead *Leadership, session *Session, summary *pb.ClosedSession) error {
	summary.Asleep = true
	return s.summarize(ctx, lead, session, summary, write{name: fmt.Sprintf("put session %q to sleep", session.Name)})
}

// summarize adds a session's summary to a transaction, and commits it.
func (s *Store) summarize(
	ctx context.Context, lead *Leadership, session *Session, summary *pb.ClosedSession, w write,
) error {
	raw, err := proto.Marshal(summary)
	if err != nil {
		return fmt.Errorf("store: %s: %w", w.name, err)
	}
	w.when = []clientv3.Cmp{unchanged(s.keys.session(session.Name)+keyMeta, session.fence)}
	w.put(s.keys.closed(session.Name), s.encoder.EncodeAll(raw, nil))
	w.put(s.keys.endedAt(summary.GetClosedUnixMs(), session.Name), nil)
	_, _, err = s.run(ctx, lead, w)
	session.stale = errors.Is(err, ErrConflict) || errors.Is(err, ErrUnknown)
	return err
}

// Closed reads the summary of a session that is closed or sleeps, or returns ErrNotFound.
func (s *Store) Closed(ctx context.Context, name Name) (*Closed, error) {
	if err := name.check(); err != nil { // it would be another key
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	kv, err := s.get(ctx, s.keys.closed(name))
	switch {
	case err != nil:
		return nil, err
	case kv == nil:
		return nil, fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	return s.decodeClosed(name, kv)
}

// Checkpoints reads the checkpoints of a session, in no order.
func (s *Store) Checkpoints(ctx context.Context, name Name) ([]*pb.Checkpoint, error) {
	var out []*pb.Checkpoint
	dir := s.keys.checkpoints(name)
	err := s.scan(ctx, dir, dir, after(dir), 0, scanKeys, func(_ string, kv *mvccpb.KeyValue) error {
		out = append(out, &pb.Checkpoint{})
		return unmarshal(kv, out[len(out)-1])
	})
	return out, err
}

// ListClosed reads up to limit sessions that are closed or sleep, and are wanted, the newest first, and says whether
// there are more. Of one that is unreadable, there are only id and namespace.
func (s *Store) ListClosed(
	ctx context.Context, limit int, wanted func(Name) bool,
) (list []*Closed, more bool, err error) {
	var names []Name
	full := errors.New("enough")
	err = s.eachEnded(ctx, 0, func(name Name, _ int64) error {
		if !wanted(name) {
			return nil
		}
		if more = len(names) == limit; more {
			return full
		}
		names = append(names, name)
		return nil
	})
	if err != nil && !errors.Is(err, full) {
		return nil, false, err
	}
	for len(names) > 0 {
		n := min(len(names), maxOps)
		if list, err = s.appendClosed(ctx, list, names[:n]); err != nil {
			return nil, false, err
		}
		names = names[n:]
	}
	return list, more, nil
}

// appendClosed reads the summaries of sessions, but for those that are gone by now.
func (s *Store) appendClosed(ctx context.Context, list []*Closed, names []Name) ([]*Closed, error) {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = s.keys.closed(name)
	}
	found, err := s.getAll(ctx, "list closed sessions", keys)
	if err != nil {
		return nil, err
	}
	for i, kv := range found {
		if kv == nil {
			continue
		}
		c, err := s.decodeClosed(names[i], kv)
		if err != nil {
			c = &Closed{Name: names[i], ClosedSession: &pb.ClosedSession{Meta: &pb.SessionMeta{Session: &pb.Session{}}}}
			c.Meta.Session.Namespace, c.Meta.Session.Id = names[i].Split()
		}
		list = append(list, c)
	}
	return list, nil
}

// eachEnded calls f with the name of each session that was closed, or fell asleep, before a time, or with all if it is
// 0, the newest first, and when that was.
func (s *Store) eachEnded(ctx context.Context, beforeUnixMs int64, f func(name Name, unixMs int64) error) error {
	dir := s.keys.ended()
	from := dir
	if beforeUnixMs > 0 {
		from = s.keys.endedAt(beforeUnixMs-1, "")
	}
	return s.scan(ctx, dir, from, after(dir), 0, endedScan, func(key string, _ *mvccpb.KeyValue) error {
		digits, name, _ := strings.Cut(key, "/")
		inverse, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || Name(name).check() != nil {
			return nil //nolint:nilerr // of somebody else
		}
		return f(Name(name), math.MaxInt64-inverse)
	})
}

// Sweep deletes the sessions that were closed, or fell asleep, before a time, with their checkpoints, and tells of
// each.
func (s *Store) Sweep(ctx context.Context, lead *Leadership, before time.Time, deleted func(Name)) error {
	return s.eachEnded(ctx, before.UnixMilli(), func(name Name, unixMs int64) error {
		gone, err := s.sweepClosed(ctx, lead, name, unixMs)
		switch {
		case errors.Is(err, ErrConflict): // it has just been restored
			return nil
		case err == nil && gone:
			deleted(name)
		}
		return err
	})
}

// sweepClosed deletes a session that was closed, or fell asleep, at a time, or, if it was taken up or deleted since,
// what still says that it was.
func (s *Store) sweepClosed(ctx context.Context, lead *Leadership, name Name, unixMs int64) (gone bool, err error) {
	key := s.keys.closed(name)
	kv, err := s.get(ctx, key)
	if err != nil {
		return false, err
	}
	w := write{name: fmt.Sprintf("sweep session %q", name), when: []clientv3.Cmp{absent(key)}}
	if kv != nil {
		w.when = []clientv3.Cmp{unchanged(key, kv.ModRevision)}
		if c, err := s.decodeClosed(name, kv); err != nil || c.GetClosedUnixMs() == unixMs {
			w.then, gone = s.deletions(name), true
		}
	}
	w.then = append(w.then, clientv3.OpDelete(s.keys.endedAt(unixMs, name)))
	_, _, err = s.run(ctx, lead, w)
	return gone, err
}

// deletions delete all of a session but for the key among those of all that ended.
func (s *Store) deletions(name Name) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpDelete(s.keys.closed(name)), clientv3.OpDelete(s.keys.checkpoints(name), clientv3.WithPrefix()),
		clientv3.OpDelete(s.keys.session(name), clientv3.WithPrefix()),
	}
}

// DeleteCheckpoint deletes a checkpoint of a closed session. It fails with ErrConflict if that is closed no longer.
func (s *Store) DeleteCheckpoint(ctx context.Context, lead *Leadership, closed *Closed, checkpoint string) error {
	_, _, err := s.run(ctx, lead, write{
		name: fmt.Sprintf("delete checkpoint %q of session %q", checkpoint, closed.Name),
		when: []clientv3.Cmp{unchanged(s.keys.closed(closed.Name), closed.revision)},
		then: []clientv3.Op{clientv3.OpDelete(s.keys.checkpoint(closed.Name, checkpoint))},
	})
	return err
}

// Reopen makes a closed session one that is loaded again: with its listing, and the head that it begins with. It fails
// with ErrConflict if it is closed no longer; after ErrUnknown, Load tells.
func (s *Store) Reopen(
	ctx context.Context, lead *Leadership, closed *Closed, files []*pb.File, head *pb.SessionHead,
) error {
	name := fmt.Sprintf("reopen session %q", closed.Name)
	pages, err := encodePages(files)
	if err != nil {
		return fmt.Errorf("store: %s: %w", name, err)
	}
	meta := proto.CloneOf(closed.GetMeta())
	meta.ListingPages = uint32(len(pages))
	value, err := s.encodeMeta(meta)
	if err != nil {
		return fmt.Errorf("store: %s: %w", name, err)
	}
	if err := s.clear(ctx, lead, closed.Name, name); errors.Is(err, ErrExists) {
		return fmt.Errorf("%w: %s: %w", ErrConflict, name, err)
	} else if err != nil {
		return err
	}
	dir := s.keys.session(closed.Name)
	ours, err := s.putPages(ctx, lead, dir, name, pages)
	if err != nil {
		return err
	}
	w := write{name: name, when: []clientv3.Cmp{
		absent(dir + keyMeta), ours,
		unchanged(s.keys.closed(closed.Name), closed.revision),
	}}
	w.then = []clientv3.Op{
		clientv3.OpDelete(s.keys.closed(closed.Name)), clientv3.OpDelete(s.keys.endedAt(closed.GetClosedUnixMs(),
			closed.Name)),
	}
	w.put(dir+keyMeta, value)
	raw, err := proto.Marshal(head)
	if err != nil {
		return fmt.Errorf("store: %s: %w", name, err)
	}
	w.put(dir+keyHead, raw)
	_, _, err = s.run(ctx, lead, w)
	return err
}
