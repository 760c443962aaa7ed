package master

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

// TestListingsAreBounded holds that sessions over the same dataset share one listing, and that those of many datasets
// take no more memory than they may: what was dropped is read again.
func TestListingsAreBounded(t *testing.T) {
	const files = 10
	const limit = 3 * files * maxFileBytes
	l := newListings(limit)
	reads := map[string]int{}
	get := func(digest string, err error) {
		t.Helper()
		found, failed := l.get(t.Context(), digest, files, func(context.Context) ([]*pb.File, error) {
			reads[digest]++
			out := make([]*pb.File, files)
			for i := range out {
				out[i] = &pb.File{Uri: digest + strconv.Itoa(1e9+i), Etag: string(make([]byte, 64))}
			}
			return out, err
		})
		if !errors.Is(failed, err) || err == nil && len(found) != files {
			t.Errorf("%s: %d files, %v", digest, len(found), failed)
		}
	}
	away := errors.New("etcd is away")
	get("a", away)
	for range 2 {
		get("a", nil)
	}
	if reads["a"] != 2 {
		t.Errorf("one dataset was read %d times, once in vain", reads["a"])
	}
	for i := range 20 {
		get("b"+strconv.Itoa(i), nil)
		get("a", nil)
		if size := l.kept.Size(); size > limit {
			t.Fatalf("%d bytes of %d", size, limit)
		}
	}
	if get("b0", nil); reads["a"] != 2 || reads["b0"] != 2 {
		t.Errorf("what is used all the time was read %d times, what was used long ago %d times",
			reads["a"], reads["b0"])
	}
	huge := newListings(1)
	for range 2 {
		_, err := huge.get(t.Context(), "huge", 1e6,
			func(context.Context) ([]*pb.File, error) { reads["huge"]++; return make([]*pb.File, 1), nil })
		if err != nil || reads["huge"] != 1 {
			t.Errorf("a listing that is larger than all was read %d times: %v", reads["huge"], err)
		}
	}
}

// TestSessionsThatAreOverKeepNoPlan holds that a session keeps neither a listing nor how it is cut once it is over, and
// makes both again.
func TestSessionsThatAreOverKeepNoPlan(t *testing.T) {
	files := []*pb.File{{Uri: "file:///a", Size: 1}, {Uri: "file:///b", Size: 1}}
	program, err := proto.Marshal(&pb.Program{})
	if err != nil {
		t.Fatal(err)
	}
	meta := &pb.SessionMeta{PlannerVersion: plan.Version, Session: &pb.Session{
		Id: "run", Program: program,
		DatasetDigest: []byte("d"), Files: 2, WorldSize: 1,
	}}
	m := &Master{listings: newListings(1)}
	p, err := newBlockPlanner(m, &store.Session{Meta: meta}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	state, err := session.New(identityOf(meta))
	if err != nil {
		t.Fatal(err)
	}
	key, err := listingKey(meta.GetSession())
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{planner: p, state: state}
	cuts := func() int {
		t.Helper()
		if _, err := m.listings.get(t.Context(), key, 2, func(context.Context) ([]*pb.File, error) {
			return files,
				nil
		}); err != nil {
			t.Fatal(err)
		}
		listed, cut, err := p.blocks(t.Context(), 0)
		if err != nil || len(listed) != 2 || len(cut) == 0 {
			t.Errorf("%v, %v, %v", listed, cut, err)
		}
		r.publish()
		return len(p.epoch)
	}
	if n := cuts(); n != 1 {
		t.Errorf("%d epochs are cut while the session runs", n)
	}
	if _, _, err := state.Apply(session.Fail{Reason: "a test's"}); err != nil {
		t.Fatal(err)
	}
	if n := cuts(); n != 0 || !r.over.Load() {
		t.Errorf("%d epochs stay cut of a session that is over", n)
	}
}

// TestListingsAreOfOneReading: sessions share a listing only if they read the same files in the same way.
func TestListingsAreOfOneReading(t *testing.T) {
	key := func(digest, uri, format string) string {
		t.Helper()
		d := &pb.Dataset{Uri: []string{uri}, Partitions: "a < 'b'"}
		if format != "" {
			d.Format = &pb.Format{Name: format, Options: map[string]*pb.Value{"x": {}, "y": {}, "z": {}}}
		}
		key, err := listingKey(&pb.Session{Spec: &pb.Spec{Dataset: d}, DatasetDigest: []byte(digest)})
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	all := map[string]bool{}
	for range 8 {
		all[key("d", "ds/", "")] = true
		all[key("d", "ds/env=7/", "")] = true
		all[key("d", "ds/", "csv")] = true
		all[key("e", "ds/", "")] = true
	}
	if len(all) != 4 {
		t.Errorf("%d listings, want 4", len(all))
	}
}
