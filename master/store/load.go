package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// Session is a session as it was read, and the revisions by which Commit notices that somebody else changed it.
// Commit does not change the exported fields.
type Session struct {
	ID   string
	Meta *pb.SessionMeta
	// Files is the frozen listing.
	Files []*pb.File
	// Head is empty, not nil, before its first Commit.
	Head  *pb.SessionHead
	Ranks map[uint32]*pb.SessionRank
	// Blocks are ordered by epoch and index.
	Blocks []*pb.Block

	fence     int64            // revision at which meta was last put
	revisions map[string]int64 // at which head and ranks were last put, by key; absent: they do not exist
	stale     bool
}

// Load reads a session for its leader. It puts the meta again, unchanged, so that a write of this leadership
// whose outcome was unknown can no longer happen: what Load returns is how it went.
func (s *Store) Load(ctx context.Context, lead *Leadership, id string) (*Session, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("load session %q", id)
	meta := s.keys.session(id) + keyMeta
	revision, _, err := s.run(ctx, lead, write{
		name: name,
		when: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(meta), ">", 0)},
		then: []clientv3.Op{clientv3.OpPut(meta, "", clientv3.WithIgnoreValue())},
	})
	if errors.Is(err, ErrConflict) {
		return nil, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	if err != nil {
		return nil, err
	}
	r := reader{store: s, session: &Session{
		ID: id, Head: &pb.SessionHead{}, Ranks: map[uint32]*pb.SessionRank{},
		fence: revision, revisions: map[string]int64{},
	}}
	if err := s.scan(ctx, s.keys.session(id), revision, r.key); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := r.finish(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r.session, nil
}

// scanKeys is how many keys one request of a scan reads; a value has up to half a MiB.
const scanKeys = 32

// scan calls f with each key below dir as of a revision, the dir cut off.
func (s *Store) scan(ctx context.Context, dir string, revision int64, f func(key string, kv *mvccpb.KeyValue) error) error {
	end := after(dir)
	for from := dir; ; {
		call, cancel := s.call(ctx)
		resp, err := s.client.Get(call, from, clientv3.WithRange(end), clientv3.WithRev(revision), clientv3.WithLimit(scanKeys))
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
	pages   uint32
	block   BlockID         // whose parts are being read
	parts   []*pb.BlockPart // of block
}

func (r *reader) key(key string, kv *mvccpb.KeyValue) error {
	s := r.session
	dir, _, _ := strings.Cut(key, "/")
	switch dir + "/" {
	case dirFoot:
		return r.part(key, kv)
	case dirList:
		return r.page(key, kv)
	case dirRank:
		n, err := numbers(key, dirRank, 1)
		if err != nil {
			return err
		}
		s.Ranks[n[0]] = &pb.SessionRank{}
		s.revisions[key] = kv.ModRevision
		return unmarshal(kv, s.Ranks[n[0]])
	}
	switch key {
	case keyMeta:
		s.Meta = &pb.SessionMeta{}
		return unmarshal(kv, s.Meta)
	case keyHead:
		s.revisions[key] = kv.ModRevision
		return unmarshal(kv, s.Head)
	}
	return fmt.Errorf("%w: key %q", ErrCorrupt, kv.Key)
}

func (r *reader) page(key string, kv *mvccpb.KeyValue) error {
	n, err := numbers(key, dirList, 1)
	if err != nil {
		return err
	}
	if n[0] != r.pages {
		return fmt.Errorf("%w: listing page %d is missing", ErrCorrupt, r.pages)
	}
	r.pages++
	var page pb.ListingPage
	if err := unmarshal(kv, &page); err != nil {
		return err
	}
	r.session.Files = append(r.session.Files, page.GetFiles()...)
	return nil
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
	if s.Meta == nil || r.pages != s.Meta.GetListingPages() {
		return fmt.Errorf("%w: %d listing pages of %d", ErrCorrupt, r.pages, s.Meta.GetListingPages())
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
