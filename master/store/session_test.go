package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

var (
	prefix    = clientv3.WithPrefix()
	countOnly = clientv3.WithCountOnly()
)

func atRevision(r int64) clientv3.OpOption { return clientv3.WithRev(r) }

func meta(id string) *pb.SessionMeta {
	return &pb.SessionMeta{
		Session:        &pb.Session{Id: id, WorldSize: 4, Program: []byte("p"), DatasetDigest: []byte("d")},
		PlannerVersion: 1,
		Planner:        &pb.PlannerConfig{BlockBytes: 1},
	}
}

func files(n int) []*pb.File {
	out := make([]*pb.File, n)
	for i := range out {
		out[i] = &pb.File{
			Uri: fmt.Sprintf("s3://bucket/dataset/part-%08d.parquet", i), Size: int64(i),
			Etag: fmt.Sprintf("%032x", i), Index: uint32(i),
		}
	}
	return out
}

// block has shards of files with random, incompressible ETags.
func block(epoch, index uint32, shards int) *pb.Block {
	rng := rand.New(rand.NewPCG(uint64(epoch), uint64(index)))
	b := &pb.Block{Epoch: epoch, Index: index}
	for i := range shards {
		b.Shards = append(b.Shards, &pb.Shard{
			File: &pb.File{
				Uri: fmt.Sprintf("s3://bucket/%08d.parquet", i), Size: rng.Int64(),
				Etag: fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64()),
			},
			Extents: []*pb.Extent{
				{Index: 0, Rows: 65536, WindowRows: 4096},
				{Index: 1, FirstRow: 65536, Rows: rng.Int64N(65536), WindowRows: 4096},
			},
		})
	}
	return b
}

func head(generation uint64) *pb.SessionHead { return &pb.SessionHead{Generation: generation} }

func rank(incarnation uint64) *pb.SessionRank { return &pb.SessionRank{Incarnation: incarnation} }

func equal[M proto.Message](t *testing.T, what string, got, want []M) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d %s, want %d", len(got), what, len(want))
		return
	}
	for i := range got {
		if !proto.Equal(got[i], want[i]) {
			t.Errorf("%s %d is %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}

func listing(t *testing.T, s *Store, session *Session) []*pb.File {
	t.Helper()
	files, err := s.Listing(t.Context(), session)
	check(t, err)
	return files
}

func TestCreateAndLoad(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	for _, n := range []int{0, 1, 1000, 1001, 25_000} {
		id := fmt.Sprintf("run/%d ü", n)
		created, err := s.Create(ctx, l, meta(id), files(n))
		check(t, err)
		loaded, err := s.Load(ctx, l, NameOf("", id))
		check(t, err)
		equal(t, "files", listing(t, s, loaded), files(n))
		want := meta(id)
		want.ListingPages = uint32(max(1, (n+999)/1000))
		equal(t, "metas", []*pb.SessionMeta{created.Meta, loaded.Meta}, []*pb.SessionMeta{want, want})
		if loaded.Name != NameOf("", id) || !proto.Equal(loaded.Head, &pb.SessionHead{}) ||
			len(loaded.Ranks)+len(loaded.Blocks) > 0 {
			t.Errorf("a new session is %+v", loaded)
		}
		if _, err := s.Create(ctx, l, meta(id), nil); !errors.Is(err, ErrExists) {
			t.Errorf("created twice: %v", err)
		}
	}
	list, err := s.TakeOver(ctx, l)
	check(t, err)
	if len(list) != 5 {
		t.Errorf("%d sessions, want 5", len(list))
	}
}

func TestIDs(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	for _, id := range []string{"", strings.Repeat("x", maxID+1)} {
		if _, err := s.Create(t.Context(), l, meta(id), nil); err == nil {
			t.Errorf("id %q is taken", id)
		}
	}
	same := meta("a")
	for _, namespace := range []string{"vision", "speech"} {
		same.Session.Namespace = namespace
		_, err := s.Create(t.Context(), l, same, files(1))
		check(t, err)
	}
	check(t, s.Delete(t.Context(), l, NameOf("vision", "a")))
	if left, err := s.TakeOver(t.Context(), l); err != nil || !slices.Equal(left, []Name{"speech,a"}) {
		t.Errorf("of two namespaces' sessions is left: %v, %v", left, err)
	}
	check(t, s.Delete(t.Context(), l, NameOf("speech", "a")))
	// None is a part of another, whatever it contains.
	ids := []string{"a", "vision,a", "a/meta", "a/list/00000000", "a%2Fmeta", "a b", "../a", strings.Repeat("/", maxID)}
	for _, id := range ids {
		_, err := s.Create(t.Context(), l, meta(id), files(1))
		check(t, err)
	}
	for i, id := range ids {
		check(t, s.Delete(t.Context(), l, NameOf("", id)))
		if list, err := s.TakeOver(t.Context(), l); err != nil || len(list) != len(ids)-i-1 {
			t.Errorf("after %q was deleted %d are left, %v", id, len(list), err)
		}
	}
}

func TestCommitAndLoad(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	session, err := s.Create(ctx, l, meta("run"), files(2))
	check(t, err)
	check(t, s.Commit(ctx, l, session, Writes{}))
	check(t, s.Commit(ctx, l, session, Writes{
		Head:   head(1),
		Ranks:  map[uint32]*pb.SessionRank{0: rank(1), 10: rank(2), 2: rank(3)},
		Blocks: []*pb.Block{block(0, 1, 3), block(0, 0, 0), block(1, 0, 2)},
	}))
	check(t, s.Commit(ctx, l, session,
		Writes{Head: head(2), Ranks: map[uint32]*pb.SessionRank{2: rank(4), 10: nil, 11: nil}}))
	loaded, err := s.Load(ctx, l, "run")
	check(t, err)
	equal(t, "heads", []*pb.SessionHead{loaded.Head}, []*pb.SessionHead{head(2)})
	equal(t, "ranks", []*pb.SessionRank{loaded.Ranks[0], loaded.Ranks[2]}, []*pb.SessionRank{rank(1), rank(4)})
	equal(t, "blocks", loaded.Blocks, []*pb.Block{block(0, 0, 0), block(0, 1, 3), block(1, 0, 2)})
	if len(loaded.Ranks) != 2 {
		t.Errorf("ranks %v, want 0 and 2", loaded.Ranks)
	}
	// A loaded session goes on where it was.
	check(t, s.Commit(ctx, l, loaded, Writes{
		Head: head(3), Ranks: map[uint32]*pb.SessionRank{0: rank(9), 10: rank(1)},
		Drop: []BlockID{{0, 0}, {0, 1}, {7, 7}},
	}))
	check(t, s.Commit(ctx, l, loaded, Writes{Blocks: []*pb.Block{block(0, 1, 1)}})) // dropped, then planned anew
	loaded, err = s.Load(ctx, l, "run")
	check(t, err)
	equal(t, "blocks", loaded.Blocks, []*pb.Block{block(0, 1, 1), block(1, 0, 2)})
}

func TestMostWrites(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	session, err := s.Create(t.Context(), l, meta("run"), nil)
	check(t, err)
	w := Writes{Head: head(1), Ranks: map[uint32]*pb.SessionRank{}, Drop: make([]BlockID, 1)}
	for i := range uint32(MaxWrites - 2) {
		w.Ranks[i] = rank(1)
	}
	check(t, s.Commit(t.Context(), l, session, w))
	loaded, err := s.Load(t.Context(), l, "run")
	check(t, err)
	if len(loaded.Ranks) != MaxWrites-2 {
		t.Errorf("%d ranks", len(loaded.Ranks))
	}
}

func TestLargeBlocks(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	session, err := s.Create(ctx, l, meta("run"), nil)
	check(t, err)
	want := []*pb.Block{block(0, 0, 10_000), block(0, 1, 40_000)} // of 20,000 and 80,000 row groups
	for _, b := range want {
		check(t, s.Commit(ctx, l, session, Writes{Head: head(1), Blocks: []*pb.Block{b}}))
	}
	resp, err := s.client.Get(ctx, s.keys.session("run")+dirFoot, prefix, countOnly)
	check(t, err)
	if resp.Count < 4 {
		t.Errorf("only %d parts: the test does not split a block", resp.Count)
	}
	loaded, err := s.Load(ctx, l, "run")
	check(t, err)
	equal(t, "blocks", loaded.Blocks, want)
	check(t, s.Commit(ctx, l, loaded, Writes{Drop: []BlockID{{0, 0}, {0, 1}}}))
	resp, err = s.client.Get(ctx, s.keys.session("run")+dirFoot, prefix, countOnly)
	check(t, err)
	if resp.Count != 0 {
		t.Errorf("%d parts are left", resp.Count)
	}
}

// Parts written ahead of a Commit that failed are no block, and do not hinder the next.
func TestPartsWithoutABlock(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	session, err := s.Create(ctx, l, meta("run"), nil)
	check(t, err)
	check(t, s.Commit(ctx, l, session, Writes{Blocks: []*pb.Block{block(0, 0, 1)}}))
	big := block(0, 1, 40_000)
	session.revisions[s.keys.session("run")+keyHead] = 1 // so that the last step fails
	if err := s.Commit(ctx, l, session, Writes{Head: head(1), Blocks: []*pb.Block{big}}); !errors.Is(err, ErrConflict) {
		t.Fatalf("%v, want ErrConflict", err)
	}
	session, err = s.Load(ctx, l, "run")
	check(t, err)
	equal(t, "blocks", session.Blocks, []*pb.Block{block(0, 0, 1)})
	check(t, s.Commit(ctx, l, session, Writes{Blocks: []*pb.Block{block(0, 1, 2)}}))
	session, err = s.Load(ctx, l, "run")
	check(t, err)
	equal(t, "blocks", session.Blocks, []*pb.Block{block(0, 0, 1), block(0, 1, 2)})
}

func TestHalfCreatedSessionsAreRemoved(t *testing.T) {
	e := etcd(t)
	s := open(t, e)
	ctx := t.Context()
	l, err := s.Campaign(ctx, "a")
	check(t, err)
	_, err = s.Create(ctx, l, meta("whole"), files(3))
	check(t, err)
	pages, err := encodePages(files(2500))
	check(t, err)
	for _, id := range []string{"half", "retried", "zzz"} {
		_, err = s.putPages(ctx, l, s.keys.session(NameOf("", id)), "test", pages)
		check(t, err)
	}
	if _, err := s.Load(ctx, l, "half"); !errors.Is(err, ErrNotFound) {
		t.Errorf("half a session is loaded: %v", err)
	}
	_, err = s.Create(ctx, l, meta("retried"), files(1)) // has fewer pages than what is left there
	check(t, err)
	check(t, l.Resign(ctx))
	l = lead(t, s)
	if list, err := s.TakeOver(ctx, l); err != nil || !slices.Equal(list, []Name{"retried", "whole"}) {
		t.Errorf("%v, %v; want those that were created to the end", list, err)
	}
	for id, want := range map[string]int64{"whole": 2, "retried": 2, "half": 0, "zzz": 0} {
		resp, err := s.client.Get(ctx, s.keys.session(NameOf("", id)), prefix, countOnly)
		check(t, err)
		if resp.Count != want {
			t.Errorf("%s has %d keys, want %d", id, resp.Count, want)
		}
	}
	loaded, err := s.Load(ctx, l, "retried")
	check(t, err)
	equal(t, "files", listing(t, s, loaded), files(1))
}

// A transaction of an earlier attempt that etcd was late to write does not get into a later one.
func TestLatePagesOfAnEarlierCreate(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	dir := s.keys.session("run")
	page, err := encodePages(files(1))
	check(t, err)
	early, err := s.putPages(ctx, l, dir, "test", page)
	check(t, err)
	check(t, s.clear(ctx, l, "run", "test"))
	_, err = s.putPages(ctx, l, dir, "test", page)
	check(t, err)
	if _, err := s.putMeta(ctx, l, "run", "test", nil, early); !errors.Is(err, ErrConflict) {
		t.Errorf("the meta of the first attempt: %v, want ErrConflict", err)
	}
	if _, err := s.putPages(ctx, l, dir, "test", page); !errors.Is(err, ErrConflict) {
		t.Errorf("the pages of the first attempt: %v, want ErrConflict", err)
	}
}

// Keys that are no session's stay, and keep nobody from leading, nor from the sessions after them.
func TestKeysOfNoSession(t *testing.T) {
	s := open(t, etcd(t))
	first := lead(t, s)
	ctx := t.Context()
	_, err := s.Create(ctx, first, meta("run"), files(1))
	check(t, err)
	stray := []string{s.keys.sessions(), s.keys.sessions() + "no slash", s.keys.sessions() + "%/x"}
	for _, key := range stray {
		_, err := s.client.Put(ctx, key, "?")
		check(t, err)
	}
	check(t, first.Resign(ctx))
	list, err := s.TakeOver(ctx, lead(t, s))
	if err != nil || !slices.Equal(list, []Name{"run"}) {
		t.Errorf("%v, %v; want the one session", list, err)
	}
	for _, key := range stray {
		if got, err := s.client.Get(ctx, key); err != nil || len(got.Kvs) != 1 {
			t.Errorf("%q is gone: %v", key, err)
		}
	}
}

func TestCorruptState(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	damage := map[string]clientv3.Op{
		"":                                     clientv3.OpPut("x", ""),
		"a key of another version":             clientv3.OpPut("new/1", ""),
		"no number":                            clientv3.OpPut(dirRank+"x", ""),
		"no message":                           clientv3.OpPut(keyHead, "\xff"),
		"a missing page":                       clientv3.OpDelete(pageKey(0)),
		"a missing last page":                  clientv3.OpDelete(pageKey(1)),
		"a missing part":                       clientv3.OpDelete(partKey(BlockID{0, 0}, 1)),
		"a part that is no piece of the block": clientv3.OpPut(partKey(BlockID{0, 0}, 1), ""),
	}
	for name, op := range damage {
		id := "run " + name
		session, err := s.Create(ctx, l, meta(id), files(1001))
		check(t, err)
		check(t, s.Commit(ctx, l, session, Writes{Blocks: []*pb.Block{block(0, 0, 40_000)}}))
		key := s.keys.session(NameOf("", id)) + string(op.KeyBytes())
		if op.IsDelete() {
			_, err = s.client.Delete(ctx, key)
		} else if name != "" {
			_, err = s.client.Put(ctx, key, string(op.ValueBytes()))
		}
		check(t, err)
		if _, err := s.Load(ctx, l, NameOf("", id)); errors.Is(err, ErrCorrupt) != (name != "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
