package store

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// keysOf lists all keys but the leader's, without the prefix.
func keysOf(t *testing.T, s *Store) []string {
	t.Helper()
	resp, err := s.client.Get(t.Context(), s.cfg.Prefix, prefix)
	check(t, err)
	var out []string
	for _, kv := range resp.Kvs {
		if key := strings.TrimPrefix(string(kv.Key), s.cfg.Prefix); !strings.HasPrefix(key, "leader/") {
			out = append(out, key)
		}
	}
	return out
}

// closeNew opens a session, has it keep a checkpoint, and closes it.
func closeNew(t *testing.T, s *Store, l *Leadership, id string, unixMs int64) *pb.ClosedSession {
	t.Helper()
	session, err := s.Create(t.Context(), l, meta(id), files(1001))
	check(t, err)
	check(t, s.Commit(t.Context(), l, session, Writes{
		Head: head(3), Ranks: map[uint32]*pb.SessionRank{0: rank(1), 7: rank(2)}, Blocks: []*pb.Block{block(0, 0, 2)},
		Checkpoints: map[string]*pb.Checkpoint{"noon": {Name: "noon", Step: 12}},
	}))
	summary := &pb.ClosedSession{
		Meta: meta(id), Head: head(3), Progress: &pb.Progress{RowsDelivered: 5},
		ClosedUnixMs: unixMs,
	}
	check(t, s.CloseSession(t.Context(), l, session, summary))
	return summary
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestCloseSession holds what is left of a closed session: a summary, for nobody to load, and its checkpoints.
func TestCloseSession(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	want := closeNew(t, s, l, "run/1", 1000)
	const time = "09223372036854774807"
	same(t, "keys", keysOf(t, s), []string{"checkpoint/run%2F1/noon", "closed/run%2F1", "ended/" + time + "/run%2F1"})
	closed, err := s.Closed(ctx, "run%2F1")
	check(t, err)
	equal(t, "summaries", []*pb.ClosedSession{closed.ClosedSession}, []*pb.ClosedSession{want})
	if list, err := s.TakeOver(ctx, l); err != nil || len(list) != 0 {
		t.Errorf("a new leader loads %v, %v", list, err)
	}
	if _, err := s.Load(ctx, l, "run%2F1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is loaded: %v", err)
	}
	if _, err := s.Create(ctx, l, meta("run/1"), nil); !errors.Is(err, ErrExists) {
		t.Errorf("its id is taken anew: %v", err)
	}
	for _, name := range []Name{"other", "", "a/b"} {
		if _, err := s.Closed(ctx, name); !errors.Is(err, ErrNotFound) {
			t.Errorf("session %q: %v", name, err)
		}
	}
	check(t, s.DeleteCheckpoint(ctx, l, closed, "noon"))
	if left, err := s.Checkpoints(ctx, "run%2F1"); err != nil || len(left) != 0 {
		t.Errorf("checkpoints %v, %v", left, err)
	}
	check(t, s.Delete(ctx, l, "run%2F1"))
	same(t, "keys of a deleted session", keysOf(t, s), nil)
	if err := s.Delete(ctx, l, "run%2F1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
}

// TestSleep holds that a session that sleeps has all its keys, and is listed as one that is closed until it is loaded.
func TestSleep(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	create := func(id string) *Session {
		t.Helper()
		session, err := s.Create(ctx, l, meta(id), files(1001))
		check(t, err)
		check(t, s.Commit(ctx, l, session, Writes{
			Head: head(3), Ranks: map[uint32]*pb.SessionRank{0: rank(1)}, Blocks: []*pb.Block{block(0, 0, 2)},
			Checkpoints: map[string]*pb.Checkpoint{"noon": {Name: "noon", Step: 12}},
		}))
		return session
	}
	sleep := func(session *Session, unixMs int64) {
		t.Helper()
		check(t, s.Sleep(ctx, l, session, &pb.ClosedSession{
			Meta: meta(string(session.Name)), Head: head(1),
			ClosedUnixMs: unixMs,
		}))
	}
	session := create("run")
	awake := keysOf(t, s)
	sleep(session, 1000)
	if list, err := s.TakeOver(ctx, l); err != nil || len(list) != 0 {
		t.Errorf("a new leader loads %v, %v", list, err)
	}
	list, more, err := s.ListClosed(ctx, 5, func(Name) bool { return true })
	if err != nil || more || len(list) != 1 || !list[0].GetAsleep() || list[0].Name != "run" {
		t.Errorf("listed: %v, %v, %v", list, more, err)
	}
	if _, err := s.Create(ctx, l, meta("run"), nil); !errors.Is(err, ErrExists) {
		t.Errorf("its id is taken anew: %v", err)
	}
	loaded, err := s.Load(ctx, l, "run")
	check(t, err)
	if !proto.Equal(loaded.Head, head(3)) || len(loaded.Ranks) != 1 || len(loaded.Blocks) != 1 ||
		len(loaded.Checkpoints) != 1 {
		t.Errorf("loaded: %+v", loaded)
	}
	same(t, "keys of one that woke", keysOf(t, s), awake)
	if err := s.Sleep(ctx, l, session, &pb.ClosedSession{}); !errors.Is(err, ErrConflict) {
		t.Errorf("somebody who has not loaded it puts it to sleep: %v", err)
	}
	equal(t, "files", listing(t, s, loaded), files(1001))
	check(t, s.Commit(ctx, l, loaded, Writes{Head: head(4)}))

	sleep(loaded, 2000)
	check(t, s.Delete(ctx, l, "run"))
	same(t, "keys of one that was deleted", keysOf(t, s), nil)
	sleep(create("old"), 1000)
	sleep(create("new"), 3000)
	check(t, s.Sweep(ctx, l, time.UnixMilli(3000), func(Name) {}))
	if keys := keysOf(t, s); len(keys) == 0 ||
		slices.ContainsFunc(keys, func(k string) bool { return strings.Contains(k, "old") }) {
		t.Errorf("keys %q, want those of the newer one", keys)
	}
}

// TestReopen holds that a closed session is loaded again with its listing, its head and its checkpoints, whatever an
// earlier attempt left.
func TestReopen(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	closeNew(t, s, l, "run", 1000)
	closed, err := s.Closed(ctx, "run")
	check(t, err)
	pages, err := encodePages(files(3000))
	check(t, err)
	_, err = s.putPages(ctx, l, s.keys.session("run"), "test", pages)
	check(t, err)
	_, err = s.TakeOver(ctx, l) // by whoever leads next
	check(t, err)
	_, err = s.putPages(ctx, l, s.keys.session("run"), "test", pages)
	check(t, err)

	check(t, s.Reopen(ctx, l, closed, files(1001), head(4)))
	loaded, err := s.Load(ctx, l, "run")
	check(t, err)
	equal(t, "heads", []*pb.SessionHead{loaded.Head}, []*pb.SessionHead{head(4)})
	equal(t, "checkpoints", loaded.Checkpoints, []*pb.Checkpoint{{Name: "noon", Step: 12}})
	equal(t, "files", listing(t, s, loaded), files(1001))
	if _, err := s.Closed(ctx, "run"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is closed still: %v", err)
	}
	for what, err := range map[string]error{
		"reopened twice":          s.Reopen(ctx, l, closed, files(1), head(9)),
		"deletes from an old one": s.DeleteCheckpoint(ctx, l, closed, "noon"),
	} {
		if !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v, want ErrConflict", what, err)
		}
	}
	check(t, s.Commit(ctx, l, loaded, Writes{Head: head(5)}))
	check(t, s.Delete(ctx, l, "run"))
	same(t, "keys of a deleted session", keysOf(t, s), nil)
}

func TestListAndSweepClosed(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	const n = 2*maxOps + 10
	for i := range int64(n) {
		session, err := s.Create(ctx, l, meta(fmt.Sprintf("run-%d", i)), nil)
		check(t, err)
		check(t, s.CloseSession(ctx, l, session, &pb.ClosedSession{
			Meta:         meta(fmt.Sprintf("run-%d", i)),
			ClosedUnixMs: 1000 + i,
		}))
	}
	_, err := s.client.Put(ctx, s.keys.closed("run-7"), "damaged")
	check(t, err)
	_, err = s.client.Put(ctx, s.keys.ended()+"somebody/else's", "")
	check(t, err)
	list := func(limit int, wanted func(Name) bool) (ids []string, more bool) {
		t.Helper()
		closed, more, err := s.ListClosed(ctx, limit, wanted)
		check(t, err)
		for _, c := range closed {
			ids = append(ids, c.GetMeta().GetSession().GetId())
		}
		return ids, more
	}
	all := func(Name) bool { return true }
	if ids, more := list(n, all); len(ids) != n || more || ids[0] != fmt.Sprintf("run-%d", n-1) || ids[n-1] != "run-0" {
		t.Errorf("%d are listed, from %s to %s, and more: %v", len(ids), ids[0], ids[len(ids)-1], more)
	}
	ids, more := list(2, func(n Name) bool { return n < "run-3" && len(n) == len("run-3") })
	if same(t, "listed", ids, []string{"run-2", "run-1"}); !more {
		t.Error("it is not said that there are more")
	}

	old, err := s.Closed(ctx, "run-3")
	check(t, err)
	check(t, s.Reopen(ctx, l, old, nil, head(1)))
	loaded, err := s.Load(ctx, l, "run-3")
	check(t, err)
	again := proto.CloneOf(old.ClosedSession)
	again.ClosedUnixMs = 5000
	check(t, s.CloseSession(ctx, l, loaded, again))
	_, err = s.client.Put(ctx, s.keys.endedAt(1003, "run-3"), "") // as if it had been left
	check(t, err)

	var swept []string
	check(t, s.Sweep(ctx, l, time.UnixMilli(1000+n-1), func(name Name) { swept = append(swept, string(name)) }))
	ids, _ = list(n, all)
	same(t, "left", ids, []string{"run-3", fmt.Sprintf("run-%d", n-1)})
	if len(swept) != n-2 || slices.Contains(swept, "run-3") {
		t.Errorf("it is told of %d that were deleted: %q", len(swept), swept)
	}
	if keys := keysOf(t, s); len(keys) != 5 {
		t.Errorf("keys %q, want two of each session and one of somebody else", keys)
	}
}

// TestCheckpointsOfEarlierReleases holds that checkpoints that lie among the other keys of a session are found, and
// outlive those.
func TestCheckpointsOfEarlierReleases(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	_, err := s.Create(ctx, l, meta("run/1"), files(1))
	check(t, err)
	for _, name := range []string{"at noon", "last"} {
		raw, err := proto.Marshal(&pb.Checkpoint{Name: name, Step: 12})
		check(t, err)
		_, err = s.client.Put(ctx, s.keys.session("run%2F1")+dirCheckpoint+url.PathEscape(name), string(raw))
		check(t, err)
	}
	session, err := s.Load(ctx, l, "run%2F1")
	check(t, err)
	if found := session.Checkpoints; len(found) != 2 || found[0].GetName() != "at noon" ||
		found[1].GetName() != "last" || found[1].GetStep() != 12 {
		t.Errorf("checkpoints: %v", found)
	}
	check(t, s.Commit(ctx, l, session, Writes{Checkpoints: map[string]*pb.Checkpoint{"last": nil}}))
	check(t, s.CloseSession(ctx, l, session, &pb.ClosedSession{Meta: meta("run/1"), ClosedUnixMs: 1000}))
	const time = "09223372036854774807"
	same(t, "keys", keysOf(t, s), []string{"checkpoint/run%2F1/at%20noon", "closed/run%2F1", "ended/" + time +
		"/run%2F1"})
}
