package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// Session is a session as it was read, and the revisions by which Commit notices that somebody else changed it.
// Commit does not change the exported fields.
type Session struct {
	Name Name
	Meta *pb.SessionMeta
	// Head is empty, not nil, before its first Commit.
	Head  *pb.SessionHead
	Ranks map[uint32]*pb.SessionRank
	// Checkpoints are in no order.
	Checkpoints []*pb.Checkpoint
	// Blocks are ordered by epoch and index.
	Blocks []*pb.Block

	fence     int64            // revision at which meta was last put
	revisions map[string]int64 // at which head, ranks and checkpoints were last put, by key; absent: they do not exist
	stale     bool
}

// loadTries is how often a Load begins again because the revision that it reads was compacted meanwhile.
const loadTries = 3

// Load reads a session for its leader, but for its listing, which may be large: see Listing. It puts the meta again,
// unchanged, so that a write of this leadership whose outcome was unknown can no longer happen: what Load returns is
// how it went. A session that sleeps is awake from then on.
func (s *Store) Load(ctx context.Context, lead *Leadership, id Name) (*Session, error) {
	if err := id.check(); err != nil { // a key of somebody else
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	name := fmt.Sprintf("load session %q", id)
	for try := 1; ; try++ {
		session, err := s.load(ctx, lead, id, name)
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return session, err
		}
		if try == loadTries {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

func (s *Store) load(ctx context.Context, lead *Leadership, id Name, name string) (*Session, error) {
	meta := s.keys.session(id) + keyMeta
	revision, resp, err := s.run(ctx, lead, write{
		name: name,
		when: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(meta), ">", 0)},
		then: []clientv3.Op{
			clientv3.OpPut(meta, "", clientv3.WithIgnoreValue()), clientv3.OpDelete(s.keys.closed(id),
				clientv3.WithPrevKV()),
		},
	})
	if errors.Is(err, ErrConflict) {
		return nil, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	if err != nil {
		return nil, err
	}
	if err := s.forgetSleep(ctx, lead, id, resp.Responses[1].GetResponseDeleteRange().GetPrevKvs()); err != nil {
		return nil, err
	}
	r := reader{store: s, session: &Session{
		Name: id, Head: &pb.SessionHead{}, Ranks: map[uint32]*pb.SessionRank{},
		fence: revision, revisions: map[string]int64{},
	}}
	// The listing's pages, of which there may be very many, lie between the two.
	dir := s.keys.session(id)
	err = s.scan(ctx, dir, dir, dir+dirList, revision, scanKeys, r.key)
	if err == nil {
		err = s.scan(ctx, dir, after(dir+dirList), after(dir), revision, scanKeys, r.key)
	}
	if err == nil && len(r.earlier) > 0 {
		if err := s.moveCheckpoints(ctx, lead, r); err != nil {
			return nil, err
		}
		return s.load(ctx, lead, id, name)
	}
	if dir := s.keys.checkpoints(id); err == nil {
		err = s.scan(ctx, dir, dir, after(dir), revision, scanKeys, r.checkpoint)
	}
	if err == nil {
		err = r.finish()
	}
	if err == nil {
		err = s.countPages(ctx, dir, r.session.Meta.GetListingPages())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r.session, nil
}

// forgetSleep deletes what still says of a session that it sleeps, if it had a summary. Sweep finds what this leaves.
func (s *Store) forgetSleep(ctx context.Context, lead *Leadership, id Name, summaries []*mvccpb.KeyValue) error {
	w := write{name: fmt.Sprintf("wake session %q", id)}
	for _, kv := range summaries {
		if c, err := s.decodeClosed(id, kv); err == nil {
			w.then = append(w.then, clientv3.OpDelete(s.keys.endedAt(c.GetClosedUnixMs(), id)))
		}
	}
	if len(w.then) == 0 {
		return nil
	}
	_, _, err := s.run(ctx, lead, w)
	return err
}

// moveCheckpoints moves the checkpoints that an earlier release kept among the session's other keys to where they
// outlive those.
func (s *Store) moveCheckpoints(ctx context.Context, lead *Leadership, r reader) error {
	id := r.session.Name
	dir := s.keys.session(id)
	for _, kv := range r.earlier {
		w := write{
			name: fmt.Sprintf("move the checkpoints of session %q", id),
			when: []clientv3.Cmp{unchanged(dir+keyMeta, r.session.fence)},
			then: []clientv3.Op{clientv3.OpDelete(string(kv.Key))},
		}
		w.put(s.keys.checkpoints(id)+strings.TrimPrefix(string(kv.Key), dir+dirCheckpoint), kv.Value)
		if _, _, err := s.run(ctx, lead, w); err != nil {
			return err
		}
	}
	return nil
}

// countPages holds that no page of the listing is missing, without reading them.
func (s *Store) countPages(ctx context.Context, dir string, want uint32) error {
	call, cancel := s.call(ctx)
	defer cancel()
	resp, err := s.client.Get(call, dir+dirList, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return readError("count listing pages", err)
	}
	if resp.Count != int64(want) {
		return fmt.Errorf("%w: %d listing pages of %d", ErrCorrupt, resp.Count, want)
	}
	return nil
}

// Listing reads a session's frozen listing, which never changes.
func (s *Store) Listing(ctx context.Context, session *Session) ([]*pb.File, error) {
	var files []*pb.File
	pages := uint32(0)
	dir := s.keys.session(session.Name)
	err := s.scan(ctx, dir, dir+dirList, after(dir+dirList), 0, scanKeys, func(key string, kv *mvccpb.KeyValue) error {
		n, err := numbers(key, dirList, 1)
		if err != nil {
			return err
		}
		if n[0] != pages {
			return fmt.Errorf("%w: listing page %d is missing", ErrCorrupt, pages)
		}
		pages++
		var page pb.ListingPage
		if err := unmarshal(kv, &page); err != nil {
			return err
		}
		files = append(files, page.GetFiles()...)
		return nil
	})
	if want := session.Meta.GetListingPages(); err == nil && pages != want {
		err = fmt.Errorf("%w: %d listing pages of %d", ErrCorrupt, pages, want)
	}
	if err != nil {
		return nil, fmt.Errorf("listing of session %q: %w", session.Name, err)
	}
	return files, nil
}

// scanKeys is how many keys of a session one request of a scan reads; a value has up to half a MiB.
const scanKeys = 32

// scan calls f with each key from one on and before another, the dir cut off, as of a revision, or as they are if it is
// 0. One request reads up to limit keys.
func (s *Store) scan(
	ctx context.Context, dir, from, end string, revision int64, limit int64, f func(key string,
		kv *mvccpb.KeyValue) error,
) error {
	for {
		call, cancel := s.call(ctx)
		resp, err := s.client.Get(call, from, clientv3.WithRange(end), clientv3.WithRev(revision),
			clientv3.WithLimit(limit))
		cancel()
		if err != nil {
			return readError("read "+from, err)
		}
		for _, kv := range resp.Kvs {
			if err := f(strings.TrimPrefix(string(kv.Key), dir), kv); err != nil {
				return err
			}
		}
		if !resp.More {
			return nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// reader builds a session from its keys, which come in order.
type reader struct {
	store   *Store
	session *Session
	block   BlockID            // whose parts are being read
	parts   []*pb.BlockPart    // of block
	earlier []*mvccpb.KeyValue // checkpoints that lie where an earlier release puts them
}

func (r *reader) key(key string, kv *mvccpb.KeyValue) error {
	s := r.session
	dir, _, _ := strings.Cut(key, "/")
	switch dir + "/" {
	case dirFoot:
		return r.part(key, kv)
	case dirCheckpoint:
		r.earlier = append(r.earlier, kv)
		return nil
	case dirRank:
		n, err := numbers(key, dirRank, 1)
		if err != nil {
			return err
		}
		s.Ranks[n[0]] = &pb.SessionRank{}
		s.revisions[string(kv.Key)] = kv.ModRevision
		return unmarshal(kv, s.Ranks[n[0]])
	}
	switch key {
	case keyMeta:
		var err error
		s.Meta, err = r.store.decodeMeta(kv)
		return err
	case keyHead:
		s.revisions[string(kv.Key)] = kv.ModRevision
		return unmarshal(kv, s.Head)
	}
	return fmt.Errorf("%w: key %q", ErrCorrupt, kv.Key)
}

func (r *reader) checkpoint(_ string, kv *mvccpb.KeyValue) error {
	c := &pb.Checkpoint{}
	r.session.Checkpoints = append(r.session.Checkpoints, c)
	r.session.revisions[string(kv.Key)] = kv.ModRevision
	return unmarshal(kv, c)
}

// part takes a part of a block. Parts whose first is missing were written ahead of a Commit that failed.
func (r *reader) part(key string, kv *mvccpb.KeyValue) error {
	n, err := numbers(key, dirFoot, 3)
	if err != nil {
		return err
	}
	id, part := BlockID{n[0], n[1]}, n[2]
	if part != 0 && (id != r.block || len(r.parts) == 0) {
		return nil
	}
	if part == 0 {
		if err := r.endBlock(); err != nil {
			return err
		}
		r.block = id
	}
	p := &pb.BlockPart{}
	if err := unmarshal(kv, p); err != nil {
		return err
	}
	r.parts = append(r.parts, p)
	return nil
}

// endBlock puts together the block whose parts were read.
func (r *reader) endBlock() error {
	if len(r.parts) == 0 {
		return nil
	}
	b, err := r.store.decodeBlock(r.parts)
	r.parts = nil
	if err != nil {
		return fmt.Errorf("%w: block %d of epoch %d: %w", ErrCorrupt, r.block.Index, r.block.Epoch, err)
	}
	r.session.Blocks = append(r.session.Blocks, b)
	return nil
}

func (r *reader) finish() error {
	if err := r.endBlock(); err != nil {
		return err
	}
	s := r.session
	if s.Meta == nil {
		return fmt.Errorf("%w: no meta", ErrCorrupt)
	}
	slices.SortFunc(s.Blocks, func(a, b *pb.Block) int {
		return cmp.Or(cmp.Compare(a.GetEpoch(), b.GetEpoch()), cmp.Compare(a.GetIndex(), b.GetIndex()))
	})
	return nil
}

func unmarshal(kv *mvccpb.KeyValue, m proto.Message) error {
	if err := proto.Unmarshal(kv.Value, m); err != nil {
		return fmt.Errorf("%w: key %q: %w", ErrCorrupt, kv.Key, err)
	}
	return nil
}
