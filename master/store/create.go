package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// Bounds of a listing page, and of the pages that one transaction writes.
const (
	maxPageFiles  = 1000
	maxPageBytes  = 1 << 19
	maxPagesBytes = 1 << 20
)

// Create writes a new session: the listing's pages first, the meta last, for a session exists when its meta
// does. It fails with ErrExists if there is one of meta's id. What an earlier, failed Create left is replaced.
// After ErrUnknown or ErrConflict, Load tells whether the session exists; if not, Create may be called again.
func (s *Store) Create(
	ctx context.Context, lead *Leadership, meta *pb.SessionMeta, files []*pb.File,
) (*Session, error) {
	id := NameOf(meta.GetSession().GetNamespace(), meta.GetSession().GetId())
	if err := id.check(); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("create session %q", id)
	pages, err := encodePages(files)
	if err != nil {
		return nil, fmt.Errorf("store: %s: %w", name, err)
	}
	meta = proto.CloneOf(meta)
	meta.ListingPages = uint32(len(pages))
	value, err := s.encodeMeta(meta)
	if err != nil {
		return nil, fmt.Errorf("store: %s: %w", name, err)
	}
	dir := s.keys.session(id)
	if len(dir+keyMeta)+len(value)+maxSummaryBytes > maxTxnBytes { // before there are pages for it
		return nil, fmt.Errorf("%w: %s: its spec and program have %d bytes", ErrTooLarge, name, len(value))
	}
	if err := s.clear(ctx, lead, id, name, absent(s.keys.closed(id))); err != nil {
		return nil, err
	}
	first, err := s.putPages(ctx, lead, dir, name, pages)
	if err != nil {
		return nil, err
	}
	revision, err := s.putMeta(ctx, lead, id, name, value, first)
	if err != nil {
		return nil, err
	}
	return &Session{
		Name: id, Meta: meta,
		Head: &pb.SessionHead{}, Ranks: map[uint32]*pb.SessionRank{},
		fence: revision, revisions: map[string]int64{},
	}, nil
}

// clear removes what lies under the id of a session that does not exist, or is closed, unless something more is wanted.
// It fails with ErrExists otherwise.
func (s *Store) clear(ctx context.Context, lead *Leadership, id Name, name string, more ...clientv3.Cmp) error {
	dir := s.keys.session(id)
	_, _, err := s.run(ctx, lead, write{
		name: name,
		when: append(more, absent(dir+keyMeta)),
		then: []clientv3.Op{clientv3.OpDelete(dir, clientv3.WithPrefix())},
	})
	if errors.Is(err, ErrConflict) {
		return fmt.Errorf("%w: %q", ErrExists, id)
	}
	return err
}

// putPages writes pages, as many a transaction as fit, and returns the comparison that they are still the ones
// that lie there: a page of an earlier attempt, which etcd was late to write, must not get among them.
func (s *Store) putPages(
	ctx context.Context, lead *Leadership, dir, name string, pages [][]byte,
) (clientv3.Cmp, error) {
	ours := absent(dir + pageKey(0))
	w := write{name: name}
	for i, page := range pages {
		w.put(dir+pageKey(i), page)
		full := i+1 == len(pages) || len(w.then) == maxOps || w.bytes+len(pages[i+1]) > maxPagesBytes
		if !full {
			continue
		}
		w.when = []clientv3.Cmp{absent(dir + keyMeta), ours}
		revision, _, err := s.run(ctx, lead, w)
		if err != nil {
			return ours, err
		}
		if len(w.then) == i+1 { // these were the first
			ours = unchanged(dir+pageKey(0), revision)
		}
		w = write{name: name}
	}
	return ours, nil
}

// putMeta makes the session exist, if its pages are still the ones that putPages wrote.
func (s *Store) putMeta(
	ctx context.Context, lead *Leadership, id Name, name string, meta []byte, ours clientv3.Cmp,
) (int64, error) {
	key := s.keys.session(id) + keyMeta
	w := write{name: name, when: []clientv3.Cmp{absent(key), ours, absent(s.keys.closed(id))}}
	w.put(key, meta)
	revision, _, err := s.run(ctx, lead, w)
	return revision, err
}

// encodePages cuts a listing into pages, at least one.
func encodePages(files []*pb.File) ([][]byte, error) {
	var pages [][]byte
	start, size := 0, 0
	flush := func(end int) error {
		page, err := proto.Marshal(&pb.ListingPage{Files: files[start:end]})
		if err != nil {
			return fmt.Errorf("listing: %w", err)
		}
		pages = append(pages, page)
		start, size = end, 0
		return nil
	}
	for i, f := range files {
		next := proto.Size(f) + 8 // its tag and length
		if i > start && (i-start == maxPageFiles || size+next > maxPageBytes) {
			if err := flush(i); err != nil {
				return nil, err
			}
		}
		size += next
	}
	if err := flush(len(files)); err != nil {
		return nil, err
	}
	return pages, nil
}

// TakeOver names the sessions that whoever begins to lead is to load, those that are neither closed nor asleep, in
// order, and removes what predecessors left of half-created ones. Load tells which are damaged.
func (s *Store) TakeOver(ctx context.Context, lead *Leadership) ([]Name, error) {
	var names []Name
	err := s.eachSession(ctx, func(id Name, exists, asleep bool) error {
		switch {
		case !exists:
			return s.clear(ctx, lead, id, fmt.Sprintf("remove half-created session %q", id))
		case !asleep:
			names = append(names, id)
		}
		return nil
	})
	return names, err
}

// sessionScan is how many keys of sessions one request reads, without their values: for each request etcd counts all
// that follow.
const sessionScan = 512

// eachSession calls f with each session that has keys, and says whether it exists, or was not created to the end, and
// whether it sleeps. It skips to the next one where a session has many keys.
func (s *Store) eachSession(ctx context.Context, f func(id Name, exists, asleep bool) error) error {
	end := after(s.keys.sessions())
	for from := s.keys.sessions(); ; {
		call, cancel := s.call(ctx)
		resp, err := s.client.Get(call, from, clientv3.WithRange(end), clientv3.WithLimit(sessionScan),
			clientv3.WithKeysOnly())
		cancel()
		if err != nil {
			return readError("list sessions", err)
		}
		var names []Name
		for _, kv := range resp.Kvs {
			id, ok := s.keys.sessionOf(string(kv.Key))
			if !ok { // nothing of this package's: it must not keep a master from leading
				from = string(kv.Key) + "\x00"
				continue
			}
			if len(names) == 0 || names[len(names)-1] != id {
				names = append(names, id)
			}
			from = after(s.keys.session(id))
		}
		for some := range slices.Chunk(names, maxOps/2) {
			if err := s.eachOf(ctx, some, f); err != nil {
				return err
			}
		}
		if !resp.More {
			return nil
		}
	}
}

// eachOf is eachSession for some sessions.
func (s *Store) eachOf(ctx context.Context, names []Name, f func(id Name, exists, asleep bool) error) error {
	var keys []string
	for _, id := range names {
		keys = append(keys, s.keys.session(id)+keyMeta, s.keys.closed(id))
	}
	found, err := s.getAll(ctx, "list sessions", keys, clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	for i, id := range names {
		if err := f(id, found[2*i] != nil, found[2*i+1] != nil); err != nil {
			return err
		}
	}
	return nil
}

// getAll reads keys, as many as an operation may have, at one revision; nil stands for one that does not exist.
func (s *Store) getAll(
	ctx context.Context, what string, keys []string, opts ...clientv3.OpOption,
) ([]*mvccpb.KeyValue, error) {
	ops := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		ops[i] = clientv3.OpGet(key, opts...)
	}
	call, cancel := s.call(ctx)
	defer cancel()
	resp, err := s.client.Txn(call).Then(ops...).Commit()
	if err != nil {
		return nil, readError(what, err)
	}
	out := make([]*mvccpb.KeyValue, len(keys))
	for i, r := range resp.Responses {
		if kvs := r.GetResponseRange().GetKvs(); len(kvs) > 0 {
			out[i] = kvs[0]
		}
	}
	return out, nil
}

// get reads a key; nil if there is none.
func (s *Store) get(ctx context.Context, key string) (*mvccpb.KeyValue, error) {
	call, cancel := s.call(ctx)
	defer cancel()
	resp, err := s.client.Get(call, key)
	switch {
	case err != nil:
		return nil, readError("read "+key, err)
	case len(resp.Kvs) == 0:
		return nil, nil
	}
	return resp.Kvs[0], nil
}

// Delete removes a session, closed, asleep or neither, and its checkpoints. It fails with ErrNotFound if there is none.
// What is removed is what lies there now: a Delete that etcd is late to do leaves a session alone that was created
// under the id, or loaded, meanwhile.
func (s *Store) Delete(ctx context.Context, lead *Leadership, id Name) error {
	if err := id.check(); err != nil {
		return err
	}
	for {
		meta, err := s.get(ctx, s.keys.session(id)+keyMeta)
		if err != nil {
			return err
		}
		closed, err := s.get(ctx, s.keys.closed(id))
		if err != nil {
			return err
		}
		if meta == nil && closed == nil {
			return fmt.Errorf("%w: %q", ErrNotFound, id)
		}
		w := write{name: fmt.Sprintf("delete session %q", id), then: s.deletions(id)}
		w.when = []clientv3.Cmp{
			unchanged(s.keys.session(id)+keyMeta, meta.GetModRevision()), unchanged(s.keys.closed(id),
				closed.GetModRevision()),
		}
		if closed != nil {
			if c, err := s.decodeClosed(id, closed); err == nil { // else Sweep finds the key
				w.then = append(w.then, clientv3.OpDelete(s.keys.endedAt(c.GetClosedUnixMs(), id)))
			}
		}
		if _, _, err = s.run(ctx, lead, w); !errors.Is(err, ErrConflict) { // which a Load in between leads to
			return err
		}
	}
}
