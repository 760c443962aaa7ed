package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/store/storetest"
)

// proxied opens a store behind a proxy, in front of an etcd of the test's own.
func proxied(t *testing.T) (*Store, *storetest.Proxy) {
	t.Helper()
	e, err := Embedded(t.Context(), t.TempDir(), "127.0.0.1:0", quiet())
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	p, err := storetest.NewProxy(t.Context(), e.Endpoints()[0])
	check(t, err)
	t.Cleanup(func() { check(t, p.Close()) })
	cfg := patient(e)
	cfg.Endpoints = []string{p.Endpoint}
	s, err := Open(t.Context(), cfg)
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return s, p
}

// Whatever becomes of a transaction whose answer was lost, the next Load tells it, and nothing changes behind the
// Load's back.
func TestAnAmbiguousTransaction(t *testing.T) {
	s, proxy := proxied(t)
	l := lead(t, s)
	ctx := t.Context()
	session, err := s.Create(ctx, l, meta("run"), files(1))
	check(t, err)
	check(t, s.Commit(ctx, l, session, Writes{Head: head(1)}))
	var late func() error
	tests := []struct {
		name    string
		fault   storetest.Fault
		full    bool
		written bool
	}{
		{
			"the answer is lost", func(forward func() error) error { return errors.Join(storetest.ErrLost, forward()) },
			false, true,
		},
		{"the request is lost", func(func() error) error { return storetest.ErrLost }, false, false},
		{
			"the request is late", func(forward func() error) error { late = forward; return storetest.ErrLost }, false,
			false,
		},
		// As etcd answers the write that filled its database.
		{"it was the last that fitted", func(forward func() error) error {
			if err := forward(); err != nil {
				return err
			}
			return rpctypes.ErrGRPCNoSpace
		}, true, true},
	}
	for i, test := range tests {
		before, after := head(uint64(10*i)), head(uint64(10*i+1))
		check(t, s.Commit(ctx, l, session, Writes{Head: before}))
		proxy.OnTxn(test.fault)
		err := s.Commit(ctx, l, session, Writes{Head: after})
		proxy.OnTxn(nil)
		if !errors.Is(err, ErrUnknown) || errors.Is(err, ErrFull) != test.full {
			t.Errorf("%s: %v", test.name, err)
		}
		if err := s.Commit(ctx, l, session, Writes{Head: after}); !errors.Is(err, ErrStale) {
			t.Errorf("%s: without a look at what was written, the next commit gets %v", test.name, err)
		}
		session, err = s.Load(ctx, l, "run")
		check(t, err)
		want := before
		if test.written {
			want = after
		}
		if late != nil {
			check(t, late()) // it arrives, and does nothing
			late = nil
		}
		again, err := s.Load(ctx, l, "run")
		check(t, err)
		if !proto.Equal(session.Head, want) || !proto.Equal(again.Head, want) {
			t.Errorf("%s: %v, then %v; want %v", test.name, session.Head, again.Head, want)
		}
		session = again
	}
}

// A deletion that arrives late leaves alone what has the id by then: a session that was created anew, or one that was
// loaded to see what had become of the deletion.
func TestALateDeletion(t *testing.T) {
	s, proxy := proxied(t)
	l := lead(t, s)
	ctx := t.Context()
	for name, meanwhile := range map[string]func(){
		"created anew": func() {
			check(t, s.Delete(ctx, l, "run"))
			_, err := s.Create(ctx, l, meta("run"), files(1))
			check(t, err)
		},
		"loaded": func() {},
	} {
		_, err := s.Create(ctx, l, meta("run"), files(1))
		check(t, err)
		var late func() error
		proxy.OnTxn(func(forward func() error) error { late = forward; return storetest.ErrLost })
		if err := s.Delete(ctx, l, "run"); !errors.Is(err, ErrUnknown) {
			t.Fatalf("the request is late: %v", err)
		}
		proxy.OnTxn(nil)
		meanwhile()
		_, err = s.Load(ctx, l, "run")
		check(t, err)
		check(t, late())
		if _, err := s.Load(ctx, l, "run"); err != nil {
			t.Errorf("%s: the late deletion removes it: %v", name, err)
		}
		check(t, s.Delete(ctx, l, "run"))
		if err := s.Delete(ctx, l, "run"); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: deleted again: %v", name, err)
		}
	}
}

// A session that is loaded while it is being deleted is deleted.
func TestADeletionGoesOnAfterALoad(t *testing.T) {
	s, proxy := proxied(t)
	l := lead(t, s)
	ctx := t.Context()
	_, err := s.Create(ctx, l, meta("run"), files(1))
	check(t, err)
	proxy.OnTxn(func(forward func() error) error {
		proxy.OnTxn(nil)
		_, err := s.Load(ctx, l, "run")
		return errors.Join(err, forward())
	})
	check(t, s.Delete(ctx, l, "run"))
	if _, err := s.Load(ctx, l, "run"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is there still: %v", err)
	}
}

// An etcd that refuses to write says what to do, loses nothing, and serves again once somebody did it.
func TestAFullEtcd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cluster, err := storetest.Start(ctx, storetest.Config{
		Dir: t.TempDir(), Hosts: []string{"127.0.0.1"},
		Quota: 8 << 20,
	})
	check(t, err)
	t.Cleanup(func() { check(t, cluster.Close()) })
	s, err := Open(ctx, Config{Endpoints: cluster.Endpoints(), CallTimeout: time.Minute, LeaseTTL: time.Minute})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	l := lead(t, s)
	session, err := s.Create(ctx, l, meta("run"), files(1))
	check(t, err)
	check(t, s.Commit(ctx, l, session, Writes{Head: head(1)}))

	check(t, cluster.Fill(ctx))
	refusals := map[string]func() error{
		"commit":   func() error { return s.Commit(ctx, l, session, Writes{Head: head(2)}) },
		"load":     func() error { _, err := s.Load(ctx, l, "run"); return err },
		"create":   func() error { _, err := s.Create(ctx, l, meta("other"), files(1)); return err },
		"campaign": func() error { _, err := s.Campaign(ctx, "b"); return err },
	}
	for name, f := range refusals {
		if err := f(); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "alarm disarm") {
			t.Errorf("%s: %v", name, err)
		}
	}
	check(t, s.Compact(ctx, l)) // which is how it gets room
	check(t, cluster.MakeRoom(ctx))
	session, err = s.Load(ctx, l, "run")
	check(t, err)
	equal(t, "heads", []*pb.SessionHead{session.Head}, []*pb.SessionHead{head(1)})
	check(t, s.Commit(ctx, l, session, Writes{Head: head(2)}))
}

// Loading goes on when somebody else has etcd forget what it just read.
func TestCompactionWhileLoading(t *testing.T) {
	s := open(t, etcd(t))
	l := lead(t, s)
	ctx := t.Context()
	session, err := s.Create(ctx, l, meta("run"), files(1))
	check(t, err)
	w := Writes{Ranks: map[uint32]*pb.SessionRank{}}
	for r := range uint32(3 * scanKeys) {
		w.Ranks[r] = rank(1)
	}
	check(t, s.Commit(ctx, l, session, w))
	kv := &compacting{KV: s.client.KV, s: s, left: loadTries - 1}
	s.client.KV = kv
	loaded, err := s.Load(ctx, l, "run")
	check(t, err)
	if len(loaded.Ranks) != len(w.Ranks) || kv.left != 0 {
		t.Errorf("%d ranks, %d compactions to come", len(loaded.Ranks), kv.left)
	}
	kv.left = loadTries
	if _, err := s.Load(ctx, l, "run"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("compacted again and again: %v, want an error after which it is tried again", err)
	}
}

// compacting has etcd forget everything up to now before a few reads of ranks.
type compacting struct {
	clientv3.KV
	s    *Store
	left int
}

func (c *compacting) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if c.left > 0 && strings.Contains(key, "/"+dirRank) {
		c.left--
		resp, err := c.Put(ctx, "elsewhere", "")
		if err == nil {
			_, err = c.Compact(ctx, resp.Header.Revision)
		}
		if err != nil {
			return nil, err
		}
	}
	return c.KV.Get(ctx, key, opts...)
}
